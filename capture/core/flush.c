/* flush.c - submits deferred ops that can wait no longer. */
#include "capture/core/flush.h"
#include "capture/core/branch.h"
#include "capture/system/clock.h"
#include "capture/report/compare.h"
#include "capture/tracking/count.h"
#include "capture/core/measure.h"
#include "capture/core/submitter.h"
#include "capture/core/weigh.h"
#include "capture/tracking/dormancy.h"
#include "capture/tracking/fork.h"
#include "capture/tracking/per_thread.h"
#include "capture/tracking/streams.h"
#include "capture/trace/trace.h"

/* The driver refuses launches in host functions, so what is held back stays for the watchdog: it
 * has come since ag_flush_await(). */
static bool stays(const struct ag_stream *s)
{
    return ag_thread.in_host_function &&
           (ag_engine_deferred(&s->engine) || !ag_stream_ring_is_at_rest(s));
}

void ag_stream_end_segment(struct ag_stream *s)
{
    if (stays(s))
        return;
    ag_per_thread_gather(s);
    ag_submitter_settle(s);
    if (atomic_load(&s->origin)) /* a branch holds nothing back, and does not rest by itself */
        return;
    if (ag_dormant_is_active(&s->dormant)) {
        if (atomic_load_explicit(&s->dormant.left, memory_order_relaxed)) {
            /* the policy is not looking, and nothing was recorded since it stopped */
            if (s->thread && s->pending == CUDA_SUCCESS) /* it was open for what had strayed */
                ag_stream_close(s);
            return;
        }
        ag_stream_leaves_dormant(s);
    }
    ag_policy_may_measure(ag_engine_policy(&s->engine), ag_measured_ops());
    ag_engine_sync_point(&s->engine, ag_clock_ns());
    if (s->pending == CUDA_SUCCESS) /* every sync point looks for an error that was not reported */
        ag_stream_close(s);
    ag_compare_look(s);
    ag_weigh_look(s);
}

bool ag_stream_end_segment_if_prompt(struct ag_stream *s)
{
    if (!ag_stream_is_live(s))
        return true;
    if (stays(s))
        return false;
    if (ag_submitter_settle_if_prompt(s)) {
        ag_stream_end_segment(s);
        return true;
    }
    if (!ag_engine_deferred(&s->engine)) { /* it stays open for what is in the ring */
        ag_policy_may_measure(ag_engine_policy(&s->engine), ag_measured_ops());
        ag_engine_sync_point(&s->engine, ag_clock_ns());
    }
    return false;
}

void ag_stream_break(struct ag_stream *s)
{
    if (stays(s))
        return;
    ag_submitter_settle(s);
    ag_engine_break(&s->engine);
}

void ag_stream_pause(struct ag_stream *s)
{
    ag_submitter_settle(s);
    ag_engine_pause(&s->engine, ag_clock_ns());
}

void ag_stream_submit(struct ag_stream *s, bool sync_point)
{
    if (!ag_stream_is_live(s))
        return;
    if (sync_point)
        ag_stream_end_segment(s);
    else
        ag_stream_break(s);
}

void ag_stream_submit_deferred(struct ag_stream *s, bool sync_point)
{
    ag_lock(&s->lock, AG_RANK_STREAM);
    ag_stream_submit(s, sync_point);
    ag_unlock(&s->lock);
}

bool ag_stream_submit_if_prompt(struct ag_stream *s, bool sync_point)
{
    if (!ag_stream_lock_if_prompt(s))
        return false;
    bool prompt = !stays(s) && ag_submitter_settle_if_prompt(s);
    if (prompt)
        ag_stream_submit(s, sync_point);
    ag_unlock(&s->lock);
    return prompt;
}

/* A stream of the calling thread meets a planned sync point. A stream of another thread only
 * submits what it holds back, so that one thread's calls do not tear the sequences of another. And
 * a stream that has but handed chunks over meets none: its own thread would have launched them. */
static void submit_for_order(struct ag_stream *s)
{
    ag_lock(&s->lock, AG_RANK_STREAM);
    if (ag_stream_is_live(s)) {
        ag_submitter_settle(s);
        if (ag_engine_deferred(&s->engine)) {
            ag_count(AG_COUNT_ORDER);
            ag_trace_cause(AG_CAUSE_ORDER);
            ag_stream_submit(s, ag_stream_is_own(s));
        }
    }
    ag_unlock(&s->lock);
}

void ag_branches_end(struct ag_stream *s)
{
    uint8_t branch = 0;
    struct ag_stream *home = ag_stream_lock_home(s, &branch);
    if (ag_stream_is_live(home) && ag_stream_forks(home)) {
        if (ag_fork_is_alone(home) && home->quiet > 0) /* what ends it may come again and again */
            home->quiet = -AG_QUIET_RESTS;
        ag_stream_break(home);
        ag_fork_end(home);
    }
    ag_unlock(&home->lock);
}

