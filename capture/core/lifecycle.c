/* lifecycle.c - start, fork, and the end of the process. */
#include "capture/graphs/budget.h"
#include "capture/graphs/builder.h"
#include "capture/system/clock.h"
#include "capture/report/compare.h"
#include "capture/core/enter.h"
#include "capture/core/flush.h"
#include "capture/core/closing.h"
#include "capture/trace/live.h"
#include "capture/settings/log.h"
#include "capture/graphs/nvtx.h"
#include "capture/settings/options.h"
#include "capture/graphs/request.h"
#include "capture/report/shortfall.h"
#include "capture/tracking/dormancy.h"
#include "capture/tracking/parked.h"
#include "capture/tracking/per_thread.h"
#include "capture/tracking/state.h"
#include "capture/report/summary.h"
#include "capture/system/thread.h"
#include "capture/trace/trace.h"
#include "capture/trace/trace_file.h"
#include "capture/core/submitter.h"
#include "capture/core/branch.h"
#include "capture/core/watchdog.h"
#include "capture/core/world.h"
#include <stdlib.h>

void ag_core_started(void)
{
    if (!ag_state_builds_nothing())
        ag_nvtx_start();
}

void ag_core_observe_only(const char *why)
{
    uint32_t not = AG_OBSERVE_NOT;
    if (!atomic_compare_exchange_strong(&ag_state.observe_only, &not, AG_OBSERVE_OWN))
        return;
    ag_shortfall_observes(why);
    ag_info("start", "replaying nothing from here on: %s", why);
    ag_trace_note(why);
    ag_state_enter(AG_EAGER_OBSERVE, AG_SYM_COUNT);
    if (ag_state_tracks())
        ag_core_invalidate_functions(AG_SYM_COUNT); /* the graphs are of no use any more */
}

/* The driver reads the variable when it is initialised, which has happened by the time a stream
 * exists. */
static void ask_blocking(void)
{
    static _Atomic bool asked;
    if (atomic_exchange(&asked, true))
        return;
    const char *value = getenv("CUDA_LAUNCH_BLOCKING");
    if (value && atoi(value))
        ag_core_observe_only("CUDA_LAUNCH_BLOCKING is set");
}

/* Called after a stream has been made. */
static void stream_made(struct ag_stream *s)
{
    ask_blocking();
    ag_request_prepare(s);
    ag_compare_start();
    ag_trace_stream(s);
    if (!s->thread)
        return;
    if (!ag_nothing_waits()) /* its beginning has missed this stream */
        atomic_fetch_or(&s->not_understood, AG_BEHIND_WAITS);
    ag_closing_ended_threads(s->context);
}

static void fill_page(struct ag_live_page *page)
{
    ag_submitter_count_time();
    ag_figures_fill(page);
}

void ag_core_start(bool observe_only, const char *why)
{
    ag_options_read();
    ag_clock_start();
    if (ag_options.mode == AG_MODE_OFF)
        return;
    ag_thread_look();
    ag_dormancy_start(ag_submitter_settle_ring);
    ag_streams_start(&ag_graphs_policy_hooks, &ag_driver_world, ag_parked_look, stream_made);
    ag_watchdog_start(ag_stream_pause);
    ag_live_start(fill_page);
    ag_trace_start();
    if (ag_options.mode == AG_MODE_OBSERVE)
        atomic_store(&ag_state.observe_only, AG_OBSERVE_WANTED);
    if (observe_only)
        ag_core_observe_only(why);
    ag_state_leave(AG_EAGER_OFF);
    ag_info("start", "%s", ag_state_builds_nothing() ? "observing" : "replaying");
}

/* ---- process ---------------------------------------------------------------------------- */

void ag_core_after_fork_in_child(void)
{
    ag_state_set(AG_EAGER_FORKED);
    ag_trace_after_fork();
    ag_live_after_fork();
    atomic_store(&ag_open_streams, 0);
    atomic_store(&ag_per_thread_strays, 0);
    ag_thread.waits = false; /* its stream's lock may be held for good, by a thread that is gone */
    ag_thread.waits_for = NULL;
}

void ag_core_launched_nothing(void)
{
    ag_dump_keep_others();
}

bool ag_core_active(void)
{
    return ag_state_tracks();
}

/* Has much on the stack, and the process may end in a handler that has little. */
static __attribute__((noinline)) void close_dump(void)
{
    struct ag_lines counters = {.used = 0};
    ag_figures_list(&counters);
    ag_dump_close(&counters);
}

void ag_core_finish(void)
{
    static _Atomic bool finished;
    if (ag_state_is(AG_EAGER_OFF) || ag_state_is(AG_EAGER_FORKED) ||
        atomic_exchange(&finished, true))
        return;
    if (ag_thread.locks_held) { /* exit() in a signal handler that interrupted this thread */
        ag_state_set(AG_EAGER_END);
        return;
    }
    ag_state_enter(AG_EAGER_END, AG_SYM_COUNT);
    ag_watchdog_stop();
    ag_submitter_stop();
    ag_builder_stop();
    ag_compare_stop();
    ag_shortfall_tell();
    if (ag_options.stats)
        ag_summary_print();
    if (ag_trace_stop())
        close_dump();
    ag_live_end();
}
