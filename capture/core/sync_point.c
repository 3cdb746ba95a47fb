/*
 * sync_point.c - calls that are not ops: the library submits what it has deferred before them.
 *
 * Sync points also cut a stream into segments, so the policy learns them even if nothing is
 * deferred.
 */
#include "capture/core/sync_point.h"
#include "capture/tracking/count.h"
#include "capture/core/broken.h"
#include "capture/core/flush.h"
#include "capture/core/branch.h"
#include "capture/core/launch.h"
#include "capture/system/clock.h"
#include "capture/trace/live.h"
#include "capture/tracking/event.h"
#include "capture/tracking/hostfunction.h"
#include "capture/core/measure.h"
#include "capture/tracking/memory.h"
#include "capture/tracking/per_thread.h"
#include "capture/tracking/state.h"
#include "capture/tracking/streams.h"
#include "capture/trace/trace.h"
#include "driver/error.h"
#include "driver/table.h"

/*
 * Which streams a call waits for. A thread that submits, or that waits for another thread which
 * submits, may wait in the driver for room in a full queue. In an eager run all earlier launches
 * would be in the queue already, and whoever knows of them would have waited for them. But if
 * nothing of a stream can show in a call, the call does not wait for that stream. It leaves what
 * another thread holds back there to the watchdog.
 */
enum reach { NO_STREAM, LEGACY_STREAM, BLOCKING_STREAMS, EVERY_STREAM };

static enum reach reach_of(enum ag_sym sym)
{
    unsigned int flags = sym < AG_SYM_COUNT ? ag_entries[sym].flags : 0;
    if (flags & AG_ENTRY_PROMPT)
        return NO_STREAM;
    /* of two default streams: only the legacy one is ordered with the thread's own */
    if (flags & AG_ENTRY_LEGACY)
        return flags & AG_ENTRY_PTSZ ? LEGACY_STREAM : BLOCKING_STREAMS;
    return EVERY_STREAM;
}

static bool waits_for(enum reach reach, const struct ag_stream *s)
{
    return reach == EVERY_STREAM || (reach != NO_STREAM && s->legacy) ||
           (reach == BLOCKING_STREAMS && s->blocking);
}

enum flags {
    REPORTS = 1,  /* the call may return a stream's unreported error */
    OWN_ONLY = 2, /* leaves the streams of other threads alone */
    BLOCKS = 4,   /* the thread waits for the GPU in the call */
    RETURNS = 8,  /* behind that it calls ag_core_returned() */
};

/* Remembers the stream if its policy wants to know when the wait for its segment has ended. Of
 * several streams the first is enough. It may be a later call that waits: behind a record, or
 * behind a copy to pinned memory. */
static void note_wait(struct ag_stream *s, unsigned int flags)
{
    if (ag_thread.waits || !ag_policy_awaits(ag_engine_policy(&s->engine)))
        return;
    ag_thread.waits_for = s;
    ag_thread.waits = flags & RETURNS;
}

/* Nothing is open, but the call may wait for a segment that another call has ended. A program that
 * waits by queries has waited until the last one returns. */
static void note_late_wait(bool waits)
{
    ag_thread.waits = waits && ag_thread.waits_for;
}

/* A stream that has ended keeps its memory. If that is another stream's by now, this costs that one
 * a measurement at most. */
void ag_core_returned(void)
{
    struct ag_stream *s = ag_thread.waits_for;
    ag_thread.waits = false;
    if (ag_stream_lock_if_prompt(s)) { /* nobody is kept waiting for a measurement */
        if (ag_stream_is_live(s) && ag_policy_awaits(ag_engine_policy(&s->engine)))
            ag_engine_returned(&s->engine, ag_clock_ns());
        else
            ag_thread.waits_for = NULL;
        ag_unlock(&s->lock);
    }
}

