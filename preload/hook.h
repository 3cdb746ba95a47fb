/*
 * hook.h - what every hook in C needs.
 *
 * A hook has the name of its entry point, so that the compiler checks it against cuda.h; the name
 * is not exported (link.c). A hook must do nothing of its own if the library has not started and
 * cannot start. It must not read through a pointer of the program before the real call has
 * accepted the pointer, unless the call has no meaning without that pointer and the hook has
 * excluded NULL.
 */
#pragma once

#include "capture/capture.h"
#include "preload/resolve.h"

#define AG_HOOK CUresult CUDAAPI

/* Declares the hook of an entry point of newer.h. Newer CUDA headers may declare that entry point
 * with types of their own, so the hook has another name in C. */
#define AG_NEWER(name, params) AG_HOOK ag_newer_##name params __asm__(#name)

/* For `ptsz` and `blocks` (capture.h). */
enum { AG_LEGACY = false, AG_PTSZ = true };
enum { AG_RETURNS = false, AG_BLOCKS = true };

/* The handle of a stream, with a name of its own for the calling thread's default stream. */
static inline CUstream ag_named(CUstream stream, bool ptsz)
{
    return ptsz && !stream ? CU_STREAM_PER_THREAD : stream;
}

#define AG_LIKELY(x) __builtin_expect(!!(x), 1)

/* The real call, as the value of an expression. If the driver lacks the function, the result is
 * the getter's error. */
#define AG_CALL(name, ...) (AG_HAVE(name) ? AG_REAL(name)(__VA_ARGS__) : CUDA_ERROR_NOT_FOUND)

/* What a call returns: its own error, else that of deferred work. */
static inline CUresult ag_first_error(CUresult result, CUresult pending)
{
    ag_returned();
    if (AG_LIKELY(result == CUDA_SUCCESS && pending == CUDA_SUCCESS))
        return CUDA_SUCCESS;
    return ag_core_first_error(result, pending);
}

/* The same for a call on a stream. */
static inline CUresult ag_first_error_of(CUstream stream, bool ptsz, CUresult result,
                                         CUresult pending)
{
    ag_returned();
    if (AG_LIKELY(result == CUDA_SUCCESS && pending == CUDA_SUCCESS))
        return CUDA_SUCCESS;
    return ag_core_stream_first_error(stream, ptsz, result, pending);
}

/* What a call returns that tells no error of deferred work. Its own may have ended the context. */
static inline CUresult ag_own_error(CUresult result)
{
    return ag_first_error(result, CUDA_SUCCESS);
}

#define AG_UNWRAP(...) __VA_ARGS__

/* A call on one stream that is not an op. Put `params` and `args` in parentheses. */
#define AG_STREAM_HOOK(name, stream, ptsz, blocks, params, args)                                   \
    AG_HOOK name params                                                                            \
    {                                                                                              \
        CUresult pending = CUDA_SUCCESS;                                                           \
        if (ag_hooked())                                                                           \
            pending = ag_core_stream_sync_point(stream, ptsz, AG_SYM_##name, blocks);              \
        return ag_first_error_of(stream, ptsz, AG_CALL(name, AG_UNWRAP args), pending);            \
    }

/* A call on the stream `stream` after which the stream may wait for something that the program
 * does later; `begins` returns whether it may. `blocks`: it may wait for what this thread has
 * deferred on other streams. */
#define AG_WAIT_HOOK(name, is_ptsz, begins, blocks, params, args)                                  \
    AG_HOOK name params                                                                            \
    {                                                                                              \
        CUresult pending = CUDA_SUCCESS;                                                           \
        bool hooked = ag_hooked();                                                                 \
        if (hooked)                                                                                \
            pending = ag_core_stream_sync_point(stream, is_ptsz, AG_SYM_##name, blocks);           \
        bool held = hooked && begins(stream, is_ptsz);                                             \
        CUresult result = AG_CALL(name, AG_UNWRAP args);                                           \
        if (held)                                                                                  \
            ag_core_wait_ends(stream, is_ptsz, result == CUDA_SUCCESS);                            \
        return ag_first_error_of(stream, is_ptsz, result, pending);                                \
    }

/* A call before which every stream must be drained, and which may return an error of earlier work.
 */
#define AG_BARRIER_HOOK(name, params, args)                                                        \
    AG_HOOK name params                                                                            \
    {                                                                                              \
        CUresult pending = CUDA_SUCCESS;                                                           \
        if (ag_hooked())                                                                           \
            pending = ag_core_barrier(AG_SYM_##name);                                              \
        return ag_first_error(AG_CALL(name, AG_UNWRAP args), pending);                             \
    }
