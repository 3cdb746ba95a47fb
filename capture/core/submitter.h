/*
 * submitter.h - a thread of the library that launches the graphs of whole chunks, so that the
 * program's thread need not.
 *
 * Databases commit what has gathered while the last commit was under way; here it is the same for
 * launches. When the last op of a chunk has come, the program's thread puts the chunk into the ring
 * of its stream and goes on. The submitter updates and launches the chunk's graph meanwhile.
 *
 * What is in the ring counts as deferred (ag_stream.deferring), and whoever must submit what a
 * stream holds back takes the ring along: ag_submitter_settle(), under the stream's lock. It takes
 * the role and does the rest itself, or waits for whoever has the role. So nothing overtakes the
 * ring.
 *
 * The submitter looks for chunks all the time only if they come fast. Otherwise it naps between two
 * looks, and after a while it sleeps until a chunk wakes it. With AUTOGRAPH_SUBMIT=auto the first
 * chunk of a sequence does not wait for a submitter that is not looking. If a chunk waits in the
 * ring, and nobody will take it soon, the program's thread launches that chunk and the next one
 * itself.
 */
#ifndef AG_SUBMITTER_H
#define AG_SUBMITTER_H

#include "capture/graphs/graph.h"
#include "capture/tracking/stream.h"

/* Gives the chunk's graphs to the submitter, with a copy of the arguments. `begins`: it is the
 * first chunk of a sequence that is no loop, so the GPU may have nothing to do. False: the caller
 * settles and launches the chunk itself. The caller holds the stream's lock. */
bool ag_submitter_hand(struct ag_stream *s, struct ag_graphs *g, const uint8_t *bytes, bool begins);

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

#endif
