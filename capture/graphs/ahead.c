/* ahead.c - see ahead.h. */
#include "capture/graphs/ahead.h"
#include "capture/system/clock.h"
#include "capture/tracking/count.h"
#include "capture/tracking/fork.h"
#include "capture/tracking/per_thread.h"

/* In the relaxed mode it ends no capture of the program's. Of an error the program hears by a call
 * of its own. */
static bool has_passed(CUevent event)
{
    CUstreamCaptureMode mode = ag_core_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
    ag_probe_begins();
    CUresult r = AG_REAL(cuEventQuery)(event);
    ag_probe_ends();
    ag_core_mode(mode);
    return r != CUDA_ERROR_NOT_READY;
}

static void count_behind(struct ag_ahead *a)
{
    uint32_t behind = a->pending ? a->ops - a->at[a->oldest] : 0;
    atomic_store_explicit(&a->behind, behind, memory_order_relaxed);
}

bool ag_ahead_look(struct ag_stream *s)
{
    struct ag_ahead *a = &s->ahead;
    if (!has_passed(a->events[a->oldest]))
        return false;
    a->oldest = (a->oldest + 1) % AG_AHEAD_EVENTS;
    a->pending--;
    a->impatient = false;
    count_behind(a);
    return true;
}

bool ag_ahead_stays_far(struct ag_stream *s)
{
    while (ag_ahead_is_far(s, 0))
        if (!ag_ahead_look(s))
            return !s->ahead.impatient;
    return false;
}

/* While something is in the ring, it is the submitter that looks which events have passed. */
static bool looks_far(struct ag_stream *s)
{
    if (!ag_stream_ring_is_at_rest(s))
        return ag_ahead_is_far(s, 0);
    struct ag_visit visit = ag_driver_enter(s);
    bool far = ag_ahead_stays_far(s);
    ag_driver_leave(s, visit);
    return far;
}

/* Whether the stream, which was `serial`, has to be waited for after so long. The caller has the
 * lock again. */
static bool waits_on(struct ag_stream *s, uint64_t serial, uint64_t ns, uint64_t now)
{
    if (!ag_stream_is_live(s) || s->serial != serial)
        return false;
    bool far = looks_far(s);
    if (far && ns < AG_AHEAD_MOST_NS)
        return true;
    s->ahead.impatient = far;
    s->ahead.waited_at = ag_stream_ops(s);
    ag_policy_waited(ag_engine_policy(&s->engine), ns, now);
    return false;
}

/* Where the driver's queue is longer, the program would not wait yet, and it may be about to let
 * the GPU go on: so no launch waits for ever, and the next ones do not wait for the same event. */
void ag_ahead_wait(struct ag_stream *s)
{
    uint64_t serial = s->serial, began = ag_clock_ns();
    bool waits = true;
    s->ahead.waits = false;
    atomic_fetch_add(&s->references, 1); /* another thread may end the stream meanwhile */
    ag_unlock(&s->lock);
    while (waits) {
        ag_sleep_ns(AG_LOOK_AGAIN_NS);
        uint64_t now = ag_clock_ns(), ns = now - began;
        if (ag_stream_lock_if_prompt(s)) {
            waits = waits_on(s, serial, ns, now);
            ag_unlock(&s->lock);
        } else {
            waits = ns < AG_AHEAD_MOST_NS;
        }
    }
    ag_stream_release(s);
}

void ag_ahead_make(struct ag_stream *s)
{
    struct ag_ahead *a = &s->ahead;
    struct ag_visit visit = ag_driver_enter(s);
    CUstreamCaptureMode mode = ag_core_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
    ag_probe_begins();
    for (uint32_t i = 0; i < AG_AHEAD_EVENTS; i++)
        if (!a->events[i] &&
            AG_REAL(cuEventCreate)(&a->events[i], CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) {
            a->events[i] = NULL;
            ag_count(AG_COUNT_AHEAD_FAILED);
        }
    ag_probe_ends();
    ag_core_mode(mode);
    ag_driver_leave(s, visit);
    atomic_store(&a->made, AG_MADE);
}

static bool record(CUevent event, CUstream stream)
{
    CUstreamCaptureMode mode = ag_core_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
    ag_probe_begins();
    bool done = AG_REAL(cuEventRecord)(event, stream) == CUDA_SUCCESS;
    ag_probe_ends();
    ag_core_mode(mode);
    ag_count_by(AG_COUNT_AHEAD_FAILED, !done);
    return done;
}

__attribute__((hot)) void ag_ahead_launched(struct ag_stream *s, uint32_t ops)
{
    struct ag_ahead *a = &s->ahead;
    a->ops += ops;
    bool due = a->ops + ops - a->last > AG_AHEAD_SPACING; /* with as many ops once more */
    if (due && a->pending < AG_AHEAD_EVENTS) {
        if (atomic_load(&a->made) == AG_MADE) {
            uint32_t next = (a->oldest + a->pending) % AG_AHEAD_EVENTS;
            a->last = a->at[next] = a->ops;
            if (a->events[next])
                a->pending += record(a->events[next], ag_stream_handle(s));
            else
                atomic_store(&a->made, AG_NOT_MADE); /* as many ops later it is tried again */
        } else {
            uint8_t not_made = AG_NOT_MADE;
            atomic_compare_exchange_strong(&a->made, &not_made, AG_MAKE);
        }
    }
    if (a->pending)
        count_behind(a);
}

/* Of a fork the mean of its streams counts: that one of them is far ahead is then certain. */
void ag_ahead_count_call(struct ag_stream *s)
{
    struct ag_ahead *a = &s->ahead;
    if (++a->calls < (ag_stream_forks(s) ? s->fork->width : 1))
        return;
    a->calls = 0;
    a->ops++;
    count_behind(a);
}

void ag_ahead_ends(struct ag_stream *s)
{
    for (uint32_t i = 0; i < AG_AHEAD_EVENTS; i++)
        if (s->ahead.events[i])
            AG_REAL(cuEventDestroy_v2)(s->ahead.events[i]);
    memset(&s->ahead, 0, sizeof(s->ahead));
}
