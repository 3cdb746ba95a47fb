/* hooks_launch.c - kernel launches. */
#include "capture/tracking/dormant.h"
#include "driver/attribute.h"
#include "preload/hook.h"
#include "preload/launch_stub.h"
#include "preload/process.h"

/* The rest of a hook, once it is known that the stream is not dormant. */
#define AG_CAPTURE_LAUNCH(name, is_ptsz)                                                           \
    CUresult ag_core_##name(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,            \
                            unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY, \
                            unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream, \
                            void **kernelParams, void **extra);                                    \
    __attribute__((hot)) CUresult ag_core_##name(                                                  \
        CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,         \
        unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,                    \
        unsigned int sharedMemBytes, CUstream hStream, void **kernelParams, void **extra)          \
    {                                                                                              \
        if (!ag_hooked())                                                                          \
            return AG_CALL(name, f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, \
                           sharedMemBytes, hStream, kernelParams, extra);                          \
        /* Names every member: clearing the others would take a third of the time. */              \
        struct ag_launch launch = {                                                                \
            .sym = AG_SYM_##name,                                                                  \
            .ptsz = is_ptsz,                                                                       \
            .func = f,                                                                             \
            .dims = {gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ,                \
                     sharedMemBytes},                                                              \
            .stream = ag_named(hStream, is_ptsz),                                                  \
            .params = kernelParams,                                                                \
            .extra = extra,                                                                        \
            .attrs = NULL,                                                                         \
            .num_attrs = 0,                                                                        \
        };                                                                                         \
        ag_process_op();                                                                           \
        return ag_core_launch(&launch);                                                            \
    }

AG_CAPTURE_LAUNCH(cuLaunchKernel, AG_LEGACY)
AG_CAPTURE_LAUNCH(cuLaunchKernel_ptsz, AG_PTSZ)

/*
 * The hook calls ag_dormant_passes(), then jumps to the driver or to the rest with all arguments
 * in place. On x86-64 it is launch_x86_64.S. It needs no check that the library knows the driver:
 * no stream can be dormant otherwise.
 */
#if defined(__x86_64__)
_Static_assert(sizeof(struct ag_dormant_slot) == AG_LAUNCH_SLOT_SIZE, "as launch_x86_64.S has it");
_Static_assert(offsetof(struct ag_thread, dormant) == AG_LAUNCH_SLOTS, "as launch_x86_64.S has it");
_Static_assert(offsetof(struct ag_thread, generation) == AG_LAUNCH_GENERATION, "the same");
_Static_assert(offsetof(struct ag_dormant_slot, stream) == AG_LAUNCH_STREAM, "the same");
_Static_assert(offsetof(struct ag_dormant_slot, dormant) == AG_LAUNCH_DORMANT, "the same");
_Static_assert(offsetof(struct ag_dormant_slot, held) == AG_LAUNCH_HELD, "the same");
_Static_assert(offsetof(struct ag_dormant, active) == AG_LAUNCH_ACTIVE, "the same");
_Static_assert(offsetof(struct ag_dormant, left) == AG_LAUNCH_LEFT, "the same");
_Static_assert(AG_DORMANT_MULTIPLIER == AG_LAUNCH_MULTIPLIER, "the same");
#else
#define AG_LAUNCH_PARAMETERS                                                                       \
    CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,             \
        unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,                    \
        unsigned int sharedMemBytes, CUstream hStream, void **kernelParams, void **extra

#define AG_LAUNCH_HOOK(name, is_ptsz)                                                              \
    __attribute__((hot)) AG_HOOK name(AG_LAUNCH_PARAMETERS)                                        \
    {                                                                                              \
        if (!ag_dormant_passes(hStream, is_ptsz))                                                  \
            return ag_core_##name(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY,           \
                                  blockDimZ, sharedMemBytes, hStream, kernelParams, extra);        \
        return AG_REAL(name)(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ,     \
                             sharedMemBytes, hStream, kernelParams, extra);                        \
    }

AG_LAUNCH_HOOK(cuLaunchKernel, AG_LEGACY)
AG_LAUNCH_HOOK(cuLaunchKernel_ptsz, AG_PTSZ)
#endif

static __attribute__((noinline, hot)) CUresult launch_config(enum ag_sym sym, bool ptsz,
                                                             const CUlaunchConfig *config,
                                                             CUfunction f, void **params,
                                                             void **extra)
{
    struct ag_launch launch = {
        .sym = sym,
        .ptsz = ptsz,
        .func = f,
        .dims = {config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX,
                 config->blockDimY, config->blockDimZ, config->sharedMemBytes},
        .stream = ag_named(config->hStream, ptsz),
        .params = params,
        .extra = extra,
        .attrs = config->attrs,
        .num_attrs = config->numAttrs,
    };
    ag_process_op();
    return ag_core_launch(&launch);
}

/* Whether the launch may record an event: two attributes name one, and so may those of newer
 * drivers. */
static bool may_record(const CUlaunchConfig *config)
{
    for (unsigned int i = 0; i < config->numAttrs; i++)
        if (!ag_attribute_is_known(&config->attrs[i]))
            return true;
    return false;
}

/* It is for the driver to judge a config of NULL, and a NULL list of attributes with a count above
 * 0. */
