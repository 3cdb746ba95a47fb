/*
 * ahead.h - how far the graphs of a stream may be ahead of the GPU.
 *
 * The driver's queue holds some 1000 items, and then a launch waits. A graph is one item, however
 * many ops it has, so a program that never waits would be 10,000 ops ahead and more
 * (docs/results-log.md, "Behind 86391d68"). So an event is recorded at least every AG_AHEAD_SPACING
 * ops that went by graphs. Where AG_AHEAD_MOST ops lie behind the oldest that has not passed, the
 * launch waits for that. A program that launches eagerly would wait by then, too. Ops that go by
 * themselves count while such an event has not passed. Then there is room in the queue, and the
 * driver would not wait.
 *
 * Only the program's own launch of a whole chunk waits, behind the graph, and its own eager launch,
 * in front of that. They wait without the stream's lock: what other threads do to streams that are
 * ordered with this one would wait for it, and eagerly it does not. The submitter does not wait:
 * whatever needs the ring empty would wait for it, and eagerly it would find nothing left to
 * submit. So the ring takes nothing of a stream that is so far ahead.
 *
 * Call these with the stream's lock and a ring at rest, or with the ring's role, as for a launch.
 * Those of the wait need the lock.
 */
#pragma once

#include "capture/tracking/stream.h"
#include "policy/submit.h"

/* Makes the events. Call this in the program's own launch of a chunk, where that is due. Made in a
 * flush, one might get the handle of an event that the program has just destroyed, and a second
 * call on that handle would find it. */
void ag_ahead_make(struct ag_stream *s);
static inline void ag_ahead_make_if_due(struct ag_stream *s)
{
    if (__builtin_expect(atomic_load_explicit(&s->ahead.made, memory_order_relaxed) == AG_MAKE, 0))
        ag_ahead_make(s);
}

/* Whether the oldest event has passed. */
bool ag_ahead_look(struct ag_stream *s);
/* Call it behind a graph. `ops`: how many of its ops count for each stream of a fork; outside of a
 * fork all of them. */
void ag_ahead_launched(struct ag_stream *s, uint32_t ops);

/* Call it in front of an op of the stream's own that goes by itself. */
void ag_ahead_count_call(struct ag_stream *s);
static inline void ag_ahead_calls(struct ag_stream *s)
{
    if (__builtin_expect(s->ahead.pending, 0))
        ag_ahead_count_call(s);
}

/* Whether a launch has to wait, with `more` ops in front of it that have not been launched.
 * Needs neither lock nor role. */
static inline bool ag_ahead_is_far(const struct ag_stream *s, uint32_t more)
{
    uint32_t behind = atomic_load_explicit(&s->ahead.behind, memory_order_relaxed);
    return ag_submit_is_far_ahead(behind, more);
}

/* Whether it still is, and somebody waits for that. Looks which events have passed. */
bool ag_ahead_stays_far(struct ag_stream *s);
/* In the program's launch, behind the graph of a whole chunk or in front of an eager call: whether
 * the launch waits, when it has released the lock. */
static inline void ag_ahead_decide(struct ag_stream *s)
{
    s->ahead.waits = ag_ahead_is_far(s, 0) && ag_ahead_stays_far(s);
}
/* The wait. Releases the stream's lock, and leaves it so. */
void ag_ahead_wait(struct ag_stream *s);

/* Whether it is time to look which events have passed. Otherwise the ring would refuse chunks
 * although the GPU has got on. The second function looks. The submitter calls it before each graph.
 */
static inline bool ag_ahead_is_due(const struct ag_stream *s)
{
    return ag_ahead_is_far(s, AG_AHEAD_SPACING + AG_RING_CREDIT);
}
static inline void ag_ahead_passes(struct ag_stream *s)
{
    while (ag_ahead_is_due(s) && ag_ahead_look(s)) {
    }
}

/* Before the stream is destroyed or parked: the events are. Behind that its context may end at any
 * time. */
void ag_ahead_ends(struct ag_stream *s);
