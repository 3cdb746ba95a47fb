/* hooks_function.c - attributes of kernels, and look-ups of kernels. A graph keeps the attributes
 * that were set when it was built. */
#include "preload/hook.h"

/* Values that ag_core_function_changes() takes in place of an attribute. */
enum { CACHE_CONFIG = -1, SHARED_MEM_CONFIG = -2 };

#define AG_FUNCTION_CHANGES_HOOK(name, func, attribute, value, device, params, args)               \
    AG_HOOK name params                                                                            \
    {                                                                                              \
        if (!ag_hooked())                                                                          \
            return AG_CALL(name, AG_UNWRAP args);                                                  \
        enum ag_change change = ag_core_function_changes(                                          \
            (CUfunction)(func), (int)(attribute), (int)(value), (int)(device), AG_SYM_##name);     \
        CUresult result = AG_CALL(name, AG_UNWRAP args);                                           \
        ag_core_function_changed((CUfunction)(func), (int)(attribute), (int)(value),               \
                                 (int)(device), change, result);                                   \
        return result;                                                                             \
    }

AG_FUNCTION_CHANGES_HOOK(cuFuncSetAttribute, hfunc, attrib, value, AG_ANY_DEVICE,
                         (CUfunction hfunc, CUfunction_attribute attrib, int value),
                         (hfunc, attrib, value))
AG_FUNCTION_CHANGES_HOOK(cuFuncSetCacheConfig, hfunc, CACHE_CONFIG, config, AG_ANY_DEVICE,
                         (CUfunction hfunc, CUfunc_cache config), (hfunc, config))
AG_FUNCTION_CHANGES_HOOK(cuFuncSetSharedMemConfig, hfunc, SHARED_MEM_CONFIG, config, AG_ANY_DEVICE,
                         (CUfunction hfunc, CUsharedconfig config), (hfunc, config))
AG_FUNCTION_CHANGES_HOOK(cuKernelSetAttribute, kernel, attrib, val, dev,
                         (CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev),
                         (attrib, val, kernel, dev))
AG_FUNCTION_CHANGES_HOOK(cuKernelSetCacheConfig, kernel, CACHE_CONFIG, config, dev,
                         (CUkernel kernel, CUfunc_cache config, CUdevice dev),
                         (kernel, config, dev))

/* The program asks for a kernel by its name. This may load the kernel's code, so the call is made
 * once more if memory was short. */
#define AG_KERNEL_FOUND_HOOK(name, params, args)                                                   \
    AG_HOOK name params                                                                            \
    {                                                                                              \
        bool hooked = ag_hooked();                                                                 \
        CUresult result = AG_CALL(name, AG_UNWRAP args);                                           \
        for (unsigned int tries = 1;                                                               \
             hooked && result == CUDA_ERROR_OUT_OF_MEMORY && ag_core_gives_memory(tries); tries++) \
            result = AG_CALL(name, AG_UNWRAP args);                                                \
        if (hooked && result == CUDA_SUCCESS)                                                      \
            ag_core_kernel_found(kernel);                                                          \
        return result;                                                                             \
    }

AG_KERNEL_FOUND_HOOK(cuModuleGetFunction, (CUfunction * hfunc, CUmodule hmod, const char *kernel),
                     (hfunc, hmod, kernel))
AG_KERNEL_FOUND_HOOK(cuLibraryGetKernel,
                     (CUkernel * pKernel, CUlibrary library, const char *kernel),
                     (pKernel, library, kernel))

/* The program asks for several kernels at once: for all of them, or as many as it has room for. */
#define AG_KERNELS_FOUND_HOOK(name, type, owner_type, count, told)                                 \
    AG_HOOK name(type *found, unsigned int room, owner_type owner)                                 \
    {                                                                                              \
        unsigned int n = 0;                                                                        \
        bool hooked = ag_hooked();                                                                 \
        CUresult result = AG_CALL(name, found, room, owner);                                       \
        if (hooked && result == CUDA_SUCCESS && AG_CALL(count, &n, owner) == CUDA_SUCCESS)         \
            told(found, n < room ? n : room);                                                      \
        return result;                                                                             \
    }

AG_KERNELS_FOUND_HOOK(cuModuleEnumerateFunctions, CUfunction, CUmodule, cuModuleGetFunctionCount,
                      ag_core_functions_found)
AG_KERNELS_FOUND_HOOK(cuLibraryEnumerateKernels, CUkernel, CUlibrary, cuLibraryGetKernelCount,
                      ag_core_kernels_found)
