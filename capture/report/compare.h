/*
 * compare.h - what replaying gains, told by the running program (AUTOGRAPH_COMPARE_MS).
 *
 * Two processes of one program differ by more than what is to be measured. So one process does
 * both: every other span of so many milliseconds all its streams sleep (dormant.h), for 128 ops at
 * a time or for a sixteenth of the span, which is as near to the program without the library as it
 * can come, and the ops per second of neighbouring spans are compared. The first quarter of each
 * span is not counted: a stream changes over at its next sync point, or at the end of a chunk. What
 * is measured is the rate at which the program submits, so it has to do the same kind of work
 * throughout. Streams tell what they have done when they look which span it is: whoever asked for
 * their locks could wait to the end of a loop that launches all the time.
 */
#ifndef AG_COMPARE_H
#define AG_COMPARE_H

#include "capture/tracking/stream.h"

/* Where the option is set; with the first stream. No lock may be held. */
void ag_compare_start(void);
void ag_compare_stop(void);

/* A line of the summary, where the option is set. After ag_compare_stop(). */
void ag_compare_print(const char *process);

enum ag_compare { AG_COMPARE_OFF, AG_COMPARE_REPLAYS, AG_COMPARE_RESTS };
extern _Atomic uint32_t ag_compare_span; /* the present one */

/* What the stream has done is counted, and in an eager span it goes to sleep. Under its lock, where
 * nothing is deferred. */
void ag_compare_meet(struct ag_stream *stream);
static inline void ag_compare_look(struct ag_stream *stream)
{
    if (__builtin_expect(
            atomic_load_explicit(&ag_compare_span, memory_order_relaxed) != AG_COMPARE_OFF, 0))
        ag_compare_meet(stream);
}

#endif
