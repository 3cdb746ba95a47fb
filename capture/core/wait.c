/*
 * wait.c - calls after which a stream waits for something outside the GPU. The library builds
 * nothing until that wait is over (waits.c, hostfunction.c).
 */
#include "capture/core/wait.h"
#include "capture/core/branch.h"
#include "capture/core/flush.h"
#include "capture/tracking/count.h"
#include "capture/tracking/hostfunction.h"
#include "capture/graphs/pause.h"
#include "capture/system/clock.h"
#include "capture/tracking/memory.h"
#include "capture/tracking/per_thread.h"
#include "capture/tracking/state.h"
#include "capture/tracking/streams.h"
#include "capture/tracking/waits.h"

static _Atomic bool graphs_wait; /* some graph of the program's may wait */

/* What others submit for a per-thread default stream goes behind all blocking streams of its
 * context (per_thread.h). If one of these waits for the program, and the program for that work, it
 * hangs. So until the wait is over, such streams hold nothing back. Whoever is in the driver with
 * what one holds back has to leave it first, unless that waits there for room in a full queue. */
static void per_thread_streams_pass(void)
{
    if (!atomic_load(&ag_per_thread_any))
        return;
    struct ag_streams all = ag_streams_snapshot();
    for (struct ag_stream *s; (s = ag_streams_next(&all));) {
        if (!s->thread)
            continue;
        atomic_fetch_or(&s->not_understood, AG_BEHIND_WAITS);
        uint64_t until = ag_clock_monotonic_ns() + AG_PASS_MOST_NS;
        while (!ag_stream_submit_if_prompt(s, ag_stream_is_own(s))) {
            if (ag_clock_monotonic_ns() >= until) {
                ag_count(AG_COUNT_OUTWAITED);
                break;
            }
            ag_sleep_ns(AG_LOOK_AGAIN_NS);
        }
    }
}

bool ag_wait_of_peers_begins(void)
{
    if (ag_state_builds_nothing())
        return false;
    ag_pause_hold();
    per_thread_streams_pass();
    ag_forks_end_for_wait(); /* as in ag_core_wait_begins(): a peer may be the program's */
    return true;
}

void ag_wait_of_peers_ends(struct ag_stream *s)
{
    if (ag_waits_record(s))
        ag_pause_release(); /* else the builder stays held */
}

void ag_wait_captures(CUfunction func)
{
    if (ag_state_captures() && !ag_core_graphs_may_wait() &&
        ag_name_is_of_peers(ag_function_name(func)))
        ag_core_graphs_wait();
}

/* Also true if the driver gives no answer; then the call about to be made fails as well. */
static bool is_capturing(CUstream stream, bool ptsz)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    ag_probe_begins();
    CUresult r = ptsz ? AG_REAL(cuStreamIsCapturing_ptsz)(stream, &status)
                      : AG_REAL(cuStreamIsCapturing)(stream, &status);
    ag_probe_ends();
    return r != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

bool ag_core_wait_begins(CUstream stream, bool ptsz)
{
    bool holds = ag_state_tracks() && !ag_state_is(AG_EAGER_BROKEN) && !ag_state_builds_nothing();
    /* Ask the stream itself. The count of captures may miss one that an unknown call began. A host
     * function of a graph runs any number of times, and its wrapper must not. */
    if (holds && is_capturing(stream, ptsz)) {
        ag_core_graphs_wait(); /* the call becomes a node, and nothing waits yet */
        return false;
    }
    if (holds) {
        ag_pause_hold();
        per_thread_streams_pass();
    }
    /* The program may wait for one stream of a fork before it ends what another waits for. A graph
     * would be behind both. No fork begins while the builder is held (branch.c). */
    ag_forks_end_for_wait();
    return holds;
}

bool ag_core_graphs_may_wait(void)
{
    return atomic_load_explicit(&graphs_wait, memory_order_relaxed);
}

bool ag_core_graph_wait_begins(CUstream stream, bool ptsz)
{
    ag_memory_graph_is_launched();
    return ag_core_graphs_may_wait() && ag_core_wait_begins(stream, ptsz);
}

void ag_core_graphs_wait(void)
{
    atomic_store_explicit(&graphs_wait, true, memory_order_relaxed);
}

void ag_core_wait_ends(CUstream stream, bool ptsz, bool waits)
{
    /* makes no struct ag_stream: that may load the fill kernel, which may wait for this
     * very wait */
    struct ag_stream *s = waits ? ag_stream_find(stream, ptsz) : NULL;
    bool told = !waits || (s ? ag_waits_record(s) : ag_waits_record_loose(stream, ptsz));
    if (told)
        ag_pause_release(); /* else the builder stays held */
}

struct ag_host_call *ag_core_host_begins(CUstream stream, bool ptsz, CUhostFn function,
                                         CUstreamCallback callback, void *data)
{
    if (!ag_core_wait_begins(stream, ptsz))
        return NULL;
    struct ag_host_call *call = ag_host_call_make(stream, ptsz, function, callback, data);
    if (!call)
        ag_count(AG_COUNT_ENDLESS); /* the builder stays held */
    return call;
}

void ag_core_host_ends(struct ag_host_call *not_launched)
{
    if (not_launched)
        ag_host_call_cancel(not_launched);
    ag_pause_release();
}
