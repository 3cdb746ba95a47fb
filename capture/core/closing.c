/*
 * closing.c - streams, green contexts and contexts that end, and streams whose launches graphs must
 * not replace any more.
 *
 * These calls are rare, so the code is simple: it pauses the builder, the streams submit what they
 * have deferred and drop their graphs, and then they are removed.
 */
#include "capture/core/closing.h"
#include "capture/core/branch.h"
#include "capture/core/broken.h"
#include "capture/core/captures.h"
#include "capture/core/flush.h"
#include "capture/core/lookup.h"
#include "capture/core/submitter.h"
#include "capture/graphs/ahead.h"
#include "capture/graphs/budget.h"
#include "capture/graphs/builder.h"
#include "capture/graphs/ownkernels.h"
#include "capture/graphs/pause.h"
#include "capture/graphs/request.h"
#include "capture/report/stats.h"
#include "capture/settings/log.h"
#include "capture/tracking/count.h"
#include "capture/tracking/dormancy.h"
#include "capture/tracking/event.h"
#include "capture/tracking/hostfunction.h"
#include "capture/tracking/parked.h"
#include "capture/tracking/per_thread.h"
#include "capture/tracking/state.h"
#include "capture/tracking/streams.h"
#include "capture/tracking/waits.h"
#include "capture/trace/trace.h"
#include "driver/error.h"

/* Submits what the stream has deferred, and ends its fork. Returns with the stream's lock. */
static void come_to_rest(struct ag_stream *s)
{
    for (;;) {
        ag_branches_end(s);
        ag_lock(&s->lock, AG_RANK_STREAM);
        if (!atomic_load(&s->origin))
            break;
        ag_unlock(&s->lock); /* a thread that waits for its last event has made it one */
    }
    atomic_fetch_and(&s->not_understood, (uint8_t)~AG_FORK_IS_OVER);
    ag_submitter_settle(s);
    if (ag_stream_is_live(s))
        ag_stream_end_segment(s);
    ag_stream_leaves_dormant(s);
    ag_fork_free(s);
}

/* The same, and drops its graphs. From now on every launching thread submits at once; `gone`: for
 * good. The builder is paused. */
static CUresult close_stream(struct ag_stream *s, bool gone)
{
    come_to_rest(s);
    CUresult r = gone ? ag_stream_tell(s) : CUDA_SUCCESS; /* else a later call returns it */
    if (gone)
        ag_per_thread_forget(s, false);
    ag_stream_close(s);
    ag_engine_close(&s->engine);
    memset(&s->signatures, 0, sizeof(s->signatures));
    s->gone |= gone;
    ag_unlock(&s->lock);
    return r;
}

static void remove_stream(struct ag_stream *s)
{
    if (!ag_stream_invalidate(s))
        return;
    ag_stats_retire_stream(s);
    ag_request_stream_ends(s);
    ag_stream_release(s);
}

/* Whether nothing is left of the stream but what its engine knows, and work on the GPU. While a
 * stream captures, the query that follows would end that. The caller holds the lock. */
static bool may_be_parked(struct ag_stream *s)
{
    return ag_stream_is_live(s) && !ag_state_is_eager() && !ag_state_builds_nothing() &&
           !atomic_load(&s->context->ending) && !atomic_load(&s->not_understood) &&
           !atomic_load(&s->waits) && !s->behind_wait && s->pending == CUDA_SUCCESS;
}

/* Returns the stream that has to be removed now: this one, if it cannot be parked; another one,
 * with a reference; or none. */
static struct ag_stream *park(struct ag_stream *s)
{
    struct ag_stream *ends = s;
    come_to_rest(s);
    if (may_be_parked(s) && ag_engine_park(&s->engine) && ag_parked_begins(s)) {
        ag_per_thread_forget(s, false);
        ag_stream_close(s);
        memset(&s->signatures, 0, sizeof(s->signatures));
        struct ag_visit visit = ag_driver_enter(s);
        ag_ahead_ends(s);
        ag_driver_leave(s, visit);
        ends = ag_stream_park(s);
    }
    ag_unlock(&s->lock);
    return ends;
}

