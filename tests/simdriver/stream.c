/* stream.c - streams: handles, creation, waiting, host functions. */
#include "sim.h"
#include <stdlib.h>
#include <string.h>

static _Atomic uint64_t next_id = 1;

static void unlist(struct sim_stream *s)
{
    pthread_mutex_lock(&s->ctx->lock);
    for (struct sim_stream **p = &s->ctx->streams; *p; p = &(*p)->next)
        if (*p == s) {
            *p = s->next;
            break;
        }
    pthread_mutex_unlock(&s->ctx->lock);
}

struct sim_stream *sim_stream_new(struct sim_context *ctx, unsigned int flags, int priority,
                                  bool legacy)
{
    struct sim_stream *s = sim_object_take(SIM_STREAM);
    if (s && !sim_stream_done(s)) { /* its work still reads it */
        sim_object_destroy(s, SIM_STREAM);
        s = NULL;
    }
    if (s) { /* with its worker */
        unlist(s);
    } else {
        s = sim_object_new(SIM_STREAM, sizeof *s);
        if (!s)
            abort();
        pthread_mutex_init(&s->lock, NULL);
        pthread_cond_init(&s->changed, NULL);
    }
    s->ctx = ctx;
    s->flags = flags;
    s->priority = priority;
    s->legacy = legacy;
    s->ghost = false;
    s->id = atomic_fetch_add(&next_id, 1);
    pthread_mutex_lock(&ctx->lock);
    for (struct sim_stream **p = &ctx->streams; *p;)
        if ((*p)->ghost && sim_stream_done(*p))
            *p = (*p)->next;
        else
            p = &(*p)->next;
    s->next = ctx->streams;
    ctx->streams = s;
    pthread_mutex_unlock(&ctx->lock);
    return s;
}

/* The per-thread default streams of this thread, by context. They live until the context goes. */
static struct sim_stream *per_thread_stream(struct sim_context *ctx)
{
    static _Thread_local struct {
        uint64_t ctx_id;
        struct sim_stream *stream;
    } known[8];
    static _Thread_local unsigned int turn;
    for (int i = 0; i < 8; i++)
        if (known[i].ctx_id == ctx->id)
            return known[i].stream;
    unsigned int i = turn++ % 8;
    known[i].stream = sim_stream_new(ctx, 0, 0, false);
    known[i].ctx_id = ctx->id;
    return known[i].stream;
}

CUresult sim_stream_find(CUstream handle, bool ptsz, struct sim_stream **out)
{
    if ((uintptr_t)handle > 2) {
        struct sim_stream *s = (struct sim_stream *)handle;
        if (!sim_object_is(s, SIM_STREAM))
            return CUDA_ERROR_INVALID_HANDLE;
        if (!sim_object_is(s->ctx, SIM_CONTEXT)) /* a green one leaves its streams behind */
            return CUDA_ERROR_CONTEXT_IS_DESTROYED;
        *out = s;
        return CUDA_SUCCESS;
    }
    if (sim_running) /* no context is current in host functions */
        return CUDA_ERROR_NOT_PERMITTED;
    struct sim_context *ctx = sim_current_quiet();
    if (!ctx)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!sim_object_is(ctx, SIM_CONTEXT))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    bool per_thread = handle == CU_STREAM_PER_THREAD || (!handle && ptsz);
    *out = per_thread ? per_thread_stream(ctx) : ctx->legacy;
    return CUDA_SUCCESS;
}

