/* hooks_launch.c - kernel launches. */
#include "capture/tracking/nap.h"
#include "preload/hook.h"
#include "preload/process.h"

/* The rest of a hook, once its stream is known not to sleep. */
#define AG_CAPTURE_LAUNCH(name, is_ptsz)                                                           \
    CUresult ag_capture_##name(                                                                    \
        CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,         \
        unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,                    \
        unsigned int sharedMemBytes, CUstream hStream, void **kernelParams, void **extra);         \
    CUresult ag_capture_##name(                                                                    \
        CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,         \
        unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,                    \
        unsigned int sharedMemBytes, CUstream hStream, void **kernelParams, void **extra)          \
    {                                                                                              \
        if (!ag_hooked())                                                                          \
            return AG_CALL(name, f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, \
                           sharedMemBytes, hStream, kernelParams, extra);                          \
        /* Every member is named: clearing the others would take a third of the time. */           \
        struct ag_launch launch = {                                                                \
            .sym = AG_SYM_##name,                                                                  \
            .ptsz = is_ptsz,                                                                       \
            .func = f,                                                                             \
            .dims = {gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ,                \
                     sharedMemBytes},                                                              \
            .stream = hStream,                                                                     \
            .params = kernelParams,                                                                \
            .extra = extra,                                                                        \
            .attrs = NULL,                                                                         \
            .num_attrs = 0,                                                                        \
        };                                                                                         \
        ag_process_op();                                                                           \
        return ag_capture_launch(&launch);                                                         \
    }

AG_CAPTURE_LAUNCH(cuLaunchKernel, false)
AG_CAPTURE_LAUNCH(cuLaunchKernel_ptsz, true)

/*
 * The hook: ag_nap_passes(), then a jump to the driver or to the rest, all arguments where they
 * are. On x86-64 it is written out, as five arguments lie on the stack, which compilers load and
 * store again around the jump: 4 ns of every launch. That a stream sleeps tells that the library
 * knows the driver.
 */
#define AG_LAUNCH_PARAMETERS                                                                       \
    CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,             \
        unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,                    \
        unsigned int sharedMemBytes, CUstream hStream, void **kernelParams, void **extra

