/*
 * measure.c - programs that measure their launches and choose by the result.
 *
 * Autotuners (XLA's, Triton's, inductor's, cuDNN's, those of cuBLASLt's callers) record an event,
 * launch a candidate, record another event, and ask for the time between the two. A candidate takes
 * another time in a graph, or right behind one, than as an eager launch: a microsecond more or less
 * on an H200, where candidates differ by tenths of one. The program would choose other candidates,
 * and compute other results. So while the program asks for times, sequences are submitted eagerly.
 * The exception is a sequence that has recurred for longer than a candidate is measured
 * (policy/follow.c): it is the program's real work, whose steps the program times.
 */
#include "capture/core/measure.h"
#include "capture/system/clock.h"

static _Atomic uint64_t asked_ns; /* when the program last got a time; 0: never */

void ag_core_time_asked(void)
{
    atomic_store_explicit(&asked_ns, ag_clock_ns(), memory_order_relaxed);
}

bool ag_measures(void)
{
    uint64_t asked = atomic_load_explicit(&asked_ns, memory_order_relaxed);
    return __builtin_expect(asked != 0, 0) && ag_clock_ns() < asked + AG_MEASURE_ASKED_NS;
}

uint32_t ag_measured_ops(void)
{
    return ag_measures() ? AG_MEASURE_OPS : 0;
}

void ag_measure_begins(struct ag_stream *s)
{
    ag_lock(&s->lock, AG_RANK_STREAM);
    if (ag_engine_is_idle(&s->engine))
        ag_policy_measured(ag_engine_policy(&s->engine), AG_MEASURE_OPS, ag_clock_ns());
    ag_unlock(&s->lock);
}
