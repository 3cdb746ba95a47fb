/* parked.c - see parked.h. */
#include "capture/tracking/parked.h"
#include "capture/tracking/state.h"

static _Atomic uint32_t working; /* streams with such an event */

static void forget(struct ag_stream *s)
{
    atomic_store(&s->behind_parked, NULL);
    atomic_fetch_sub(&working, 1);
}

static void destroy(struct ag_stream *s)
{
    AG_REAL(cuEventDestroy_v2)(atomic_load(&s->behind_parked));
    forget(s);
}

/* Records the event, unless the stream is idle. A thread that has ended has no stream by now, and
 * the legacy stream, which waits for it, would also keep blocking streams waiting. */
static bool record(struct ag_stream *s, CUstream handle)
{
    CUevent event;
    CUresult r = AG_REAL(cuStreamQuery)(handle);
    if (r == CUDA_SUCCESS)
        return true;
    if (r != CUDA_ERROR_NOT_READY || s->thread ||
        AG_REAL(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
        return false;
    if (AG_REAL(cuEventRecord)(event, handle) != CUDA_SUCCESS) {
        AG_REAL(cuEventDestroy_v2)(event);
        return false;
    }
    atomic_store(&s->behind_parked, event);
    atomic_fetch_add(&working, 1);
    return true;
}

bool ag_parked_begins(struct ag_stream *s)
{
    struct ag_visit visit = ag_driver_enter(s);
    CUstreamCaptureMode mode = ag_core_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
    ag_probe_begins();
    bool may = record(s, s->thread ? CU_STREAM_LEGACY : s->handle);
    ag_probe_ends();
    ag_core_mode(mode);
    ag_driver_leave(s, visit);
    return may;
}

static void look(struct ag_stream *s)
{
    CUevent event = atomic_load(&s->behind_parked);
    if (!event || atomic_load(&s->context->ending))
        return;
    struct ag_visit visit = ag_driver_enter(s);
    CUstreamCaptureMode mode = ag_core_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
    ag_probe_begins();
    if (AG_REAL(cuEventQuery)(event) == CUDA_SUCCESS)
        destroy(s);
    ag_probe_ends();
    ag_core_mode(mode);
    ag_driver_leave(s, visit);
}

static bool still_works(struct ag_stream *s)
{
    if (atomic_load(&s->behind_parked) && ag_stream_lock_if_prompt(s)) {
        look(s);
        ag_unlock(&s->lock);
    }
    return atomic_load(&s->behind_parked);
}

void ag_parked_look(const struct ag_stream_kind *kind)
{
    bool may = kind->context && atomic_load(&working) && !ag_thread.in_host_function;
    for (uint64_t made = 0; may;) {
        ag_lock(&ag_stream_table.lock, AG_RANK_STREAMS);
        struct ag_stream *s = ag_stream_parked_behind(made, kind);
        if (s)
            atomic_fetch_add(&s->references, 1);
        ag_unlock(&ag_stream_table.lock);
        if (!s)
            return;
        made = s->made;
        may = still_works(s);
        ag_stream_release(s);
    }
}

void ag_parked_ends(struct ag_stream *s, bool ended)
{
    if (atomic_load(&s->behind_parked) && ended)
        forget(s);
    else if (atomic_load(&s->behind_parked))
        destroy(s);
}