/* The call may tie the stream to others. */
static bool ties(enum ag_sym sym)
{
    return sym == AG_SYM_cuEventRecord || sym == AG_SYM_cuEventRecord_ptsz ||
           sym == AG_SYM_cuEventRecordWithFlags || sym == AG_SYM_cuEventRecordWithFlags_ptsz ||
           sym == AG_SYM_cuStreamWaitEvent || sym == AG_SYM_cuStreamWaitEvent_ptsz;
}

static bool is_wait(enum ag_sym sym)
{
    return sym == AG_SYM_cuStreamSynchronize || sym == AG_SYM_cuStreamSynchronize_ptsz;
}

/* Branches may meet all other calls in every step, and stay branches. */
static bool is_foreign(enum ag_sym sym)
{
    return !ties(sym) && !is_wait(sym);
}

static CUresult end_segment(struct ag_stream *s, unsigned int flags)
{
    CUresult r = CUDA_SUCCESS;
    ag_lock(&s->lock, AG_RANK_STREAM);
    if (ag_stream_is_live(s)) {
        if (!atomic_load(&s->origin))
            ag_stream_end_segment(s);
        note_wait(s, flags);
        if (flags & REPORTS)
            r = ag_stream_tell(s);
    }
    ag_unlock(&s->lock);
    return r;
}

/* The same before a call on this stream; its origin's segment ends, if it has one. */
static CUresult end_for_call(struct ag_stream *s, enum ag_sym sym, unsigned int flags)
{
    CUresult r = CUDA_SUCCESS;
    uint8_t branch = 0;
    if (is_foreign(sym))
        ag_branch_is_foreign(s);
    struct ag_stream *home = ag_stream_lock_home(s, &branch);
    if (ag_stream_is_live(home)) {
        if (ties(sym))
            home->ties++;
        ag_stream_end_segment(home);
        note_wait(home, flags);
        if (branch)
            ag_branch_meets(home, branch, is_foreign(sym));
        else if (ag_stream_forks(home) && !is_wait(sym))
            ag_branch_meets(home, 0, false);
        if (flags & REPORTS)
            r = ag_stream_tell(home);
    }
    ag_unlock(&home->lock);
    if (branch && r == CUDA_SUCCESS && flags & REPORTS)
        r = end_segment(s, flags); /* it may have an error of its own */
    return r;
}

/* Submits what a stream of another thread has deferred. Its sequence goes on. */
static void submit_of_other(struct ag_stream *s, enum reach reach)
{
    if (!waits_for(reach, s))
        return;
    ag_count(AG_COUNT_OTHER_THREAD);
    ag_stream_submit_deferred(s, false);
}

/* An error of deferred work, or success. No call in one context returns another's: an error that
 * ends its context is noted, as each call there returns it, and any other stays for a call there.
 */
static CUresult told_by(struct ag_stream *s)
{
    CUresult r = CUDA_SUCCESS;
    bool here = false;
    ag_lock(&s->lock, AG_RANK_STREAM);
    if (ag_stream_is_live(s) && s->pending != CUDA_SUCCESS) {
        here = s->context->handle == ag_context_current();
        if (here || ag_error_ends_context(s->pending))
            r = ag_stream_tell(s);
    }
    ag_unlock(&s->lock);
    ag_broken_stream(s, r);
    return here ? r : CUDA_SUCCESS;
}

/* For every stream of `context` (NULL: of all contexts): a stream of this thread meets a sync
 * point; any other submits what it has deferred and goes on. */
static CUresult every_stream(const struct ag_context *context, const struct ag_stream *except,
                             unsigned int flags, enum reach reach)
{
    CUresult first = CUDA_SUCCESS;
    /* where the program measures, what an idle stream does next may be what it measures */
    struct ag_streams all = ag_streams_concerned(!(flags & OWN_ONLY), ag_measures());
    for (struct ag_stream *s; (s = ag_streams_next(&all));) {
        if (s == except || (context && s->context != context))
            continue;
        if (ag_stream_is_own(s)) {
            end_segment(s, flags & ~(unsigned int)REPORTS);
            if (flags & REPORTS && first == CUDA_SUCCESS) /* a call returns one error */
                first = told_by(s);
        } else if (!(flags & OWN_ONLY) && atomic_load(&s->deferring)) {
            submit_of_other(s, reach);
        }
    }
    return first;
}