static CUresult invalidate_stream(struct ag_stream *named)
{
    ag_flush_for_order(named);
    struct ag_stream *s = park(named);
    if (!s)
        return CUDA_SUCCESS;
    ag_builder_pause();
    CUresult r = close_stream(s, true);
    ag_lock(&s->lock, AG_RANK_STREAM);
    int cancel; /* it asks about events, and others wait for the lock */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    bool told = ag_waits_stream_ends(s);
    ag_ahead_ends(s);
    ag_parked_ends(s, false);
    pthread_setcancelstate(cancel, NULL);
    if (!told)
        ag_pause_hold(); /* for good */
    ag_unlock(&s->lock);
    ag_broken_stream(s, r);
    remove_stream(s);
    if (s != named)
        ag_stream_release(s);
    if (!ag_waits_pending()) /* else the builder collects them once nothing waits any more */
        ag_graphs_collect(UINT32_MAX);
    ag_pause_resume();
    return r;
}

CUresult ag_core_invalidate_stream(CUstream stream, enum ag_sym sym)
{
    struct ag_stream *s = ag_state_tracks() ? ag_stream_find(stream, false) : NULL;
    if (!s || s->legacy || s->thread)
        return CUDA_SUCCESS; /* the driver refuses to destroy a default stream */
    ag_trace_sync_point(NULL, sym);
    return invalidate_stream(s);
}

/* Its thread has ended, and can hear of no error. */
void ag_closing_ended_threads(const struct ag_context *context)
{
    struct ag_stream *s;
    while ((s = ag_per_thread_ended(context))) {
        invalidate_stream(s);
        ag_stream_release(s);
    }
}

static struct ag_stream *not_understood(CUstream stream, bool ptsz, enum ag_sym sym)
{
    struct ag_stream *s = ag_state_tracks() ? ag_stream_get(stream, ptsz) : NULL;
    if (!s || atomic_fetch_or(&s->not_understood, AG_LACKS_SETTINGS) & AG_LACKS_SETTINGS)
        return s;
    ag_count_sync_point(sym);
    ag_info("invalidate", "%s: stream %p is never deferred again", ag_sym_name(sym),
            (void *)s->handle);
    ag_branches_end(s);
    ag_lock(&s->lock, AG_RANK_STREAM);
    if (ag_stream_is_live(s)) {
        ag_stream_end_segment(s);
        ag_stream_leaves_dormant(s);
        ag_engine_bypass(&s->engine);
    }
    ag_unlock(&s->lock);
    return s;
}

void ag_core_stream_not_understood(CUstream stream, bool ptsz, enum ag_sym sym)
{
    not_understood(stream, ptsz, sym);
}

void ag_core_green_stream(CUstream stream, CUgreenCtx green, enum ag_sym sym)
{
    struct ag_stream *s = not_understood(stream, false, sym);
    if (s)
        s->green = green;
}

/* Streams that come later are another green context's, though it may have the same handle: the
 * driver gives that out again before the call that destroys the context has returned. */
uint64_t ag_core_green_context_ends(void)
{
    ag_pause_hold(); /* nobody asks meanwhile whether its streams still wait for something */
    return ag_streams_latest();
}

void ag_core_green_context_ended(CUgreenCtx green, uint64_t latest, bool success)
{
    if (success && ag_state_tracks()) {
        ag_builder_pause();
        struct ag_streams all = ag_streams_snapshot();
        for (struct ag_stream *s; (s = ag_streams_next(&all));)
            if (s->green == green && s->serial <= latest) {
                close_stream(s, true);
                remove_stream(s);
            }
        ag_pause_resume();
    }
    ag_pause_release();
}

/* ---- contexts ----------------------------------------------------------------------------- */

/*
 * Between these two functions the context may end at any moment. So beforehand its streams submit
 * what they have deferred, drop their graphs and defer nothing: other threads that launch into them
 * call the driver themselves, and no thread enters the context on their behalf. Afterwards the
 * library removes the streams if the context has ended, and otherwise uses them as before.
 */
