/* hooks_context.c - contexts: what waits for one, ends one, or changes the defaults of its
 * launches. */
#include "preload/hook.h"

/* Headers before CUDA 13 do not declare it. */
AG_HOOK cuCtxSynchronize_v2(CUcontext ctx);

AG_BARRIER_HOOK(cuCtxSynchronize, (void), ())
AG_BARRIER_HOOK(cuCtxSynchronize_v2, (CUcontext ctx), (ctx))

#define AG_CONTEXT_DIES_HOOK(name, context, type)                                                  \
    AG_HOOK name(type which)                                                                       \
    {                                                                                              \
        if (ag_hooked())                                                                           \
            ag_capture_context_dies(context, AG_SYM_##name);                                       \
        return AG_CALL(name, which);                                                               \
    }

AG_CONTEXT_DIES_HOOK(cuCtxDestroy, which, CUcontext)
AG_CONTEXT_DIES_HOOK(cuCtxDestroy_v2, which, CUcontext)
AG_CONTEXT_DIES_HOOK(cuCtxDetach, which, CUcontext)
AG_CONTEXT_DIES_HOOK(cuDevicePrimaryCtxReset, NULL, CUdevice)
AG_CONTEXT_DIES_HOOK(cuDevicePrimaryCtxReset_v2, NULL, CUdevice)

#define AG_PRIMARY_RELEASE_HOOK(name)                                                              \
    AG_HOOK name(CUdevice device)                                                                  \
    {                                                                                              \
        CUcontext ctx = ag_hooked() ? ag_capture_primary_releases(device, AG_SYM_##name) : NULL;   \
        CUresult r = AG_CALL(name, device);                                                        \
        ag_capture_primary_released(ctx, device);                                                  \
        return r;                                                                                  \
    }

AG_PRIMARY_RELEASE_HOOK(cuDevicePrimaryCtxRelease)
AG_PRIMARY_RELEASE_HOOK(cuDevicePrimaryCtxRelease_v2)

/*
 * Limits and configurations are part of what a graph was instantiated with. Frameworks set the
 * value that is already set, again and again: that changes nothing.
 */
#define AG_CONTEXT_CHANGES_HOOK(name, getter, params, args, old_type, asked, wanted)               \
    AG_HOOK name params                                                                            \
    {                                                                                              \
        if (ag_hooked()) {                                                                         \
            old_type old;                                                                          \
            if (AG_CALL(getter, AG_UNWRAP asked) != CUDA_SUCCESS || old != (wanted))               \
                ag_capture_functions_die(AG_SYM_##name);                                           \
        }                                                                                          \
        return AG_CALL(name, AG_UNWRAP args);                                                      \
    }

AG_CONTEXT_CHANGES_HOOK(cuCtxSetLimit, cuCtxGetLimit, (CUlimit limit, size_t value), (limit, value),
                        size_t, (&old, limit), value)
AG_CONTEXT_CHANGES_HOOK(cuCtxSetCacheConfig, cuCtxGetCacheConfig, (CUfunc_cache config), (config),
                        CUfunc_cache, (&old), config)
AG_CONTEXT_CHANGES_HOOK(cuCtxSetSharedMemConfig, cuCtxGetSharedMemConfig, (CUsharedconfig config),
                        (config), CUsharedconfig, (&old), config)
