/* enter.c - see enter.h. */
#include "capture/core/enter.h"
#include "capture/capture.h"
#include "capture/tracking/count.h"
#include "capture/core/flush.h"
#include "capture/tracking/state.h"
#include "capture/tracking/stream.h"
#include "capture/trace/trace.h"

static void submit_everything(void)
{
    size_t n;
    struct ag_stream **streams = ag_streams_snapshot(&n);
    for (size_t i = 0; i < n; i++) {
        /* the calling thread's own streams meet a sync point; the others only submit what they hold
         * back */
        bool own = ag_stream_is_own(streams[i]);
        if (ag_state_is(AG_EAGER_END)) /* must not wait for a thread that waits in the driver */
            ag_stream_submit_if_prompt(streams[i], own);
        else
            ag_stream_submit_deferred(streams[i], own);
    }
    ag_streams_release(streams, n);
}

void ag_state_enter(enum ag_reason reason, enum ag_sym sym)
{
    ag_state_defer_nothing(reason);
    if (atomic_load(&ag_open_streams)) {
        ag_count_sync_point(sym);
        ag_trace_sync_point(NULL, sym);
    }
    submit_everything();
    if (reason != AG_EAGER_OBSERVE) /* observing, hooks still look at calls; launches sleep */
        ag_state_pass_by(reason);
}