void ag_core_thread_will_wait(const struct ag_stream *s)
{
    if (ag_owns_others(s))
        every_stream(NULL, s, OWN_ONLY, EVERY_STREAM);
}

/* Reports an earlier error, even while hooks bypass (during a capture of the program's). */
static CUresult tell(CUstream stream, bool ptsz)
{
    struct ag_stream *s = ag_stream_find(stream, ptsz);
    if (!s)
        return CUDA_SUCCESS;
    ag_lock(&s->lock, AG_RANK_STREAM);
    CUresult r = ag_stream_is_live(s) ? ag_stream_tell(s) : CUDA_SUCCESS;
    ag_unlock(&s->lock);
    return r;
}

static bool holds_back(const struct ag_stream *s)
{
    uint32_t how = atomic_load(&s->deferring);
    return how == AG_DEFERS || (how == AG_DEFERS_HANDED && !ag_stream_ring_is_at_rest(s));
}

/* The queue may be full behind a host function, and that may need a lock of the program's which
 * this thread has: eagerly it took the lock when its launches had found room. A query waits for
 * nothing, so what the thread holds back is left to the watchdog until no host function is pending.
 */
static bool may_wait_for_host(const struct ag_stream *s)
{
    return !s->legacy && holds_back(s) && ag_host_functions_pending();
}

static bool holds_back_for_another(const struct ag_stream *s)
{
    return !ag_stream_is_own(s) && holds_back(s);
}

/* Whether another thread holds back work that a query of the legacy stream asks about. */
static bool others_hold_back_in(const struct ag_context *context)
{
    bool any = false;
    struct ag_streams all = ag_streams_concerned(true, false);
    for (struct ag_stream *s; (s = ag_streams_next(&all));)
        any |= s->context == context && waits_for(BLOCKING_STREAMS, s) && holds_back_for_another(s);
    return any;
}

/* cuStreamQuery: work that another thread holds back, or is submitting, has not ended. Nor has what
 * a branch has in graphs that run. */
static CUresult query(struct ag_stream *s, unsigned int flags)
{
    struct ag_stream *origin = atomic_load(&s->origin), *home = origin ? origin : s;
    if (s->legacy)
        every_stream(s->context, s, 0, NO_STREAM);
    if (s->legacy ? others_hold_back_in(s->context) : holds_back_for_another(home))
        return CUDA_ERROR_NOT_READY;
    if (may_wait_for_host(home))
        return CUDA_ERROR_NOT_READY;
    if (!ag_stream_lock_if_prompt(home))
        return CUDA_ERROR_NOT_READY;
    CUresult r = CUDA_ERROR_NOT_READY;
    bool is_branch = origin && atomic_load(&s->origin) == origin;
    if (!holds_back_for_another(home) && ag_stream_end_segment_if_prompt(home) &&
        !(is_branch && !ag_fork_branch_is_done(home, s->branch)))
        r = flags & REPORTS && ag_stream_is_live(home) ? ag_stream_tell(home) : CUDA_SUCCESS;
    ag_unlock(&home->lock);
    return r;
}

