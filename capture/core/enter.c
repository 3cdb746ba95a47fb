/* enter.c - see enter.h. */
#include "capture/core/enter.h"
#include "capture/core/branch.h"
#include "capture/core/submitter.h"
#include "capture/core/flush.h"
#include "capture/settings/options.h"
#include "capture/system/clock.h"
#include "capture/tracking/streams.h"
#include "capture/trace/trace.h"

/* The process ends. Its exit handlers may still use what its threads have submitted, so the
 * submitter gets up to a second, and a thread that is about to submit something itself until
 * `watched`. Nothing waits for a thread that waits in the driver. */
static void submit_at_end(struct ag_stream *s, bool own, uint64_t watched, uint64_t until)
{
    while (!ag_stream_submit_if_prompt(s, own)) {
        uint64_t now = ag_clock_ns();
        bool waits = !ag_stream_ring_is_at_rest(s) && now < until;
        if (!waits && !(atomic_load(&s->deferring) && now < watched))
            break;
        ag_sleep_ns(AG_LOOK_AGAIN_NS);
    }
}

/* The same for another thread's stream. Its queue may be full of work that never ends, and then
 * whoever submits stays in the driver: that is left to the threads that always do it. */
static void leave_to_watchdog(const struct ag_stream *s, uint64_t until)
{
    while ((atomic_load(&s->deferring) || !ag_stream_ring_is_at_rest(s)) && ag_clock_ns() < until)
        ag_sleep_ns(AG_LOOK_AGAIN_NS);
}

/* The process's exit handlers may still launch to a branch, whose work lies in another stream. */
static void end_branches_at_end(struct ag_stream *s)
{
    if (!ag_stream_forks(s) || !ag_stream_lock_if_prompt(s))
        return;
    if (ag_stream_is_live(s) && ag_submitter_settle_if_prompt(s) && ag_engine_is_idle(&s->engine))
        ag_fork_end(s);
    ag_unlock(&s->lock);
}

static void submit_everything(void)
{
    uint64_t now = ag_clock_ns(), until = now + AG_END_MOST_NS;
    uint64_t watched = (uint64_t)ag_options.max_defer_us * 1000 * AG_END_LOOKS;
    watched = now + (watched < AG_END_WATCHED_NS ? watched : AG_END_WATCHED_NS);
    struct ag_streams all = ag_streams_snapshot();
    for (struct ag_stream *s; (s = ag_streams_next(&all));) {
        /* the calling thread's own streams meet a sync point; the others only submit what they hold
         * back */
        bool own = ag_stream_is_own(s);
        if (!ag_state_is(AG_EAGER_END)) {
            if (ag_thread.in_host_function)
                ag_flush_await(s);
            ag_stream_submit_deferred(s, own);
            ag_branches_end(s); /* what passes by must find all its work in its stream */
            continue;
        }
        if (!own)
            leave_to_watchdog(s, watched);
        submit_at_end(s, own, watched, until);
        end_branches_at_end(s);
    }
}

void ag_state_enter(enum ag_reason reason, enum ag_sym sym)
{
    ag_state_defer_nothing(reason);
    ag_state_entered(reason, sym);
}

void ag_state_entered(enum ag_reason reason, enum ag_sym sym)
{
    if (atomic_load(&ag_open_streams))
        ag_trace_sync_point(NULL, sym);
    submit_everything();
    if (reason !=
        AG_EAGER_OBSERVE) /* observing, hooks still look at calls; only launches pass unseen */
        ag_state_pass_by(reason);
}