/* A blocking stream gets an op, which the legacy stream's graphs would order with the branches'. */
static void end_branches_of_legacy(struct ag_stream *legacy)
{
    if (!ag_stream_forks(legacy))
        return;
    ag_lock(&legacy->lock, AG_RANK_STREAM);
    bool any = ag_stream_is_live(legacy) && ag_stream_forks(legacy) && !ag_fork_is_alone(legacy);
    ag_unlock(&legacy->lock);
    if (any)
        ag_branches_end(legacy);
}

/* What comes next goes before any record that is made in this stream from then on. */
static void record_due(struct ag_stream *s)
{
    if (!atomic_load(&s->due)) /* another thread may be ending the stream, and free its fork */
        return;
    ag_lock(&s->lock, AG_RANK_STREAM);
    if (ag_stream_is_live(s) && ag_stream_forks(s)) {
        ag_submitter_settle(s); /* first: it is a visit of its own */
        struct ag_visit visit = ag_driver_enter(s);
        ag_fork_catches_up_with_branches(s);
        ag_driver_leave(s, visit);
    }
    ag_unlock(&s->lock);
}

static void flush_stream(struct ag_stream *s)
{
    if (atomic_load(&s->deferring))
        submit_for_order(s);
    record_due(s);
}

/* All but `s`; of every context if `context` is NULL. */
static void flush_blocking_streams(const struct ag_context *context, const struct ag_stream *s)
{
    struct ag_streams all = ag_streams_busy();
    for (struct ag_stream *other; (other = ag_streams_next(&all));)
        if ((!context || other->context == context) && other->blocking && other != s)
            flush_stream(other);
}

void ag_flush_records(bool everywhere)
{
    if (!atomic_load(&ag_forks))
        return;
    struct ag_streams all = ag_streams_busy();
    for (struct ag_stream *s; (s = ag_streams_next(&all));)
        if (everywhere || s->legacy || s->blocking)
            record_due(s);
}

static bool may_be_blocking(CUstream stream)
{
    unsigned int flags = 0;
    ag_probe_begins(); /* there may be no such stream */
    CUresult r = AG_REAL(cuStreamGetFlags)(stream, &flags);
    ag_probe_ends();
    return r == CUDA_SUCCESS && !(flags & CU_STREAM_NON_BLOCKING);
}

void ag_flush_for_order_of_unknown(CUstream stream)
{
    if (!stream || stream == CU_STREAM_LEGACY) {
        ag_flush_records(false);
        return;
    }
    if (!atomic_load(&ag_forks))
        return;
    struct ag_streams all = ag_streams_busy();
    for (struct ag_stream *s; (s = ag_streams_next(&all));)
        if (s->legacy) {
            if (ag_stream_forks(s) && may_be_blocking(stream))
                end_branches_of_legacy(s);
            record_due(s);
        }
}

void ag_flush_await(const struct ag_stream *s)
{
    uint64_t last = atomic_load(&s->deferrals), until = ag_clock_ns() + AG_AWAIT_MOST_NS;
    while ((atomic_load(&s->deferring) == AG_DEFERS || !ag_stream_ring_is_at_rest(s)) &&
           ag_deferring_since(s) <= last && ag_clock_ns() < until)
        ag_sleep_ns(AG_AWAIT_LOOK_NS);
}

/* In host functions the driver takes some calls for streams with a handle: records, waits, fills,
 * queries, graphs (seen on an H200). Calls for default streams it refuses. */
static void flush_in_host_function(const struct ag_stream *s)
{
    uint8_t branch = 0;
    if (!s || s->legacy)
        return;
    const struct ag_stream *origin = atomic_load(&s->origin), *legacy = s->context->legacy;
    ag_flush_await(origin ? origin : s);
    if (s->blocking && legacy)
        ag_flush_await(legacy);
    if (!origin)
        return;
    struct ag_stream *home = ag_stream_lock_home((struct ag_stream *)(uintptr_t)s, &branch);
    if (ag_stream_is_live(home) && branch)
        ag_branch_meets(home, branch, true);
    ag_unlock(&home->lock);
}

void ag_flush_for_order(const struct ag_stream *s)
{
    if (ag_thread.in_host_function) {
        flush_in_host_function(s);
        return;
    }
    if (!s) {
        struct ag_stream *legacy = ag_stream_find(CU_STREAM_LEGACY, false);
        if (legacy) {
            end_branches_of_legacy(legacy);
            flush_stream(legacy);
        }
        if (ag_streams_are_in_order())
            flush_blocking_streams(NULL, NULL);
        return;
    }
    struct ag_context *context = s->context;
    if (s->legacy) {
        if (atomic_load(&context->blocking_held))
            flush_blocking_streams(context, NULL);
    } else if (s->blocking) {
        struct ag_stream *legacy = context->legacy;
        if (s->thread)
            ag_per_thread_gather_own();
        if (legacy && atomic_load(&s->origin) != legacy)
            end_branches_of_legacy(legacy);
        if (legacy && atomic_load(&legacy->deferring))
            submit_for_order(legacy);
        if (legacy && atomic_load(&s->origin) != legacy)
            record_due(legacy);
        uint32_t own = atomic_load(&s->deferring) != AG_DEFERS_NOTHING;
        if (s->in_order && atomic_load(&context->blocking_held) > own)
            flush_blocking_streams(context, s);
    }
}
