/*
 * boundary.c - calls that are not ops: what has been deferred goes before them.
 *
 * A boundary is also what cuts a stream into segments, so it is learnt even where nothing is
 * deferred.
 */
#include "capture/capture.h"
#include "capture/flush.h"
#include "capture/live.h"
#include "capture/state.h"
#include "capture/stats.h"
#include "capture/trace.h"

static bool passing(void)
{
    return atomic_load_explicit(&ag_state.bypass, memory_order_relaxed) != 0;
}

static CUresult end_segment(struct ag_stream *s, bool report)
{
    CUresult r = CUDA_SUCCESS;
    bool entered = ag_context_enter(s);
    ag_lock(&s->lock);
    if (!s->dead)
        ag_stream_end_segment(s);
    if (report) {
        r = s->pending;
        s->pending = CUDA_SUCCESS;
    }
    ag_unlock(&s->lock);
    ag_context_leave(entered);
    return r;
}

/* Every stream of `context` (NULL: of all): those of this thread meet a boundary, the others submit
 * what they have deferred and go on. */
static CUresult every_stream(const struct ag_context *context, const struct ag_stream *except,
                             bool only_own, bool report)
{
    CUresult first = CUDA_SUCCESS;
    size_t n;
    struct ag_stream **streams = ag_streams_concerned(!only_own, &n);
    for (size_t i = 0; i < n; i++) {
        struct ag_stream *s = streams[i];
        if (s == except || (context && s->context != context))
            continue;
        if (ag_stream_is_own(s)) {
            CUresult r = end_segment(s, report);
            if (first == CUDA_SUCCESS)
                first = r;
        } else if (!only_own && atomic_load(&s->deferring)) {
            ag_count(AG_COUNT_OTHER_THREAD);
            ag_stream_submit_deferred(s, false);
        }
    }
    ag_streams_release(streams, n);
    return first;
}

static CUresult stream_boundary(CUstream stream, bool ptsz, enum ag_sym sym, bool blocks,
                                bool report)
{
    if (passing() || !atomic_load_explicit(&ag_open_streams, memory_order_acquire))
        return CUDA_SUCCESS;
    struct ag_stream *s = ag_stream_find(stream, ptsz);
    ag_count_boundary(sym);
    ag_trace_boundary(s, sym);
    ag_live_poll();
    if (!s) {
        /* the per-thread default stream, one that was never launched to, or no stream at all: all
         * that can depend on it is the legacy stream's order */
        if (ag_stream_is_per_thread(stream, ptsz))
            ag_flush_for_order(NULL);
        else
            every_stream(NULL, NULL, false, false);
        return CUDA_SUCCESS;
    }
    ag_flush_for_order(s);
    if (s->legacy) /* it waits for every blocking stream, and their segments end with it */
        every_stream(s->context, s, false, false);
    CUresult r = end_segment(s, report);
    if (blocks && !s->legacy && ag_owns_others(s))
        every_stream(NULL, s, true, false);
    return r;
}

CUresult ag_capture_stream_boundary(CUstream stream, bool ptsz, enum ag_sym sym, bool blocks)
{
    return stream_boundary(stream, ptsz, sym, blocks, true);
}

void ag_capture_stream_boundary_quiet(CUstream stream, bool ptsz, enum ag_sym sym, bool blocks)
{
    stream_boundary(stream, ptsz, sym, blocks, false);
}

static CUresult barrier(enum ag_sym sym, bool report)
{
    if (passing() || !atomic_load_explicit(&ag_open_streams, memory_order_acquire))
        return CUDA_SUCCESS;
    ag_count_boundary(sym);
    ag_trace_boundary(NULL, sym);
    ag_live_poll();
    return every_stream(NULL, NULL, false, report);
}

CUresult ag_capture_barrier(enum ag_sym sym)
{
    return barrier(sym, true);
}

void ag_capture_barrier_quiet(enum ag_sym sym)
{
    barrier(sym, false);
}
