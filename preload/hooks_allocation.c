/*
 * hooks_allocation.c - calls that may fail for lack of device memory. If one fails and the library
 * gives its graphs back, the hook makes the call once more. Only the driver writes the results.
 */
#include "preload/hook.h"

static inline bool gives_memory(CUresult result, unsigned int tries)
{
    return !AG_LIKELY(result != CUDA_ERROR_OUT_OF_MEMORY) && ag_core_gives_memory(tries);
}

/* `before`: what a stub would have done. */
#define AG_SCARCE_HOOK(name, before, params, args)                                                 \
    AG_HOOK name params                                                                            \
    {                                                                                              \
        if (!ag_hooked())                                                                          \
            return AG_CALL(name, AG_UNWRAP args);                                                  \
        before;                                                                                    \
        CUresult result = AG_CALL(name, AG_UNWRAP args);                                           \
        for (unsigned int tries = 1; gives_memory(result, tries); tries++)                         \
            result = AG_CALL(name, AG_UNWRAP args);                                                \
        return ag_own_error(result);                                                               \
    }

static inline bool nothing_is_open(void)
{
    return AG_LIKELY(!atomic_load_explicit(&ag_open_streams, memory_order_acquire));
}

#define AG_ALLOCATION_HOOK(name, params, args)                                                     \
    AG_SCARCE_HOOK(name, nothing_is_open() ? (void)0 : ag_core_barrier_quiet(AG_SYM_##name),       \
                   params, args)
#define AG_STREAM_ALLOCATION_HOOK(name, is_ptsz, params, args)                                     \
    AG_SCARCE_HOOK(name,                                                                           \
                   nothing_is_open()                                                               \
                       ? (void)0                                                                   \
                       : ag_core_stream_sync_point_quiet(hStream, is_ptsz, AG_SYM_##name, false),  \
                   params, args)
#define AG_PASSING_HOOK(name, params, args) AG_SCARCE_HOOK(name, (void)0, params, args)

AG_ALLOCATION_HOOK(cuMemAlloc_v2, (CUdeviceptr * dptr, size_t bytesize), (dptr, bytesize))
AG_ALLOCATION_HOOK(cuMemAllocPitch_v2,
                   (CUdeviceptr * dptr, size_t *pPitch, size_t WidthInBytes, size_t Height,
                    unsigned int ElementSizeBytes),
                   (dptr, pPitch, WidthInBytes, Height, ElementSizeBytes))
AG_ALLOCATION_HOOK(cuMemAllocManaged, (CUdeviceptr * dptr, size_t bytesize, unsigned int flags),
                   (dptr, bytesize, flags))

AG_ALLOCATION_HOOK(cuMemCreate,
                   (CUmemGenericAllocationHandle * handle, size_t size,
                    const CUmemAllocationProp *prop, unsigned long long flags),
                   (handle, size, prop, flags))

/* Memory of the host to which kernels may write. Graphs that go would give none of it back. */
#define AG_HOST_MEMORY_HOOK(name, told, params, args)                                              \
    AG_HOOK name params                                                                            \
    {                                                                                              \
        if (!ag_hooked())                                                                          \
            return AG_CALL(name, AG_UNWRAP args);                                                  \
        if (!nothing_is_open())                                                                    \
            ag_core_barrier_quiet(AG_SYM_##name);                                                  \
        CUresult result = AG_CALL(name, AG_UNWRAP args);                                           \
        if (result == CUDA_SUCCESS)                                                                \
            told;                                                                                  \
        return ag_own_error(result);                                                               \
    }
AG_HOST_MEMORY_HOOK(cuMemHostAlloc, ag_core_pinned(*pp, bytesize),
                    (void **pp, size_t bytesize, unsigned int Flags), (pp, bytesize, Flags))
AG_HOST_MEMORY_HOOK(cuMemAllocHost_v2, ag_core_pinned(*pp, bytesize), (void **pp, size_t bytesize),
                    (pp, bytesize))
AG_HOST_MEMORY_HOOK(cuMemAllocHost, ag_core_pinned(*pp, bytesize),
                    (void **pp, unsigned int bytesize), (pp, bytesize))
AG_HOST_MEMORY_HOOK(cuMemHostRegister, ag_core_pinned(p, bytesize),
                    (void *p, size_t bytesize, unsigned int Flags), (p, bytesize, Flags))
AG_HOST_MEMORY_HOOK(cuMemHostRegister_v2, ag_core_pinned(p, bytesize),
                    (void *p, size_t bytesize, unsigned int Flags), (p, bytesize, Flags))
/* What comes of such a pool may lie anywhere. */
AG_HOST_MEMORY_HOOK(cuMemPoolCreate,
                    ag_core_host_memory(0, poolProps->location.type == CU_MEM_LOCATION_TYPE_DEVICE
                                               ? 0
                                               : UINT64_MAX),
                    (CUmemoryPool * pool, const CUmemPoolProps *poolProps), (pool, poolProps))
AG_HOOK cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                 unsigned long long flags)
{
    if (!ag_hooked())
        return AG_CALL(cuMemMap, ptr, size, offset, handle, flags);
    if (!nothing_is_open())
        ag_core_barrier_quiet(AG_SYM_cuMemMap);
    ag_core_invalidate_memory();
    CUresult result = AG_CALL(cuMemMap, ptr, size, offset, handle, flags);
    if (result == CUDA_SUCCESS)
        ag_core_memory_mapped(ptr, size, handle);
    return result;
}
/* Devices may get access to memory of another. */
AG_HOOK cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
    if (!ag_hooked())
        return AG_CALL(cuMemSetAccess, ptr, size, desc, count);
    if (!nothing_is_open())
        ag_core_barrier_quiet(AG_SYM_cuMemSetAccess);
    ag_core_invalidate_memory();
    CUresult result = AG_CALL(cuMemSetAccess, ptr, size, desc, count);
    if (result == CUDA_SUCCESS)
        ag_core_access_given(ptr, desc, count);
    return ag_own_error(result);
}
AG_ALLOCATION_HOOK(cuArrayCreate_v2,
                   (CUarray * pHandle, const CUDA_ARRAY_DESCRIPTOR *pAllocateArray),
                   (pHandle, pAllocateArray))
AG_ALLOCATION_HOOK(cuArray3DCreate_v2,
                   (CUarray * pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray),
                   (pHandle, pAllocateArray))
AG_ALLOCATION_HOOK(cuMipmappedArrayCreate,
                   (CUmipmappedArray * pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pMipmappedArrayDesc,
                    unsigned int numMipmapLevels),
                   (pHandle, pMipmappedArrayDesc, numMipmapLevels))

#define AG_ASYNC_HOOKS(name, is_ptsz)                                                              \
    AG_STREAM_ALLOCATION_HOOK(name, is_ptsz,                                                       \
                              (CUdeviceptr * dptr, size_t bytesize, CUstream hStream),             \
                              (dptr, bytesize, hStream))
#define AG_POOL_HOOKS(name, is_ptsz)                                                               \
    AG_STREAM_ALLOCATION_HOOK(                                                                     \
        name, is_ptsz, (CUdeviceptr * dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream), \
        (dptr, bytesize, pool, hStream))
AG_ASYNC_HOOKS(cuMemAllocAsync, AG_LEGACY)
AG_ASYNC_HOOKS(cuMemAllocAsync_ptsz, AG_PTSZ)
AG_POOL_HOOKS(cuMemAllocFromPoolAsync, AG_LEGACY)
AG_POOL_HOOKS(cuMemAllocFromPoolAsync_ptsz, AG_PTSZ)

/*
 * Calls that load code or build a graph. They may wait for the GPU while they hold the driver's
 * locks. If the GPU then waited for something that is still held back, nobody could submit it. Code
 * may also be loaded when a function is first asked for (cuKernelGetFunction), but programs make
 * that call thousands of times.
 */
AG_ALLOCATION_HOOK(cuModuleLoad, (CUmodule * module, const char *fname), (module, fname))
AG_ALLOCATION_HOOK(cuModuleLoadData, (CUmodule * module, const void *image), (module, image))
AG_ALLOCATION_HOOK(cuModuleLoadDataEx,
                   (CUmodule * module, const void *image, unsigned int numOptions,
                    CUjit_option *options, void **optionValues),
                   (module, image, numOptions, options, optionValues))
AG_ALLOCATION_HOOK(cuModuleLoadFatBinary, (CUmodule * module, const void *fatCubin),
                   (module, fatCubin))
#define AG_LIBRARY_PARAMS(type, from)                                                              \
    (CUlibrary * library, const type *from, CUjit_option *jitOptions, void **jitOptionsValues,     \
     unsigned int numJitOptions, CUlibraryOption *libraryOptions, void **libraryOptionValues,      \
     unsigned int numLibraryOptions)
#define AG_LIBRARY_ARGS(from)                                                                      \
    (library, from, jitOptions, jitOptionsValues, numJitOptions, libraryOptions,                   \
     libraryOptionValues, numLibraryOptions)
AG_ALLOCATION_HOOK(cuLibraryLoadData, AG_LIBRARY_PARAMS(void, code), AG_LIBRARY_ARGS(code))
AG_ALLOCATION_HOOK(cuLibraryLoadFromFile, AG_LIBRARY_PARAMS(char, fileName),
                   AG_LIBRARY_ARGS(fileName))
AG_ALLOCATION_HOOK(cuLibraryGetModule, (CUmodule * pMod, CUlibrary library), (pMod, library))
/* cudart makes one in each cudaGetSymbolAddress and cudaMemcpyToSymbolAsync. */
#define AG_LOOKUP_HOOK(function, owner, params, args, what)                                        \
    AG_HOOK function params                                                                        \
    {                                                                                              \
        if (!ag_hooked() || nothing_is_open())                                                     \
            return AG_CALL(function, AG_UNWRAP args);                                              \
        uint64_t lookup = ag_core_lookup(owner, what);                                             \
        if (ag_core_lookup_loads(lookup))                                                          \
            ag_core_barrier_quiet(AG_SYM_##function);                                              \
        CUresult result = AG_CALL(function, AG_UNWRAP args);                                       \
        for (unsigned int tries = 1; gives_memory(result, tries); tries++)                         \
            result = AG_CALL(function, AG_UNWRAP args);                                            \
        ag_core_looked_up(lookup, result);                                                         \
        return result;                                                                             \
    }
AG_LOOKUP_HOOK(cuLibraryGetGlobal, library,
               (CUdeviceptr * dptr, size_t *bytes, CUlibrary library, const char *name),
               (dptr, bytes, library, name), name)
AG_LOOKUP_HOOK(cuLibraryGetManaged, library,
               (CUdeviceptr * dptr, size_t *bytes, CUlibrary library, const char *name),
               (dptr, bytes, library, name), name)
AG_LOOKUP_HOOK(cuLibraryGetUnifiedFunction, library,
               (void **fptr, CUlibrary library, const char *symbol), (fptr, library, symbol),
               symbol)
AG_LOOKUP_HOOK(cuModuleGetGlobal_v2, module,
               (CUdeviceptr * dptr, size_t *bytes, CUmodule module, const char *name),
               (dptr, bytes, module, name), name)
AG_PASSING_HOOK(cuKernelGetFunction, (CUfunction * pFunc, CUkernel kernel), (pFunc, kernel))
AG_ALLOCATION_HOOK(cuFuncLoad, (CUfunction function), (function))

/* Calls that create streams and the program's own graphs. */
AG_PASSING_HOOK(cuStreamCreate, (CUstream * phStream, unsigned int Flags), (phStream, Flags))
AG_PASSING_HOOK(cuStreamCreateWithPriority, (CUstream * phStream, unsigned int flags, int priority),
                (phStream, flags, priority))
#define AG_INSTANTIATE_LOG_PARAMS                                                                  \
    (CUgraphExec * phGraphExec, CUgraph hGraph, CUgraphNode * phErrorNode, char *logBuffer,        \
     size_t bufferSize)
#define AG_INSTANTIATE_LOG_ARGS (phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize)
AG_ALLOCATION_HOOK(cuGraphInstantiate, AG_INSTANTIATE_LOG_PARAMS, AG_INSTANTIATE_LOG_ARGS)
AG_ALLOCATION_HOOK(cuGraphInstantiate_v2, AG_INSTANTIATE_LOG_PARAMS, AG_INSTANTIATE_LOG_ARGS)
AG_ALLOCATION_HOOK(cuGraphInstantiateWithFlags,
                   (CUgraphExec * phGraphExec, CUgraph hGraph, unsigned long long flags),
                   (phGraphExec, hGraph, flags))
#define AG_INSTANTIATE_PARAMS                                                                      \
    (CUgraphExec * phGraphExec, CUgraph hGraph, CUDA_GRAPH_INSTANTIATE_PARAMS * instantiateParams)
AG_ALLOCATION_HOOK(cuGraphInstantiateWithParams, AG_INSTANTIATE_PARAMS,
                   (phGraphExec, hGraph, instantiateParams))
AG_ALLOCATION_HOOK(cuGraphInstantiateWithParams_ptsz, AG_INSTANTIATE_PARAMS,
                   (phGraphExec, hGraph, instantiateParams))
