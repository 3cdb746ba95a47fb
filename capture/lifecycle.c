/* lifecycle.c - start, the program's own captures, fork, and the end of the process. */
#include "capture/builder.h"
#include "capture/capture.h"
#include "capture/clock.h"
#include "capture/compare.h"
#include "capture/flush.h"
#include "capture/graph.h"
#include "capture/live.h"
#include "capture/log.h"
#include "capture/nvtx.h"
#include "capture/state.h"
#include "capture/stats.h"
#include "capture/trace.h"
#include "capture/watchdog.h"

struct ag_state ag_state = {.bypass = AG_BYPASS_OFF};

static void set_bypass(uint32_t bit)
{
    atomic_fetch_or(&ag_state.bypass, bit);
}

static void clear_bypass(uint32_t bit)
{
    atomic_fetch_and(&ag_state.bypass, ~bit);
}

void ag_capture_start(bool observe_only, const char *why)
{
    ag_options_read();
    ag_clock_start();
    if (ag_options.mode == AG_MODE_OFF)
        return;
    ag_trace_start();
    ag_live_start();
    if (ag_options.mode == AG_MODE_OBSERVE)
        atomic_store(&ag_state.observe_only, 1);
    if (observe_only)
        ag_capture_observe_only(why);
    clear_bypass(AG_BYPASS_OFF);
    ag_info("start", "%s", atomic_load(&ag_state.observe_only) ? "observing" : "replaying");
}

void ag_capture_started(void)
{
    if (!atomic_load(&ag_state.observe_only))
        ag_nvtx_start();
}

void ag_capture_observe_only(const char *why)
{
    if (atomic_exchange(&ag_state.observe_only, 1))
        return;
    ag_warn("start", "replaying nothing from here on: %s", why);
    ag_trace_note(why);
    ag_capture_barrier_quiet(AG_SYM_COUNT);
    if (!atomic_load(&ag_state.bypass)) { /* no graph is left to be followed */
        ag_capture_functions_die(AG_SYM_COUNT);
    }
}

/* ---- the program's own captures --------------------------------------------------------- */

static void submit_everything(void)
{
    size_t n;
    struct ag_stream **streams = ag_streams_snapshot(&n);
    for (size_t i = 0; i < n; i++)
        ag_stream_submit_deferred(streams[i], false);
    ag_streams_release(streams, n);
}

void ag_capture_program_capture_begins(CUstream stream, bool ptsz, enum ag_sym sym)
{
    (void)stream;
    (void)ptsz;
    if (atomic_load(&ag_state.bypass) & ~(AG_BYPASS_CAPTURE | AG_BYPASS_DEAD))
        return;
    /* Count first: an op that takes its stream's lock from now on is not deferred. Then submit what
     * is, taking every stream's lock once, whether or not it seems to defer: only then is nothing
     * left that an op which passes by the locks could overtake. */
    atomic_fetch_add(&ag_state.captures, 1);
    if (atomic_load_explicit(&ag_open_streams, memory_order_acquire)) {
        atomic_fetch_and(&ag_state.bypass, ~AG_BYPASS_CAPTURE);
        ag_capture_barrier_quiet(sym);
    }
    submit_everything();
    set_bypass(AG_BYPASS_CAPTURE);
    ag_builder_pause();  /* waits for a build under way */
    ag_builder_resume(); /* the capture count keeps it from the next */
}

static void capture_over(void)
{
    if (atomic_fetch_sub(&ag_state.captures, 1) == 1) {
        clear_bypass(AG_BYPASS_CAPTURE);
        ag_builder_wake();
    }
}

void ag_capture_program_capture_began(bool succeeded)
{
    if (!succeeded && atomic_load(&ag_state.captures))
        capture_over();
}

void ag_capture_program_capture_ended(void)
{
    if (atomic_load(&ag_state.captures))
        capture_over();
}

uint32_t ag_capture_streams_capturing(void)
{
    size_t n;
    uint32_t count = 0;
    struct ag_stream **streams = ag_streams_snapshot(&n);
    for (size_t i = 0; i < n; i++) {
        struct ag_stream *s = streams[i];
        CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
        ag_lock(&s->lock); /* a stream that is alive now stays so meanwhile */
        if (!s->dead && !s->legacy && AG_HAVE(cuStreamIsCapturing) &&
            AG_REAL(cuStreamIsCapturing)(s->handle, &status) == CUDA_SUCCESS)
            count += status != CU_STREAM_CAPTURE_STATUS_NONE;
        ag_unlock(&s->lock);
    }
    ag_streams_release(streams, n);
    return count;
}

/* ---- errors that end a context ---------------------------------------------------------- */

static bool ends_context(CUresult r)
{
    switch ((int)r) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
        return true;
    default:
        return false;
    }
}

void ag_capture_driver_error(CUresult error)
{
    if (__builtin_expect(!ends_context(error), 1) || atomic_load(&ag_state.bypass))
        return;
    ag_capture_barrier_quiet(AG_SYM_COUNT);
    set_bypass(AG_BYPASS_DEAD);
    ag_count(AG_COUNT_DEAD_CONTEXT);
    ag_info("capture", "error %d: nothing is deferred until the context is destroyed", (int)error);
}

void ag_state_context_destroyed(void)
{
    if (atomic_load(&ag_state.bypass) & AG_BYPASS_DEAD)
        ag_host_functions_forget();
    clear_bypass(AG_BYPASS_DEAD);
}

/* ---- process ---------------------------------------------------------------------------- */

void ag_capture_after_fork_in_child(void)
{
    set_bypass(AG_BYPASS_FORKED);
    ag_trace_after_fork();
    ag_live_after_fork();
    atomic_store(&ag_open_streams, 0);
}

bool ag_capture_active(void)
{
    return !(atomic_load_explicit(&ag_state.bypass, memory_order_relaxed) &
             ~(AG_BYPASS_CAPTURE | AG_BYPASS_DEAD));
}

void ag_capture_finish(void)
{
    static _Atomic bool finished;
    if ((atomic_load(&ag_state.bypass) & (AG_BYPASS_OFF | AG_BYPASS_FORKED)) ||
        atomic_exchange(&finished, true))
        return;
    ag_capture_barrier_quiet(AG_SYM_COUNT);
    set_bypass(AG_BYPASS_END);
    ag_watchdog_stop();
    ag_builder_stop();
    ag_compare_stop();
    if (ag_options.stats)
        ag_stats_print();
    ag_trace_stop();
}
