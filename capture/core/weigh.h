/*
 * weigh.h - whether a stream gets on faster without graphs.
 *
 * The profitability check (policy/profit.c) compares the host's times, sequence by sequence. It
 * does not see what it costs to look at ops that are in no sequence, or to learn sequences that
 * never come again. Nor does it see all that a stream loses which waits for others on the GPU:
 * there a graph starts later than a kernel, and tells of its end later. The launch queue then
 * fills, and some call of the program waits for long, which no median of short times shows.
 *
 * So the library compares how fast the program gets on with graphs and without, in turn
 * (policy/pairs.h), on streams with many event records and waits, on per-thread default streams of
 * which much strays (per_thread.h), and on streams whose graphs have lately spared the host too
 * little. Where the program gets on faster without, the stream is
 * dormant until the next comparison.
 */
#pragma once

#include "capture/tracking/stream.h"

/* Call it where nothing is deferred. The caller holds the stream's lock. */
void ag_weigh_meet(struct ag_stream *s);
static inline void ag_weigh_look(struct ag_stream *s)
{
    if (__builtin_expect(s->ties || s->doubt.is || ++s->doubt.looks % AG_WEIGH_LOOKS == 0, 0))
        ag_weigh_meet(s);
}
