/* work.c - see work.h. */
#include "capture/core/work.h"
#include "capture/core/op.h"
#include "capture/graphs/ahead.h"
#include "capture/graphs/graph.h"
#include "capture/graphs/replay.h"
#include "capture/report/stats.h"
#include "capture/settings/log.h"
#include "capture/system/clock.h"
#include "capture/tracking/count.h"
#include "capture/trace/trace.h"

static CUresult submit_op(struct ag_stream *s, ag_key key, const uint8_t *bytes)
{
    const struct ag_signature *signature = ag_key_signature(key);
    CUresult r = ag_op_submit(s, signature, bytes);
    int none = CUDA_SUCCESS;
    if (__builtin_expect(r != CUDA_SUCCESS, 0)) {
        ag_info("flush", "a deferred launch failed with error %d", (int)r);
        ag_signature_refused(signature, r);
        atomic_compare_exchange_strong(&s->handed_error, &none, (int)r);
    }
    return r;
}

/* The graph could not be launched: nothing of it was submitted. */
static void submit_ops(struct ag_stream *s, struct ag_graphs *g, const uint8_t *bytes)
{
    uint64_t began = ag_trace_clock();
    for (uint32_t i = 0; i < g->count; i++)
        submit_op(s, g->ops[i].key, bytes + g->ops[i].offset);
    atomic_fetch_add_explicit(&s->handed_eagerly, g->count, memory_order_relaxed);
    ag_trace_cause(AG_CAUSE_GRAPH_FAILED);
    ag_trace_flush(s, g->count, 0, began);
}

static void submit_chunk(struct ag_stream *s, const struct ag_ring_slot *slot, bool submitter)
{
    struct ag_graphs *g = slot->graphs;
    if (submitter)
        ag_ahead_passes(s);
    if (!ag_graphs_launch(s, g, slot->bytes)) {
        atomic_store(&g->failed, true);
        submit_ops(s, g, slot->bytes);
    } else if (submitter) {
        ag_count(AG_COUNT_SUBMITTED);
        ag_count_by(AG_COUNT_HANDED_OPS, g->count);
    }
    uint32_t done = atomic_load_explicit(&g->done, memory_order_relaxed);
    atomic_store_explicit(&g->done, done + 1, memory_order_release);
}

static void submit_single(struct ag_stream *s, const struct ag_ring_slot *slot, bool submitter)
{
    static _Atomic uint32_t calls;
    bool timed =
        atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed) % AG_TIMED_ONE_IN == 0 &&
        !ag_key_signature(slot->key)->reads;
    uint64_t began = timed ? ag_clock_ns() : ag_trace_clock();
    CUresult r = submit_op(s, slot->key, slot->bytes);
    if (timed)
        ag_stream_call_usually_takes(s, ag_clock_ns() - began);
    ag_trace_call(s, began, r);
    if (submitter)
        ag_count(AG_COUNT_SUBMITTED_SINGLY);
}

static void tell_wait(struct ag_ring *ring, const struct ag_ring_slot *slot, bool submitter)
{
    const struct ag_graphs *g = slot->graphs;
    uint64_t now = ag_clock_ns(), put = slot->put_ns, waited = now > put ? now - put : 0;
    ag_waited(waited);
    ag_trace_taken(ring->stream, g ? g->trace_id : 0, slot->ops, now, waited,
                   submitter ? AG_TAKEN_BY_SUBMITTER : AG_TAKEN_BY_CALL);
}

void ag_work_in(struct ag_ring *ring, bool submitter)
{
    struct ag_stream *s = ring->stream;
    const struct ag_ring_slot *slot;
    if (ag_ring_is_empty(ring))
        return;
    bool entered;
    if (!ag_context_try(s->context->handle, &entered) && submitter)
        return; /* nothing may be launched without the context */
    while ((slot = ag_ring_next(ring))) {
        if (ag_trace_on() || ag_ring_times_next(ring))
            tell_wait(ring, slot, submitter);
        if (slot->graphs)
            submit_chunk(s, slot, submitter);
        else
            submit_single(s, slot, submitter);
        ag_ring_took(ring, slot);
    }
    ag_context_leave(entered);
}
