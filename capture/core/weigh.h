/*
 * weigh.h - whether a stream that is tied to others gets on faster without graphs.
 *
 * The profitability check (policy/profit.c) compares the host's times, sequence by sequence. A
 * stream that waits for others on the GPU may lose where the host does not wait: on the GPU a graph
 * starts later than a kernel, and tells of its end later. The launch queue then fills, and some
 * call of the program waits for long, which no median of short times shows. So on streams with many
 * event records and waits the library compares how fast the program gets on with graphs and
 * without, in turn (policy/pairs.h). Where it gets on faster without, the stream is dormant until
 * the next comparison.
 */
#ifndef AG_WEIGH_H
#define AG_WEIGH_H

#include "capture/tracking/stream.h"

/* Call it where nothing is deferred. The caller holds the stream's lock. */
void ag_weigh_meet(struct ag_stream *s);
static inline void ag_weigh_look(struct ag_stream *s)
{
    if (__builtin_expect(s->ties, 0))
        ag_weigh_meet(s);
}

/* An event record, or a wait for an event. The caller holds the stream's lock. */
static inline void ag_weigh_tie(struct ag_stream *s)
{
    s->ties++;
}

#endif
