/* event.c - events: record, wait, query, time. */
#include "sim.h"
#include <stdlib.h>
#include <unistd.h>

struct sim_event *sim_event_new(void)
{
    struct sim_event *e = sim_object_take(SIM_EVENT);
    if (!e) {
        e = sim_object_new(SIM_EVENT, sizeof *e);
        if (e)
            pthread_mutex_init(&e->lock, NULL);
        return e;
    }
    pthread_mutex_lock(&e->lock); /* work that named it before may still come to it */
    e->stream = NULL;
    e->seq = e->time_ns = e->capture_id = 0;
    e->ticket++;
    e->capture = NULL;
    e->shared = NULL;
    pthread_mutex_unlock(&e->lock);
    return e;
}

SIM_API(cuEventCreate, (CUevent * out, unsigned int flags), (out, flags))
{
    struct sim_context *ctx;
    CUresult r = sim_current(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    if (!out || flags > 7 ||
        ((flags & CU_EVENT_INTERPROCESS) && !(flags & CU_EVENT_DISABLE_TIMING)))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_event *e = sim_event_new();
    if (!e)
        return CUDA_ERROR_OUT_OF_MEMORY;
    e->ctx = ctx->root;
    e->flags = flags;
    r = flags & CU_EVENT_INTERPROCESS ? sim_shared_event_new(e) : CUDA_SUCCESS;
    if (r == CUDA_SUCCESS)
        *out = (CUevent)e;
    else
        sim_object_destroy(e, SIM_EVENT);
    return r;
}

/* An event goes with its context: all that is left to do with it is to destroy it. */
static CUresult check(const struct sim_event *e)
{
    if (!sim_object_is(e, SIM_EVENT))
        return CUDA_ERROR_INVALID_HANDLE;
    return sim_object_is(e->ctx, SIM_CONTEXT) ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

static CUresult destroy(CUevent handle)
{
    struct sim_event *e = (struct sim_event *)handle;
    if (!sim_object_is(e, SIM_EVENT))
        return CUDA_ERROR_INVALID_HANDLE;
    /* Work that names the event may still be on its way: it finds the object, which stays. */
    sim_tips_set(&e->tips, &e->tip_count, NULL, 0);
    if (e->shared)
        close(e->shared_fd);
    sim_object_destroy(e, SIM_EVENT);
    return CUDA_SUCCESS;
}

SIM_API(cuEventDestroy_v2, (CUevent handle), (handle))
{
    return destroy(handle);
}

SIM_API(cuEventDestroy, (CUevent handle), (handle))
{
    return destroy(handle);
}

CUresult sim_event_record(CUevent handle, struct sim_stream *s, unsigned int flags)
{
    struct sim_event *e = (struct sim_event *)handle;
    CUresult r = check(e);
    if (r != CUDA_SUCCESS)
        return r;
    SIM_USES(e, false);
    if (flags > CU_EVENT_RECORD_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    if (e->ctx != s->ctx->root)
        return CUDA_ERROR_INVALID_HANDLE;
    if (atomic_load(&s->capture) && flags != CU_EVENT_RECORD_EXTERNAL)
        return sim_capture_record(s, e);
    struct sim_op op = {.kind = SIM_OP_RECORD, .record = {.event = e}};
    return sim_submit(s, &op, NULL);
}

static CUresult record(CUevent handle, CUstream stream, bool ptsz, unsigned int flags)
{
    struct sim_stream *s;
    CUresult r = sim_stream_find(stream, ptsz, &s);
    return r == CUDA_SUCCESS ? sim_event_record(handle, s, flags) : r;
}

SIM_API2(cuEventRecord, cuEventRecord_ptsz, (CUevent event, CUstream stream), (event, stream))
{
    return record(event, stream, ptsz, 0);
}

SIM_API2(cuEventRecordWithFlags, cuEventRecordWithFlags_ptsz,
         (CUevent event, CUstream stream, unsigned int flags), (event, stream, flags))
{
    return record(event, stream, ptsz, flags);
}

SIM_API2(cuStreamWaitEvent, cuStreamWaitEvent_ptsz,
         (CUstream stream, CUevent event, unsigned int flags), (stream, event, flags))
{
    struct sim_event *e = (struct sim_event *)event;
    struct sim_stream *s;
    CUresult r = sim_stream_find(stream, ptsz, &s);
    if (r == CUDA_SUCCESS)
        r = check(e);
    if (r != CUDA_SUCCESS)
        return r;
    SIM_USES(e, false);
    if (flags > CU_EVENT_WAIT_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    if (atomic_load(&sim_captures) && flags != CU_EVENT_WAIT_EXTERNAL) {
        pthread_mutex_lock(&e->lock);
        bool captured = e->capture != NULL;
        pthread_mutex_unlock(&e->lock);
        if (captured || atomic_load(&s->capture))
            return sim_capture_wait(s, e);
    }
    struct sim_op op = {.kind = SIM_OP_WAIT, .record = {.event = e}};
    if (e->shared)
        op.record.ticket = atomic_load(&e->shared->recorded);
    return sim_submit(s, &op, NULL);
}

/* ---- events of a whole context */

static CUresult check_whole(const struct sim_event *e, const struct sim_context *ctx)
{
    if (!sim_object_is(ctx, SIM_CONTEXT))
        return CUDA_ERROR_INVALID_CONTEXT;
    return check(e);
}

static struct sim_stream *stream_of(struct sim_context *ctx, _Atomic(struct sim_stream *) *place)
{
    pthread_mutex_lock(&sim_lock);
    if (!atomic_load(place))
        atomic_store(place, sim_stream_new(ctx, CU_STREAM_NON_BLOCKING, 0, false));
    pthread_mutex_unlock(&sim_lock);
    return atomic_load(place);
}

/* The event stands for all that the streams of the context have now. */
SIM_API(cuCtxRecordEvent, (CUcontext handle, CUevent event), (handle, event))
{
    struct sim_context *ctx = (struct sim_context *)handle;
    struct sim_event *e = (struct sim_event *)event;
    CUresult r = check_whole(e, ctx);
    if (r == CUDA_SUCCESS && e->ctx != ctx->root)
        r = CUDA_ERROR_INVALID_HANDLE;
    if (r == CUDA_SUCCESS && atomic_load(&sim_captures))
        r = sim_capture_refuse_in(ctx, NULL);
    if (r != CUDA_SUCCESS)
        return r;
    SIM_USES(e, false);
    struct sim_op op = {.kind = SIM_OP_RECORD, .record = {.event = e}};
    return sim_submit(stream_of(ctx, &ctx->records), &op, NULL);
}

/* All that the streams of the context get from now on waits, also in streams that are made later.
 */
SIM_API(cuCtxWaitEvent, (CUcontext handle, CUevent event), (handle, event))
{
    struct sim_context *ctx = (struct sim_context *)handle;
    struct sim_event *e = (struct sim_event *)event;
    CUresult r = check_whole(e, ctx);
    if (r == CUDA_SUCCESS && atomic_load(&sim_captures))
        r = sim_capture_refuse_in(ctx, e);
    if (r != CUDA_SUCCESS)
        return r;
    SIM_USES(e, false);
    struct sim_op op = {.kind = SIM_OP_WAIT, .record = {.event = e}};
    if (e->shared)
        op.record.ticket = atomic_load(&e->shared->recorded);
    return sim_submit(stream_of(ctx, &ctx->waits), &op, NULL);
}

/* ---- asking and waiting */

/* What the event stands for now. */
static void last_record(struct sim_event *e, struct sim_stream **s, uint64_t *seq, bool *captured)
{
    pthread_mutex_lock(&e->lock);
    *s = e->stream;
    *seq = e->seq;
    *captured = e->capture != NULL;
    pthread_mutex_unlock(&e->lock);
}

SIM_API(cuEventQuery, (CUevent handle), (handle))
{
    struct sim_event *e = (struct sim_event *)handle;
    struct sim_stream *s;
    uint64_t seq;
    bool captured;
    CUresult r = check(e);
    if (r != CUDA_SUCCESS)
        return r;
    SIM_USES(e, false);
    last_record(e, &s, &seq, &captured);
    if (captured)
        return CUDA_ERROR_CAPTURED_EVENT;
    if (atomic_load(&sim_captures)) {
        r = sim_capture_unsafe();
        if (r != CUDA_SUCCESS)
            return r;
    }
    CUresult error = (CUresult)atomic_load(&e->ctx->error);
    if (error != CUDA_SUCCESS)
        return error;
    bool done = e->shared ? atomic_load(&e->shared->done) >= atomic_load(&e->shared->recorded)
                          : !s || atomic_load(&s->completed) >= seq;
    return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

SIM_API(cuEventSynchronize, (CUevent handle), (handle))
{
    struct sim_event *e = (struct sim_event *)handle;
    struct sim_stream *s;
    uint64_t seq;
    bool captured;
    CUresult r = check(e);
    if (r != CUDA_SUCCESS)
        return r;
    last_record(e, &s, &seq, &captured);
    if (captured)
        return CUDA_ERROR_CAPTURED_EVENT;
    if (e->shared)
        sim_shared_event_wait(e->shared, atomic_load(&e->shared->recorded));
    else if (s)
        sim_stream_wait(s, seq);
    return (CUresult)atomic_load(&e->ctx->error);
}

static CUresult elapsed(float *ms, CUevent start, CUevent end)
{
    struct sim_event *e[2] = {(struct sim_event *)start, (struct sim_event *)end};
    uint64_t time[2];
    if (!ms)
        return CUDA_ERROR_INVALID_VALUE;
    for (int i = 0; i < 2; i++) {
        CUresult r = check(e[i]);
        if (r == CUDA_SUCCESS && (e[i]->flags & CU_EVENT_DISABLE_TIMING))
            r = CUDA_ERROR_INVALID_HANDLE;
        if (r != CUDA_SUCCESS)
            return r;
        pthread_mutex_lock(&e[i]->lock);
        struct sim_stream *s = e[i]->stream;
        bool done = s && atomic_load(&s->completed) >= e[i]->seq;
        time[i] = e[i]->time_ns;
        pthread_mutex_unlock(&e[i]->lock);
        if (!s)
            return CUDA_ERROR_INVALID_HANDLE;
        if (!done)
            return CUDA_ERROR_NOT_READY;
    }
    *ms = (float)((double)((int64_t)(time[1] - time[0])) / 1e6);
    return CUDA_SUCCESS;
}

SIM_API(cuEventElapsedTime, (float *ms, CUevent start, CUevent end), (ms, start, end))
{
    return elapsed(ms, start, end);
}

SIM_API(cuEventElapsedTime_v2, (float *ms, CUevent start, CUevent end), (ms, start, end))
{
    return elapsed(ms, start, end);
}
