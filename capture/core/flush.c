/* flush.c - submits deferred ops that can wait no longer. */
#include "capture/core/flush.h"
#include "capture/capture.h"
#include "capture/system/clock.h"
#include "capture/report/compare.h"
#include "capture/tracking/count.h"
#include "capture/core/expect.h"
#include "capture/system/lock.h"
#include "capture/settings/log.h"
#include "capture/core/measure.h"
#include "capture/tracking/dormant.h"
#include "capture/core/op.h"
#include "capture/graphs/replay.h"
#include "capture/tracking/signature.h"
#include "capture/tracking/state.h"
#include "capture/tracking/stream.h"
#include "capture/trace/trace.h"
#include "capture/core/watchdog.h"
#include "policy/policy.h"
#include <alloca.h>
#include <pthread.h>

/* While hooks bypass the locks they would overtake ops that are deferred now, so nothing may be
 * deferred. This does not cover the end of the process and the child of a fork: there they do
 * overtake. */
static bool may_defer(const struct ag_stream *s)
{
    return ag_stream_is_live(s) && !ag_state_bypasses_for_now();
}

void ag_deferring_begins(struct ag_stream *s)
{
    if (atomic_load_explicit(&s->deferring, memory_order_relaxed))
        return;
    if (!AG_EXPECT(may_defer(s), s))
        return;
    atomic_fetch_add_explicit(&s->deferrals, 1, memory_order_relaxed);
    if (s->blocking)
        atomic_fetch_add(&s->context->blocking_deferring, 1);
    atomic_store(&s->deferring,
                 1); /* sequentially consistent: the watchdog may be going to sleep */
    ag_watchdog_arm();
}

void ag_deferring_ends(struct ag_stream *s)
{
    if (!atomic_load_explicit(&s->deferring, memory_order_relaxed))
        return;
    uint32_t others = s->blocking ? atomic_fetch_sub(&s->context->blocking_deferring, 1) : 1;
    atomic_store_explicit(&s->deferring, 0, memory_order_release);
    if (!AG_EXPECT(others > 0, s))
        atomic_store(&s->context->blocking_deferring, 0);
}

void ag_stream_open(struct ag_stream *s)
{
    if (s->open)
        return;
    s->open = true;
    atomic_fetch_add(&ag_open_streams, 1);
}

static void close_segment(struct ag_stream *s)
{
    if (!s->open ||
        s->pending != CUDA_SUCCESS) /* every sync point looks for an error that was not reported */
        return;
    s->open = false;
    atomic_fetch_sub(&ag_open_streams, 1);
}

CUresult ag_stream_tell(struct ag_stream *s)
{
    CUresult r = s->pending;
    s->pending = CUDA_SUCCESS;
    return r;
}

/* The driver refused a deferred op. Lack of memory may pass. Any other objection will come again,
 * and from now on the program gets it at the launch itself. */
static void fail(struct ag_stream *s, const struct ag_signature *signature, CUresult r)
{
    ag_info("flush", "a deferred launch failed with error %d", (int)r);
    ag_signature_refused(signature, r);
    if (s->pending != CUDA_SUCCESS)
        return;
    s->pending = r;
    ag_stream_open(s);
}

/* Launches the graph of a shorter chunk for the ops from `at` on. Returns how many ops it
 * submitted. */
static uint32_t submit_by_graph(struct ag_stream *s, uint32_t at, uint32_t n)
{
    ag_key *keys = alloca((n - at) * sizeof(*keys));
    for (uint32_t i = at; i < n; i++)
        keys[i - at] = ag_signature_key(s->recorded[i].signature);
    struct ag_chunk *chunk = ag_policy_cover(&s->policy, keys, n - at);
    if (!chunk || !chunk->user)
        return 0;
    if (!ag_graphs_launch(s, chunk->user, s->bytes + s->recorded[at].offset))
        return 0;
    return chunk->count;
}

