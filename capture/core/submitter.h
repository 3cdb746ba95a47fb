/*
 * submitter.h - a thread of the library that makes the program's launches, so that the program's
 * thread need not.
 *
 * Databases commit what has gathered while the last commit was under way; here it is the same for
 * launches. When the last op of a chunk has come, the program's thread puts the chunk into the ring
 * of its stream and goes on. The submitter updates and launches the chunk's graph meanwhile. An op
 * that is in no chunk goes the same way, and the submitter makes its launch. Only ops enter whose
 * like the driver has taken in this context (ag_signature.proven): the first launch of a kernel
 * loads it, and may be refused.
 *
 * What is in the ring counts as deferred (ag_stream.deferring), and whoever must submit what a
 * stream holds back takes the ring along: ag_submitter_settle(), under the stream's lock. It takes
 * the role and does the rest itself, or waits for whoever has the role. So nothing overtakes the
 * ring.
 *
 * The submitter looks for chunks all the time if they come fast, and until the chunk has come
 * behind which the program may wait. Otherwise it naps between two looks, and after a while it
 * sleeps until a chunk wakes it. With AUTOGRAPH_SUBMIT=auto the program's thread makes
 * single launches itself while the submitter sleeps, and launches a chunk itself if it waits on
 * both sides of it and the submitter naps. If something waits in the ring, and nobody will take it
 * soon, the program's thread launches that and what comes next itself.
 */
#pragma once

#include "capture/graphs/graph.h"

/* Gives the chunk's graphs to the submitter, with a copy of the arguments. `now`: when its last op
 * came. `awaited`: an idle GPU may be waiting for the chunk. `behind`: chunks until the program may
 * wait. False: the caller settles and launches the chunk itself. The caller holds the stream's
 * lock. */
bool ag_submitter_hand(struct ag_stream *s, struct ag_graphs *g, const uint8_t *bytes, uint64_t now,
                       bool awaited, uint32_t behind);

bool ag_submitter_put_op(struct ag_stream *s, const struct ag_signature *signature,
                         const struct ag_incoming *in, bool asks);
/* Gives the submitter a copy of an op that is in no chunk. Its signature is proven, and the stream
 * holds nothing back but what is in its ring. False: the caller settles and
 * makes the call itself. The caller holds the stream's lock. */
static inline bool ag_submitter_hand_op(struct ag_stream *s, const struct ag_signature *signature,
                                        const struct ag_incoming *in)
{
    bool asks = s->asked++ % AG_SUBMIT_ASKS_WANTED == 0;
    return (s->hands_ops || asks) && ag_submitter_put_op(s, signature, in, asks);
}
/* The same for several ops of one flush: whether the submitter takes them now, and each of them. */
bool ag_submitter_takes_ops(struct ag_stream *s);
bool ag_submitter_hand_recorded(struct ag_stream *s, ag_key key, const uint8_t *bytes);

void ag_submitter_settle_ring(struct ag_stream *s);
/* When it returns, everything in the ring has been submitted, and s->pending holds what the driver
 * had to say. The caller holds the stream's lock. */
static inline void ag_submitter_settle(struct ag_stream *s)
{
    struct ag_ring *ring = atomic_load_explicit(&s->ring, memory_order_relaxed);
    if (__builtin_expect(ring && ring->active, 0))
        ag_submitter_settle_ring(s);
}
/* The same, except that it waits for nobody: false if another thread has the role. */
bool ag_submitter_settle_if_prompt(struct ag_stream *s);
/* Brings AG_COUNT_SUBMIT_NS up to date; the thread itself does so only before it sleeps. */
void ag_submitter_count_time(void);
/* The process ends. Waits a second at most. */
void ag_submitter_stop(void);