static void context_may_end(struct ag_context *context)
{
    atomic_fetch_add(&context->ending, 1);      /* for streams that are not there yet */
    atomic_fetch_add(&ag_stream_generation, 1); /* from here on handles may become another's */
    ag_waits_context_may_end();
    ag_pause_hold();
    ag_builder_pause();
    struct ag_streams all = ag_streams_snapshot();
    for (struct ag_stream *s; (s = ag_streams_next(&all));)
        if (s->context == context)
            close_stream(s, false);
    ag_events_context_may_end(context->handle);
    /* before they end: another thread that unloads a module asks the driver about all functions */
    ag_signatures_invalidate(AG_OF_CONTEXT, context->handle);
    ag_graphs_collect(UINT32_MAX);
    ag_own_kernels_unload(context);
}

static void context_stays(struct ag_context *context)
{
    struct ag_streams all = ag_streams_snapshot();
    for (struct ag_stream *s; (s = ag_streams_next(&all));) {
        if (s->context != context) /* another's lock may be held in the driver for long */
            continue;
        ag_lock(&s->lock, AG_RANK_STREAM);
        if (!s->gone && !ag_stream_is_live(s)) {
            ag_engine_reopen(&s->engine);
            if (s->pending != CUDA_SUCCESS)
                ag_stream_open(s);
            if (atomic_load(&s->not_understood) & AG_LACKS_SETTINGS)
                ag_engine_bypass(&s->engine);
        }
        ag_unlock(&s->lock);
    }
}

/* Returns the first error of deferred work that no call has returned yet: no later call can. An
 * error that ends a context does not count where a call has told of such a one. */
static CUresult context_has_ended(struct ag_context *context)
{
    CUresult first = CUDA_SUCCESS;
    ag_count(AG_COUNT_CONTEXT_ENDED);
    atomic_store(&context->attached, 0);
    ag_waits_context_ends(context);
    ag_host_functions_invalidate(context);
    ag_captures_context_ends(context);
    struct ag_streams all = ag_streams_snapshot();
    for (struct ag_stream *s; (s = ag_streams_next(&all));) {
        if (s->context != context)
            continue;
        ag_lock(&s->lock, AG_RANK_STREAM);
        ag_per_thread_forget(s, true);
        ag_unlock(&s->lock);
        CUresult r = close_stream(s, true);
        if (first == CUDA_SUCCESS && !(ag_error_ends_context(r) && atomic_load(&context->broken)))
            first = r;
        ag_lock(&s->lock, AG_RANK_STREAM); /* another thread may be removing it, if it is parked */
        s->behind_wait = NULL;             /* ended with the context */
        ag_parked_ends(s, true);
        memset(&s->ahead, 0, sizeof(s->ahead));
        ag_unlock(&s->lock);
        remove_stream(s);
    }
    ag_signatures_invalidate(AG_OF_CONTEXT, context->handle);
    ag_signatures_disprove(context->bit); /* a CUkernel outlives the context */
    ag_broken_context_ended(context);
    ag_core_invalidate_memory();
    return first;
}

struct ag_context *ag_core_context_may_end(CUcontext ctx, enum ag_sym sym)
{
    if (!ctx || !ag_state_tracks() || ag_thread.in_host_function) /* the driver refuses the call */
        return NULL;
    ag_lookups_forget();
    struct ag_context *context = ag_context_find(ctx);
    if (!context) { /* no stream of it is known; functions may be, and memory without a context */
        ag_core_invalidate_memory();
        ag_signatures_invalidate(AG_OF_CONTEXT, ctx);
        return NULL;
    }
    ag_trace_sync_point(NULL, sym);
    context_may_end(context);
    return context;
}

CUresult ag_core_context_ended(struct ag_context *context, bool ended)
{
    CUresult pending = CUDA_SUCCESS;
    ag_lookups_forget(); /* what was looked up during the call */
    if (!context)
        return pending;
    if (ended)
        pending = context_has_ended(context);
    else
        context_stays(context);
    atomic_fetch_sub(&context->ending, 1);
    ag_pause_resume();
    ag_pause_release();
    return pending;
}

void ag_core_context_attached(CUcontext ctx)
{
    struct ag_context *context = ctx && ag_state_tracks() ? ag_context_get(ctx) : NULL;
    if (context)
        atomic_fetch_add(&context->attached, 1);
}

bool ag_core_context_detached(struct ag_context *context)
{
    uint32_t n = context ? atomic_load(&context->attached) : 0;
    while (n && !atomic_compare_exchange_weak(&context->attached, &n, n - 1))
        ;
    return n == 0;
}
