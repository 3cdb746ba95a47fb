/*
 * measure.c - programs that measure what they launch, to choose by it.
 *
 * Autotuners (XLA's, Triton's, inductor's, cuDNN's, those of cuBLASLt's callers) record an event,
 * launch a candidate, record another, and ask for the time between. A candidate in a graph takes
 * another time than one that is launched: some microseconds more or less on an H200, where
 * candidates lie tenths of one apart. The program would choose others, and compute other results.
 * So while it asks for times, the ops behind an event record are submitted as they come, unless
 * their sequence has come up for longer than a candidate is measured (policy/follow.c): then it is
 * the program's real work, whose steps it times.
 */
#include "capture/measure.h"
#include "capture/capture.h"
#include "capture/clock.h"

enum {
    ASKED_NS = 500000000, /* so long after it was told a time the program is taken to measure */
    OPS = 256, /* behind the record: a candidate has fewer, a loop timed as a whole more */
};

static _Atomic uint64_t asked_ns; /* when a time was told last; 0: never */

void ag_capture_time_asked(void)
{
    atomic_store_explicit(&asked_ns, ag_clock_ns(), memory_order_relaxed);
}

bool ag_measures(enum ag_sym sym)
{
    uint64_t asked = atomic_load_explicit(&asked_ns, memory_order_relaxed);
    if (__builtin_expect(!asked, 1))
        return false;
    return (sym == AG_SYM_cuEventRecord || sym == AG_SYM_cuEventRecord_ptsz ||
            sym == AG_SYM_cuEventRecordWithFlags || sym == AG_SYM_cuEventRecordWithFlags_ptsz) &&
           ag_clock_ns() < asked + ASKED_NS;
}

void ag_measure_begins(struct ag_stream *s)
{
    ag_lock(&s->lock);
    if (s->life == AG_STREAM_LIVE && !s->num_deferred && !ag_nap_is_active(&s->nap))
        ag_policy_measured(&s->policy, OPS, ag_clock_ns());
    ag_unlock(&s->lock);
}