#if defined(__x86_64__)
_Static_assert(sizeof(struct ag_nap_slot) == 24, "three times eight, as below");
#define AG_LAUNCH_HOOK(name, refuse_null)                                                          \
    AG_HOOK __attribute__((naked)) name(AG_LAUNCH_PARAMETERS)                                      \
    {                                                                                              \
        __asm__(                                                                                   \
            "endbr64\n\t"                                                                          \
            "movq    24(%%rsp), %%r10\n\t" /* the stream */                                        \
            refuse_null "movq    ag_naps@gottpoff(%%rip), %%r11\n\t"                               \
            "movabsq %[multiplier], %%rax\n\t"                                                     \
            "imulq   %%r10, %%rax\n\t"                                                             \
            "shrq    $62, %%rax\n\t"                                                               \
            "leaq    (%%rax, %%rax, 2), %%rax\n\t"                                                 \
            "leaq    %c[slots](%%r11, %%rax, 8), %%rax\n\t"                                        \
            "cmpq    %%r10, %%fs:%c[stream](%%rax)\n\t"                                            \
            "jne     1f\n\t"                                                                       \
            "movq    %%fs:%c[generation](%%r11), %%r11\n\t"                                        \
            "cmpq    %%r11, ag_stream_generation(%%rip)\n\t"                                       \
            "jne     1f\n\t"                                                                       \
            "movq    %%fs:%c[held](%%rax), %%r11\n\t"                                              \
            "movq    %%fs:%c[nap](%%rax), %%rax\n\t"                                               \
            "cmpl    $0, %c[active](%%rax)\n\t"                                                    \
            "je      1f\n\t"                                                                       \
            "cmpl    $0, (%%r11)\n\t"                                                              \
            "jne     1f\n\t"                                                                       \
            "movl    %c[left](%%rax), %%r11d\n\t"                                                  \
            "subl    $1, %%r11d\n\t"                                                               \
            "jc      1f\n\t"                                                                       \
            "movl    %%r11d, %c[left](%%rax)\n\t"                                                  \
            "jmp     *ag_real + %c[real](%%rip)\n"                                                 \
            "1:\tjmp  ag_capture_" #name                                                           \
            :                                                                                      \
            : [multiplier] "i"(AG_NAP_MULTIPLIER), [slots] "i"(offsetof(struct ag_naps, slots)),   \
              [stream] "i"(offsetof(struct ag_nap_slot, stream)),                                  \
              [generation] "i"(offsetof(struct ag_naps, generation)),                              \
              [held] "i"(offsetof(struct ag_nap_slot, held)),                                      \
              [nap] "i"(offsetof(struct ag_nap_slot, nap)),                                        \
              [active] "i"(offsetof(struct ag_nap, active)),                                       \
              [left] "i"(offsetof(struct ag_nap, left)),                                           \
              [real] "i"(AG_SYM_##name * sizeof(void *)));                                         \
    }
#define AG_NULL_IS_LEGACY     ""
#define AG_NULL_IS_PER_THREAD "testq   %%r10, %%r10\n\tje      1f\n\t"
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#else
#define AG_LAUNCH_HOOK(name, null_passes)                                                          \
    AG_HOOK name(AG_LAUNCH_PARAMETERS)                                                             \
    {                                                                                              \
        if (!((hStream || null_passes) && ag_nap_passes(hStream)))                                 \
            return ag_capture_##name(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY,        \
                                     blockDimZ, sharedMemBytes, hStream, kernelParams, extra);     \
        return AG_REAL(name)(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ,     \
                             sharedMemBytes, hStream, kernelParams, extra);                        \
    }
#define AG_NULL_IS_LEGACY     true
#define AG_NULL_IS_PER_THREAD false
#endif

AG_LAUNCH_HOOK(cuLaunchKernel, AG_NULL_IS_LEGACY)
AG_LAUNCH_HOOK(cuLaunchKernel_ptsz, AG_NULL_IS_PER_THREAD)

#if defined(__x86_64__)
#pragma GCC diagnostic pop
#endif

static __attribute__((noinline)) CUresult launch_config(enum ag_sym sym, bool ptsz,
                                                        const CUlaunchConfig *config, CUfunction f,
                                                        void **params, void **extra)
{
    struct ag_launch launch = {
        .sym = sym,
        .ptsz = ptsz,
        .func = f,
        .dims = {config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX,
                 config->blockDimY, config->blockDimZ, config->sharedMemBytes},
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
        if (!ag_hooked() || !config || (config->numAttrs && !config->attrs) ||                     \
            ((config->hStream || !is_ptsz) && ag_nap_passes(config->hStream)))                     \
            return AG_CALL(name, config, f, kernelParams, extra);                                  \
        return launch_config(AG_SYM_##name, is_ptsz, config, f, kernelParams, extra);              \
    }

AG_LAUNCH_EX_HOOK(cuLaunchKernelEx, false)
AG_LAUNCH_EX_HOOK(cuLaunchKernelEx_ptsz, true)

/* Host functions run in stream order on a thread of the driver, and may wait for the program. NULL
 * is left for the driver to refuse. `runs` is what is launched instead of `what`, and `rest` the
 * arguments behind userData. */
#define AG_HOST_HOOK(function, name, is_ptsz, params, as_function, as_callback, runs, rest)        \
    AG_HOOK function params                                                                        \
    {                                                                                              \
        CUresult pending = CUDA_SUCCESS;                                                           \
        struct ag_host_call *call = NULL;                                                          \
        if (ag_hooked()) {                                                                         \
            pending = ag_capture_stream_boundary(hStream, is_ptsz, AG_SYM_##name, false);          \
            if (what)                                                                              \
                call =                                                                             \
                    ag_capture_host_begins(hStream, is_ptsz, as_function, as_callback, userData);  \
        }                                                                                          \
        CUresult result = call ? AG_CALL(name, hStream, runs, call AG_UNWRAP rest)                 \
                               : AG_CALL(name, hStream, what, userData AG_UNWRAP rest);            \
        if (call)                                                                                  \
            ag_capture_host_ends(result == CUDA_SUCCESS ? NULL : call);                            \
        return ag_first_error(result, pending);                                                    \
    }
#define AG_FUNCTION_HOOK(name, is_ptsz)                                                            \
    AG_HOST_HOOK(name, name, is_ptsz, (CUstream hStream, CUhostFn what, void *userData), what,     \
                 NULL, ag_capture_host_function, ())
#define AG_FUNCTION_V2 (CUstream hStream, CUhostFn what, void *userData, unsigned int syncMode)
#define AG_FUNCTION_V2_HOOK(name, is_ptsz)                                                         \
    AG_NEWER(name, AG_FUNCTION_V2);                                                                \
    AG_HOST_HOOK(ag_newer_##name, name, is_ptsz, AG_FUNCTION_V2, what, NULL,                       \
                 ag_capture_host_function, (, syncMode))
#define AG_CALLBACK_HOOK(name, is_ptsz)                                                            \
    AG_HOST_HOOK(name, name, is_ptsz,                                                              \
                 (CUstream hStream, CUstreamCallback what, void *userData, unsigned int flags),    \
                 NULL, what, ag_capture_host_callback, (, flags))

AG_FUNCTION_HOOK(cuLaunchHostFunc, false)
AG_FUNCTION_HOOK(cuLaunchHostFunc_ptsz, true)
AG_FUNCTION_V2_HOOK(cuLaunchHostFunc_v2, false)
AG_FUNCTION_V2_HOOK(cuLaunchHostFunc_v2_ptsz, true)
AG_CALLBACK_HOOK(cuStreamAddCallback, false)
AG_CALLBACK_HOOK(cuStreamAddCallback_ptsz, true)

/* A graph of the program, launched into a stream that may hold deferred work. */
AG_WAIT_HOOK(cuGraphLaunch, false, ag_capture_graph_wait_begins,
             (CUgraphExec hGraphExec, CUstream stream), (hGraphExec, stream))
AG_WAIT_HOOK(cuGraphLaunch_ptsz, true, ag_capture_graph_wait_begins,
             (CUgraphExec hGraphExec, CUstream stream), (hGraphExec, stream))