#define AG_LAUNCH_EX_HOOK(name, is_ptsz)                                                           \
    __attribute__((hot)) AG_HOOK name(const CUlaunchConfig *config, CUfunction f,                  \
                                      void **kernelParams, void **extra)                           \
    {                                                                                              \
        if (!ag_hooked() || !config || (config->numAttrs && !config->attrs))                       \
            return AG_CALL(name, config, f, kernelParams, extra);                                  \
        if (may_record(config))                                                                    \
            ag_core_events_unseen();                                                               \
        if (ag_dormant_passes(config->hStream, is_ptsz))                                           \
            return AG_CALL(name, config, f, kernelParams, extra);                                  \
        return launch_config(AG_SYM_##name, is_ptsz, config, f, kernelParams, extra);              \
    }

AG_LAUNCH_EX_HOOK(cuLaunchKernelEx, AG_LEGACY)
AG_LAUNCH_EX_HOOK(cuLaunchKernelEx_ptsz, AG_PTSZ)

/* To the library, a cooperative launch is any launch with that attribute. */
#define AG_COOPERATIVE_HOOK(name, is_ptsz)                                                         \
    AG_HOOK name(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,                       \
                 unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,            \
                 unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,            \
                 void **kernelParams)                                                              \
    {                                                                                              \
        if (!ag_hooked() || ag_dormant_passes(hStream, is_ptsz))                                   \
            return AG_CALL(name, f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, \
                           sharedMemBytes, hStream, kernelParams);                                 \
        CUlaunchAttribute cooperative = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE,                    \
                                         .value.cooperative = 1};                                  \
        CUlaunchConfig config = {gridDimX,  gridDimY,       gridDimZ, blockDimX,    blockDimY,     \
                                 blockDimZ, sharedMemBytes, hStream,  &cooperative, 1};            \
        return launch_config(AG_SYM_##name, is_ptsz, &config, f, kernelParams, NULL);              \
    }

AG_COOPERATIVE_HOOK(cuLaunchCooperativeKernel, false)
AG_COOPERATIVE_HOOK(cuLaunchCooperativeKernel_ptsz, true)

/* Host functions run in stream order on a driver thread, and may wait for the program, or for what
 * this thread has launched into other streams. A NULL function is left for the driver to refuse.
 * `runs` is the function that is launched instead of `what`; `rest` are the arguments after
 * userData. */
#define AG_HOST_HOOK(function, name, is_ptsz, params, as_function, as_callback, runs, rest)        \
    AG_HOOK function params                                                                        \
    {                                                                                              \
        CUresult pending = CUDA_SUCCESS;                                                           \
        struct ag_host_call *call = NULL;                                                          \
        if (ag_hooked()) {                                                                         \
            pending = ag_core_stream_sync_point(hStream, is_ptsz, AG_SYM_##name, AG_BLOCKS);       \
            if (what)                                                                              \
                call = ag_core_host_begins(hStream, is_ptsz, as_function, as_callback, userData);  \
        }                                                                                          \
        CUresult result = call ? AG_CALL(name, hStream, runs, call AG_UNWRAP rest)                 \
                               : AG_CALL(name, hStream, what, userData AG_UNWRAP rest);            \
        if (call)                                                                                  \
            ag_core_host_ends(result == CUDA_SUCCESS ? NULL : call);                               \
        return ag_first_error_of(hStream, is_ptsz, result, pending);                               \
    }
#define AG_FUNCTION_HOOK(name, is_ptsz)                                                            \
    AG_HOST_HOOK(name, name, is_ptsz, (CUstream hStream, CUhostFn what, void *userData), what,     \
                 NULL, ag_core_host_function, ())
#define AG_FUNCTION_V2 (CUstream hStream, CUhostFn what, void *userData, unsigned int syncMode)
#define AG_FUNCTION_V2_HOOK(name, is_ptsz)                                                         \
    AG_NEWER(name, AG_FUNCTION_V2);                                                                \
    AG_HOST_HOOK(ag_newer_##name, name, is_ptsz, AG_FUNCTION_V2, what, NULL,                       \
                 ag_core_host_function, (, syncMode))
#define AG_CALLBACK_HOOK(name, is_ptsz)                                                            \
    AG_HOST_HOOK(name, name, is_ptsz,                                                              \
                 (CUstream hStream, CUstreamCallback what, void *userData, unsigned int flags),    \
                 NULL, what, ag_core_host_callback, (, flags))

AG_FUNCTION_HOOK(cuLaunchHostFunc, AG_LEGACY)
AG_FUNCTION_HOOK(cuLaunchHostFunc_ptsz, AG_PTSZ)
AG_FUNCTION_V2_HOOK(cuLaunchHostFunc_v2, AG_LEGACY)
AG_FUNCTION_V2_HOOK(cuLaunchHostFunc_v2_ptsz, AG_PTSZ)
AG_CALLBACK_HOOK(cuStreamAddCallback, AG_LEGACY)
AG_CALLBACK_HOOK(cuStreamAddCallback_ptsz, AG_PTSZ)

/* Launches one of the program's graphs into a stream that may hold deferred work. */
AG_WAIT_HOOK(cuGraphLaunch, AG_LEGACY, ag_core_graph_wait_begins, ag_core_graphs_may_wait(),
             (CUgraphExec hGraphExec, CUstream stream), (hGraphExec, stream))
AG_WAIT_HOOK(cuGraphLaunch_ptsz, AG_PTSZ, ag_core_graph_wait_begins, ag_core_graphs_may_wait(),
             (CUgraphExec hGraphExec, CUstream stream), (hGraphExec, stream))
