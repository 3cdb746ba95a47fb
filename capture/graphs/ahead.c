/* ahead.c - see ahead.h. */
#include "capture/graphs/ahead.h"
#include "capture/system/clock.h"
#include "capture/system/lock.h"
#include "capture/tracking/count.h"
#include "driver/entries.h"
#include "driver/own.h"

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

/* Where the driver's queue is longer, the program would not wait yet, and it may be about to let
 * the GPU go on: so no graph waits for ever. */
void ag_ahead_wait_for_oldest(struct ag_stream *s)
{
    struct ag_ahead *a = &s->ahead;
    uint64_t began = ag_clock_ns();
    bool passed;
    while (!(passed = has_passed(a->events[a->oldest])) && a->waited_ns < AG_AHEAD_MOST_NS &&
           !atomic_load(&s->context->ending)) {
        ag_sleep_ns(AG_LOOK_AGAIN_NS);
        a->waited_ns = ag_clock_ns() - began;
    }
    if (a->waited_ns)
        ag_count(AG_COUNT_AHEAD);
    if (passed) {
        a->oldest = (a->oldest + 1) % AG_AHEAD_EVENTS;
        a->pending--;
    }
}

void ag_ahead_record(struct ag_stream *s)
{
    struct ag_ahead *a = &s->ahead;
    if (a->pending == AG_AHEAD_EVENTS) /* the last wait took too long */
        return;
    CUevent *event = &a->events[(a->oldest + a->pending) % AG_AHEAD_EVENTS];
    CUstreamCaptureMode mode = ag_core_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
    ag_probe_begins();
    if (!*event && AG_REAL(cuEventCreate)(event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
        *event = NULL;
    if (*event && AG_REAL(cuEventRecord)(*event, s->handle) == CUDA_SUCCESS)
        a->pending++;
    ag_probe_ends();
    ag_core_mode(mode);
    a->ops = 0;
}

void ag_ahead_ends(struct ag_stream *s)
{
    for (uint32_t i = 0; i < AG_AHEAD_EVENTS; i++)
        if (s->ahead.events[i])
            AG_REAL(cuEventDestroy_v2)(s->ahead.events[i]);
    s->ahead = (struct ag_ahead){0};
}
