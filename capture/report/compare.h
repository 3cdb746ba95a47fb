/*
 * compare.h - measures in the running program what replaying gains (AUTOGRAPH_COMPARE_MS).
 *
 * Two processes of one program differ by more than the gain that is to be measured. So one process
 * does both, in pairs of spans of AUTOGRAPH_COMPARE_MS; either span may come first. In one it
 * replays. In the other all its streams are dormant (dormant.h), which is as near as it can come to
 * the program without the library. They are dormant for 128 ops at a time, or for a sixteenth of
 * the span if that is less. The launches, fills and copies within the device per second of the two
 * are compared: what else is an op of a stream that replays is none of one that is dormant. The
 * first quarter of each span is not counted, because a stream changes over only at its next sync
 * point or at the end of a chunk. What is measured is the rate at which the program submits, so the
 * program must do the same kind of work throughout. While a tied stream is compared by itself
 * (core/weigh.h), pairs do not count.
 *
 * Streams report what they have done when they check which span it is. A thread that took their
 * locks instead could wait until the end of a loop that launches all the time.
 */
#pragma once

#include "capture/tracking/stream.h"

/* Starts comparing if the option is set. Call it with the first stream. The caller holds no
 * lock. */
void ag_compare_start(void);
void ag_compare_stop(void);

/* Prints a line of the summary if the option is set. Call it after ag_compare_stop(). */
void ag_compare_print(const char *process);

enum ag_compare { AG_COMPARE_OFF, AG_COMPARE_REPLAYS, AG_COMPARE_RESTS };
extern _Atomic uint32_t ag_compare_span; /* the present span */

/* ns of all eager spans that have ended. What compares two ways of replaying leaves them out. */
extern _Atomic uint64_t ag_compare_rested_ns;

/* When a tied stream was last found in a comparison of its own (core/weigh.h), by the machine's
 * clock, ns; 0: never. */
extern _Atomic uint64_t ag_compare_weighed_ns;

/* Counts what the stream has done, and makes it dormant in an eager span. The caller holds the
 * stream's lock, and nothing is deferred. */
void ag_compare_meet(struct ag_stream *stream);
static inline void ag_compare_look(struct ag_stream *stream)
{
    if (__builtin_expect(
            atomic_load_explicit(&ag_compare_span, memory_order_relaxed) != AG_COMPARE_OFF, 0))
        ag_compare_meet(stream);
}
