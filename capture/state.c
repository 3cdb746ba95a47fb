/* state.c - see state.h. */
#include "capture/state.h"
#include "capture/flush.h"
#include "capture/stats.h"
#include "capture/trace.h"

struct ag_state ag_state = {.eager = AG_EAGER_OFF, .bypass = AG_EAGER_OFF};

/* Of the two words together; nothing is called under it. */
static struct ag_lock lock;

static void submit_everything(void)
{
    size_t n;
    struct ag_stream **streams = ag_streams_snapshot(&n);
    for (size_t i = 0; i < n; i++) {
        /* the calling thread's own streams meet a boundary, the others only lose their deferral */
        bool own = ag_stream_is_own(streams[i]);
        if (ag_state_is(AG_EAGER_END)) /* does not wait for a thread that waits in the driver */
            ag_stream_submit_if_prompt(streams[i], own);
        else
            ag_stream_submit_deferred(streams[i], own);
    }
    ag_streams_release(streams, n);
}

void ag_state_enter(enum ag_reason reason, enum ag_sym sym)
{
    ag_lock(&lock);
    atomic_fetch_or(&ag_state.eager, (uint32_t)reason);
    ag_unlock(&lock);
    if (atomic_load(&ag_open_streams)) {
        ag_count_boundary(sym);
        ag_trace_boundary(NULL, sym);
    }
    submit_everything();
    if (reason == AG_EAGER_OBSERVE) /* calls are still looked at; launches sleep */
        return;
    ag_lock(&lock);
    if (ag_state_is(reason)) /* nobody has left it meanwhile */
        atomic_fetch_or(&ag_state.bypass, (uint32_t)reason);
    ag_unlock(&lock);
}

void ag_state_leave(enum ag_reason reason)
{
    ag_lock(&lock);
    atomic_fetch_and(&ag_state.bypass, ~(uint32_t)reason);
    atomic_fetch_and(&ag_state.eager, ~(uint32_t)reason);
    ag_unlock(&lock);
}

void ag_state_set(enum ag_reason reason)
{
    atomic_fetch_or(&ag_state.eager, (uint32_t)reason);
    atomic_fetch_or(&ag_state.bypass, (uint32_t)reason);
}
