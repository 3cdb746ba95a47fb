/* hooks_function.c - attributes of kernels: a graph keeps those that held when it was built. */
#include "preload/hook.h"

/* What ag_capture_function_changes() takes in place of an attribute. */
enum { CACHE_CONFIG = -1, SHARED_MEM_CONFIG = -2 };

#define AG_FUNCTION_CHANGES_HOOK(name, func, attribute, value, device, params, args)               \
    AG_HOOK name params                                                                            \
    {                                                                                              \
        if (!ag_hooked())                                                                          \
            return AG_CALL(name, AG_UNWRAP args);                                                  \
        enum ag_change change = ag_capture_function_changes(                                       \
            (CUfunction)(func), (int)(attribute), (int)(value), (int)(device), AG_SYM_##name);     \
        CUresult result = AG_CALL(name, AG_UNWRAP args);                                           \
        ag_capture_function_changed((CUfunction)(func), (int)(attribute), (int)(value),            \
                                    (int)(device), change, result);                                \
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
