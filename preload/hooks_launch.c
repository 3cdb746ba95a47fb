/* hooks_launch.c - kernel launches. */
#include "preload/hook.h"
#include "preload/process.h"

static CUresult launch_kernel(enum ag_sym sym, bool ptsz, CUfunction f, const unsigned int *grid,
                              const unsigned int *block, unsigned int shared_bytes, CUstream stream,
                              void **params, void **extra)
{
    /* Every member is named: clearing the others would take a third of the hook's time. */
    struct ag_launch launch = {
        .sym = sym,
        .ptsz = ptsz,
        .func = f,
        .grid = {grid[0], grid[1], grid[2]},
        .block = {block[0], block[1], block[2]},
        .shared_bytes = shared_bytes,
        .stream = stream,
        .params = params,
        .extra = extra,
        .attrs = NULL,
        .num_attrs = 0,
    };
    ag_process_op();
    return ag_capture_launch(&launch);
}

#define AG_LAUNCH_HOOK(name, is_ptsz)                                                              \
    AG_HOOK name(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,                       \
                 unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,            \
                 unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,            \
                 void **kernelParams, void **extra)                                                \
    {                                                                                              \
        if (!ag_hooked())                                                                          \
            return AG_CALL(name, f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, \
                           sharedMemBytes, hStream, kernelParams, extra);                          \
        return launch_kernel(AG_SYM_##name, is_ptsz, f,                                            \
                             (unsigned int[]){gridDimX, gridDimY, gridDimZ},                       \
                             (unsigned int[]){blockDimX, blockDimY, blockDimZ}, sharedMemBytes,    \
                             hStream, kernelParams, extra);                                        \
    }

AG_LAUNCH_HOOK(cuLaunchKernel, false)
AG_LAUNCH_HOOK(cuLaunchKernel_ptsz, true)

static CUresult launch_config(enum ag_sym sym, bool ptsz, const CUlaunchConfig *config,
                              CUfunction f, void **params, void **extra)
{
    struct ag_launch launch = {
        .sym = sym,
        .ptsz = ptsz,
        .func = f,
        .grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
        .block = {config->blockDimX, config->blockDimY, config->blockDimZ},
        .shared_bytes = config->sharedMemBytes,
        .stream = config->hStream,
        .params = params,
        .extra = extra,
        .attrs = config->attrs,
        .num_attrs = config->numAttrs,
    };
    ag_process_op();
    return ag_capture_launch(&launch);
}

/* The driver judges a config of NULL, and attributes that are said to exist and do not. */
#define AG_LAUNCH_EX_HOOK(name, is_ptsz)                                                           \
    AG_HOOK name(const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra)    \
    {                                                                                              \
        if (!ag_hooked() || !config || (config->numAttrs && !config->attrs))                       \
            return AG_CALL(name, config, f, kernelParams, extra);                                  \
        return launch_config(AG_SYM_##name, is_ptsz, config, f, kernelParams, extra);              \
    }

AG_LAUNCH_EX_HOOK(cuLaunchKernelEx, false)
AG_LAUNCH_EX_HOOK(cuLaunchKernelEx_ptsz, true)

/* Host functions run in stream order on a thread of the driver. */
AG_STREAM_HOOK(cuLaunchHostFunc, hStream, false, false,
               (CUstream hStream, CUhostFn fn, void *userData), (hStream, fn, userData))
AG_STREAM_HOOK(cuLaunchHostFunc_ptsz, hStream, true, false,
               (CUstream hStream, CUhostFn fn, void *userData), (hStream, fn, userData))
AG_STREAM_HOOK(cuStreamAddCallback, hStream, false, false,
               (CUstream hStream, CUstreamCallback callback, void *userData, unsigned int flags),
               (hStream, callback, userData, flags))
AG_STREAM_HOOK(cuStreamAddCallback_ptsz, hStream, true, false,
               (CUstream hStream, CUstreamCallback callback, void *userData, unsigned int flags),
               (hStream, callback, userData, flags))

/* A graph of the program, launched into a stream that may hold deferred work. */
AG_STREAM_HOOK(cuGraphLaunch, hStream, false, false, (CUgraphExec hGraphExec, CUstream hStream),
               (hGraphExec, hStream))
AG_STREAM_HOOK(cuGraphLaunch_ptsz, hStream, true, false, (CUgraphExec hGraphExec, CUstream hStream),
               (hGraphExec, hStream))