static CUresult create(CUstream *out, unsigned int flags, int priority)
{
    struct sim_context *ctx;
    CUresult r = sim_current(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    if (!out || flags > CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
    *out = (CUstream)sim_stream_new(ctx, flags, priority, false);
    return CUDA_SUCCESS;
}

SIM_API(cuStreamCreate, (CUstream * out, unsigned int flags), (out, flags))
{
    return create(out, flags, 0);
}

SIM_API(cuStreamCreateWithPriority, (CUstream * out, unsigned int flags, int priority),
        (out, flags, priority))
{
    return create(out, flags, priority);
}

/* Returns at once; what the stream has is still executed. */
static CUresult destroy(CUstream handle)
{
    struct sim_stream *s = (struct sim_stream *)handle;
    if ((uintptr_t)handle <= 2 || !sim_object_is(s, SIM_STREAM) || s->legacy)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!sim_object_is(s->ctx, SIM_CONTEXT))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (atomic_load(&s->capture))
        sim_capture_drop(s);
    pthread_mutex_lock(&s->ctx->lock);
    s->ghost = true; /* what waits for the context, or for blocking streams, waits for it too */
    pthread_mutex_unlock(&s->ctx->lock);
    sim_stream_stop(s);
    sim_object_destroy(s, SIM_STREAM);
    return CUDA_SUCCESS;
}

SIM_API(cuStreamDestroy_v2, (CUstream handle), (handle))
{
    return destroy(handle);
}

SIM_API(cuStreamDestroy, (CUstream handle), (handle))
{
    return destroy(handle);
}

SIM_API2(cuStreamSynchronize, cuStreamSynchronize_ptsz, (CUstream handle), (handle))
{
    struct sim_stream *s;
    CUresult r = sim_stream_find(handle, ptsz, &s);
    if (r != CUDA_SUCCESS)
        return r;
    if (atomic_load(&sim_captures)) {
        if (atomic_load(&s->capture))
            return sim_capture_refuse(s);
        r = s->legacy ? sim_capture_implicit(s->ctx) : CUDA_SUCCESS;
        if (r != CUDA_SUCCESS)
            return r;
    }
    if (s->legacy) {
        struct sim_op marker = {.kind = SIM_OP_EMPTY};
        return sim_submit_and_wait(s, &marker);
    }
    if (sim_pace.on)
        sim_pace_wait(s);
    sim_stream_wait(s, atomic_load(&s->submitted));
    return (CUresult)atomic_load(&s->ctx->error);
}

SIM_API2(cuStreamQuery, cuStreamQuery_ptsz, (CUstream handle), (handle))
{
    struct sim_stream *s;
    CUresult r = sim_stream_find(handle, ptsz, &s);
    if (r != CUDA_SUCCESS)
        return r;
    if (atomic_load(&sim_captures)) {
        if (atomic_load(&s->capture))
            return sim_capture_refuse(s);
        r = s->legacy ? sim_capture_implicit(s->ctx) : sim_capture_unsafe();
        if (r != CUDA_SUCCESS)
            return r;
    }
    bool done = sim_stream_done(s) && sim_pace_is_idle(s);
    if (s->legacy) {
        pthread_mutex_lock(&s->ctx->lock);
        for (struct sim_stream *o = s->ctx->streams; o; o = o->next)
            if (!(o->flags & CU_STREAM_NON_BLOCKING))
                done = done && sim_stream_done(o);
        pthread_mutex_unlock(&s->ctx->lock);
    }
    r = (CUresult)atomic_load(&s->ctx->error);
    return r != CUDA_SUCCESS ? r : done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

/* ---- properties
 * ----------------------------------------------------------------------------------- */

SIM_API2(cuStreamGetPriority, cuStreamGetPriority_ptsz, (CUstream handle, int *out), (handle, out))
{
    struct sim_stream *s;
    CUresult r = sim_stream_find(handle, ptsz, &s);
    if (r == CUDA_SUCCESS && !out)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *out = s->priority;
    return r;
}

SIM_API2(cuStreamGetFlags, cuStreamGetFlags_ptsz, (CUstream handle, unsigned int *out),
         (handle, out))
{
    struct sim_stream *s;
    CUresult r = sim_stream_find(handle, ptsz, &s);
    if (r == CUDA_SUCCESS && !out)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *out = s->flags;
    return r;
}

SIM_API2(cuStreamGetId, cuStreamGetId_ptsz, (CUstream handle, unsigned long long *out),
         (handle, out))
{
    struct sim_stream *s;
    CUresult r = sim_stream_find(handle, ptsz, &s);
    if (r == CUDA_SUCCESS && !out)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *out = s->id;
    return r;
}

SIM_API2(cuStreamGetCtx, cuStreamGetCtx_ptsz, (CUstream handle, CUcontext *out), (handle, out))
{
    struct sim_stream *s;
    CUresult r = sim_stream_find(handle, ptsz, &s);
    if (r == CUDA_SUCCESS && !out)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *out = (CUcontext)s->ctx;
    return r;
}

SIM_API2(cuStreamGetDevice, cuStreamGetDevice_ptsz, (CUstream handle, CUdevice *out), (handle, out))
{
    struct sim_stream *s;
    CUresult r = sim_stream_find(handle, ptsz, &s);
    if (r == CUDA_SUCCESS && !out)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *out = s->ctx->device;
    return r;
}

/* ---- the program's code between the work
 * ---------------------------------------------------------- */

SIM_API2(cuLaunchHostFunc, cuLaunchHostFunc_ptsz, (CUstream handle, CUhostFn fn, void *data),
         (handle, fn, data))
{
    struct sim_stream *s;
    CUresult r = sim_stream_find(handle, ptsz, &s);
    if (r != CUDA_SUCCESS)
        return r;
    if (!fn)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_op op = {.kind = SIM_OP_HOST, .host = {.fn = fn, .data = data}};
    return sim_submit(s, &op, NULL);
}

SIM_API2(cuStreamAddCallback, cuStreamAddCallback_ptsz,
         (CUstream handle, CUstreamCallback callback, void *data, unsigned int flags),
         (handle, callback, data, flags))
{
    struct sim_stream *s;
    CUresult r = sim_stream_find(handle, ptsz, &s);
    if (r != CUDA_SUCCESS)
        return r;
    if (!callback || flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (atomic_load(&s->capture))
        return sim_capture_refuse(s);
    struct sim_op op = {.kind = SIM_OP_HOST,
                        .host = {.callback = callback, .data = data, .stream = handle}};
    return sim_submit(s, &op, NULL);
}