void ag_flush(struct ag_stream *s, uint32_t n)
{
    if (!AG_EXPECT(n == s->num_deferred && n <= s->num_recorded, s))
        return;
    uint64_t began = ag_trace_clock(), covered_before = s->covered_ops;
    struct ag_visit visit = ag_driver_enter(s);
    for (uint32_t i = 0; i < n;) {
        uint32_t covered = n - i > 1 && !s->pending ? submit_by_graph(s, i, n) : 0;
        if (covered) {
            s->covered_ops += covered;
            i += covered;
            continue;
        }
        CUresult r = ag_op_submit(s, s->recorded[i].signature, s->bytes + s->recorded[i].offset);
        if (r != CUDA_SUCCESS)
            fail(s, s->recorded[i].signature, r);
        s->flushed_ops++;
        i++;
    }
    ag_driver_leave(s, visit);
    s->num_deferred = 0;
    ag_deferring_ends(s);
    ag_trace_flush(s, n, s->covered_ops - covered_before, began);
}

static void drop_recorded(struct ag_stream *s)
{
    AG_EXPECT(s->num_deferred == 0 && !atomic_load(&s->deferring), s);
    s->num_recorded = 0;
    s->num_bytes = 0;
}

void ag_stream_end_segment(struct ag_stream *s)
{
    if (ag_dormant_is_active(&s->dormant)) {
        if (atomic_load_explicit(&s->dormant.left, memory_order_relaxed))
            return; /* the policy is not looking, and nothing was recorded since it stopped */
        ag_stream_leaves_dormant(s);
    }
    ag_policy_may_measure(&s->policy, ag_measured_ops());
    uint32_t n = ag_policy_sync_point(&s->policy, ag_clock_ns());
    if (n)
        ag_flush(s, n);
    drop_recorded(s);
    close_segment(s);
    ag_compare_look(s);
}

void ag_stream_break(struct ag_stream *s)
{
    uint32_t n = ag_policy_break(&s->policy);
    if (n) {
        ag_flush(s, n);
        drop_recorded(s);
    }
}

/* The caller holds the lock. */
static void submit(struct ag_stream *s, bool sync_point)
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
    submit(s, sync_point);
    ag_unlock(&s->lock);
}

bool ag_stream_submit_if_prompt(struct ag_stream *s, bool sync_point)
{
    if (!ag_stream_lock_if_prompt(s))
        return false;
    submit(s, sync_point);
    ag_unlock(&s->lock);
    return true;
}

/* A stream of the calling thread meets a planned sync point. A stream of another thread only
 * submits what it holds back, so that one thread's calls do not tear the sequences of another. */
static void submit_for_order(struct ag_stream *s)
{
    ag_count(AG_COUNT_ORDER);
    ag_trace_cause(AG_CAUSE_ORDER);
    ag_stream_submit_deferred(s, atomic_load_explicit(&s->owner, memory_order_relaxed) ==
                                     ag_this_thread());
}

static void flush_blocking_streams(struct ag_context *context)
{
    size_t n;
    struct ag_stream **streams = ag_streams_snapshot(&n);
    for (size_t i = 0; i < n; i++)
        if (streams[i]->context == context && streams[i]->blocking &&
            atomic_load(&streams[i]->deferring))
            submit_for_order(streams[i]);
    ag_streams_release(streams, n);
}

void ag_flush_for_order(const struct ag_stream *s)
{
    if (!s) {
        struct ag_stream *legacy = ag_stream_find(CU_STREAM_LEGACY, false);
        if (legacy && atomic_load(&legacy->deferring))
            submit_for_order(legacy);
        return;
    }
    struct ag_context *context = s->context;
    if (s->legacy) {
        if (atomic_load(&context->blocking_deferring))
            flush_blocking_streams(context);
    } else if (s->blocking) {
        struct ag_stream *legacy = context->legacy;
        if (legacy && atomic_load(&legacy->deferring))
            submit_for_order(legacy);
    }
}