/* The same for a stream that was never launched to. The legacy stream asks for others as well. */
static CUresult query_unknown(CUstream stream, bool ptsz)
{
    if (ag_stream_is_per_thread(stream, ptsz))
        return CUDA_SUCCESS;
    every_stream(NULL, NULL, 0, NO_STREAM);
    if (stream && stream != CU_STREAM_LEGACY)
        return CUDA_SUCCESS;
    CUcontext ctx = ag_context_current();
    return ctx && others_hold_back_in(ag_context_find(ctx)) ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

/* The call may put anything into any stream, events among it. */
static bool names_no_stream(enum ag_sym sym)
{
    return sym == AG_SYM_COUNT || sym == AG_SYM_cuGetExportTable ||
           sym == AG_SYM_cuLaunchCooperativeKernelMultiDevice;
}

/* Whether any other stream may have had an op since its last sync point. This one's segment has
 * ended. */
static bool others_are_open(const struct ag_stream *s)
{
    return atomic_load(&ag_open_streams) > (uint32_t)atomic_load(&s->open) + ag_stream_forks(s);
}

/* Whether a call on the legacy stream may be a copy between devices (copies_between_devices() says
 * what such a copy waits for). */
static bool may_copy_between_devices(enum ag_sym sym)
{
    int devices = 2;
    return sym < AG_SYM_COUNT && ag_entries[sym].flags & AG_ENTRY_BETWEEN &&
           (AG_REAL(cuDeviceGetCount)(&devices) != CUDA_SUCCESS || devices > 1);
}

static CUresult stream_sync_point(CUstream stream, bool ptsz, enum ag_sym sym, unsigned int flags)
{
    bool measures = ag_measures();
    if (sym == AG_SYM_cuGraphLaunch || sym == AG_SYM_cuGraphLaunch_ptsz)
        ag_core_events_unseen(); /* its nodes may record some, and wait for some */
    if (!measures && !atomic_load_explicit(&ag_open_streams, memory_order_acquire)) {
        note_late_wait(flags & RETURNS || reach_of(sym) == NO_STREAM);
        return CUDA_SUCCESS;
    }
    ag_per_thread_gather_own();
    if (ag_state_bypasses())
        return flags & REPORTS && ag_state_tracks() ? tell(stream, ptsz) : CUDA_SUCCESS;
    struct ag_stream *s = ag_stream_find(stream, ptsz);
    if (ag_thread.in_host_function) {
        if (s && !s->legacy && reach_of(sym) == NO_STREAM)
            return query(s, 0);
        ag_flush_for_order(s);
        return CUDA_SUCCESS;
    }
    ag_trace_sync_point(s, sym);
    ag_live_poll();
    if (!s) {
        /* A stream that was never launched to, or no stream at all. Only the legacy stream's order
         * can depend on it. */
        if (reach_of(sym) == NO_STREAM)
            return query_unknown(stream, ptsz);
        if (ag_stream_is_per_thread(stream, ptsz)) {
            ag_flush_for_order(NULL);
        } else {
            bool legacy = !stream || stream == CU_STREAM_LEGACY;
            bool between = legacy && may_copy_between_devices(sym);
            bool blocking = legacy || ag_streams_are_in_order();
            every_stream(NULL, NULL, 0,
                         between    ? EVERY_STREAM
                         : blocking ? BLOCKING_STREAMS
                                    : LEGACY_STREAM);
            ag_flush_for_order_of_unknown(stream);
            if (between)
                ag_flush_records(true);
        }
        if (flags & BLOCKS)
            every_stream(NULL, NULL, OWN_ONLY, EVERY_STREAM);
        return CUDA_SUCCESS;
    }
    if (reach_of(sym) == NO_STREAM)
        return query(s, flags);
    if (!is_wait(sym))
        ag_stream_is_used(s);
    ag_flush_for_order(s);
    if (s->legacy && may_copy_between_devices(sym)) {
        every_stream(NULL, s, 0, EVERY_STREAM);
        ag_flush_records(true);
    } else if (s->legacy) { /* it waits for every blocking stream, so their segments end too */
        every_stream(s->context, s, 0, BLOCKING_STREAMS);
    }
    CUresult r = end_for_call(s, sym, flags);
    if (measures)
        ag_measure_begins(s);
    if (flags & BLOCKS && !s->legacy && ag_owns_others(s) && (measures || others_are_open(s)))
        every_stream(NULL, s, OWN_ONLY, EVERY_STREAM);
    return r;
}

CUresult ag_core_stream_sync_point(CUstream stream, bool ptsz, enum ag_sym sym, bool blocks)
{
    return stream_sync_point(stream, ptsz, sym, REPORTS | (blocks ? BLOCKS | RETURNS : 0u));
}

void ag_core_stream_sync_point_quiet(CUstream stream, bool ptsz, enum ag_sym sym, bool blocks)
{
    stream_sync_point(stream, ptsz, sym, blocks ? BLOCKS : 0u);
}

/* A copy in the default stream between the memories of two devices comes behind all that either
 * has got, and whatever they get later behind it (CUDA Programming Guide, peer-to-peer memory
 * copy). `places`: where it copies, two addresses; NULL: that is not known. */
static bool copies_between_devices(enum ag_sym sym, const CUdeviceptr *places)
{
    unsigned int flags = sym < AG_SYM_COUNT ? ag_entries[sym].flags : 0;
    int devices = 2;
    if (!(flags & AG_ENTRY_BETWEEN))
        return false;
    if (!(flags & AG_ENTRY_LEGACY)) /* it names both */
        return true;
    return AG_REAL(cuDeviceGetCount)(&devices) != CUDA_SUCCESS ||
           (devices > 1 && (!places || ag_memory_is_of_two_devices(places[0], places[1])));
}

static CUresult barrier(enum ag_sym sym, unsigned int flags, const CUdeviceptr *places)
{
    ag_per_thread_gather_own();
    if (ag_state_bypasses() || ag_thread.in_host_function ||
        !atomic_load_explicit(&ag_open_streams, memory_order_acquire)) {
        note_late_wait(flags & RETURNS);
        return CUDA_SUCCESS;
    }
    ag_trace_sync_point(NULL, sym);
    ag_live_poll();
    bool between = copies_between_devices(sym, places);
    enum reach reach = between ? EVERY_STREAM : reach_of(sym);
    CUresult r = every_stream(NULL, NULL, flags, reach);
    if (reach == LEGACY_STREAM || reach == BLOCKING_STREAMS || between)
        ag_flush_records(between);
    if (names_no_stream(sym)) {
        ag_forks_end(); /* a branch's work may lie in another stream */
        ag_events_unseen();
    }
    return r;
}

/* Of a call with a hook of its own. */
static unsigned int flags_of(enum ag_sym sym)
{
    bool blocks = sym < AG_SYM_COUNT && ag_entries[sym].flags & AG_ENTRY_BLOCKS;
    return REPORTS | (blocks ? RETURNS : 0u);
}

CUresult ag_core_barrier(enum ag_sym sym)
{
    return barrier(sym, flags_of(sym), NULL);
}

CUresult ag_core_barrier_for(CUcontext ctx, enum ag_sym sym)
{
    if (!atomic_load_explicit(&ag_open_streams, memory_order_acquire))
        return CUDA_SUCCESS;
    bool entered = ag_context_find(ctx) && ag_context_enter(ctx);
    CUresult r = barrier(sym, flags_of(sym), NULL);
    ag_context_leave(entered);
    return r;
}

CUresult ag_core_barrier_of_copy(enum ag_sym sym, CUdeviceptr dst, CUdeviceptr src)
{
    return barrier(sym, flags_of(sym), (CUdeviceptr[]){dst, src});
}

void ag_core_barrier_quiet(enum ag_sym sym)
{
    barrier(sym, 0, NULL);
}

/* An unknown function: nobody knows what the call does. Its first call may do anything, so it
 * invalidates all that is known, as a new limit or the end of a context does. Later calls are taken
 * for what the function's library does in every step: a barrier that may free memory, but does not
 * change what launches mean. Otherwise nothing would be replayed in programs that use such a
 * library. */
void ag_core_table_call(bool first)
{
    ag_count(AG_COUNT_TABLE_CALLS);
    if (first)
        ag_core_invalidate_functions(AG_SYM_cuGetExportTable);
    else
        ag_core_barrier_quiet(AG_SYM_cuGetExportTable);
    ag_core_invalidate_memory();
}
