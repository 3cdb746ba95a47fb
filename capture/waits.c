/*
 * waits.c - work that waits for something outside the GPU: collective kernels for their peers,
 * memory operations of a stream for a word that the program may be about to write, host functions
 * (hostfunction.c) for whatever they like. Instantiating a graph may wait for the GPU (the fuzzer
 * hung so on an H200, driver 580), with the driver's locks held. So nothing is built until they
 * have passed.
 */
#include "capture/capture.h"
#include "capture/flush.h"
#include "capture/graph.h"
#include "capture/state.h"
#include "capture/stats.h"
#include <pthread.h>

static _Atomic bool graphs_wait; /* some graph of the program's may */
static _Atomic bool any;         /* some stream has its mark set, or `loose` has something */

/* Behind waits in streams that have no struct ag_stream. */
enum { LOOSE = 16 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct {
    CUcontext ctx;
    CUevent event;
} loose[LOOSE];

/* Under the lock. */
static bool record_locked(struct ag_stream *s)
{
    if (!s->behind_wait &&
        AG_REAL(cuEventCreate)(&s->behind_wait, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
        s->behind_wait = NULL;
    return s->behind_wait && AG_REAL(cuEventRecord)(s->behind_wait, s->handle) == CUDA_SUCCESS;
}

/* False where it cannot be told when what was launched has passed. */
static bool record(struct ag_stream *s)
{
    bool done = true;
    ag_lock(&s->lock);
    if (s->life == AG_STREAM_LIVE) { /* else its context ends, and what waits there with it */
        struct ag_visit visit = ag_driver_enter(s);
        CUstreamCaptureMode mode = ag_capture_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
        done = record_locked(s);
        ag_capture_mode(mode);
        ag_driver_leave(s, visit);
        if (done) {
            atomic_store(&s->waits, true);
            atomic_store(&any, true);
        } else {
            ag_count(AG_COUNT_ENDLESS);
        }
    }
    ag_unlock(&s->lock);
    return done;
}

void ag_waits_launched(struct ag_stream *s)
{
    if (!record(s))
        ag_builder_hold(); /* for good */
}

static bool loose_at_rest(void);

/* By the thread whose stream it is. */
static bool record_loose(CUstream stream, bool ptsz)
{
    bool done = false;
    CUcontext ctx = ag_context_current();
    if (stream && stream != CU_STREAM_LEGACY && stream != CU_STREAM_PER_THREAD)
        AG_REAL(cuStreamGetCtx)(stream, &ctx);
    if (ctx)
        ag_context_get(ctx); /* whose end is told */
    bool entered = ag_context_enter(ctx);
    CUstreamCaptureMode mode = ag_capture_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
    loose_at_rest(); /* makes room */
    ag_mutex_lock(&mutex);
    for (int i = 0; i < LOOSE && !done; i++) {
        if (loose[i].event ||
            AG_REAL(cuEventCreate)(&loose[i].event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
            continue;
        loose[i].ctx = ctx;
        CUresult r = ptsz ? AG_REAL(cuEventRecord_ptsz)(loose[i].event, stream)
                          : AG_REAL(cuEventRecord)(loose[i].event, stream);
        done = r == CUDA_SUCCESS;
        if (!done) {
            AG_REAL(cuEventDestroy_v2)(loose[i].event);
            loose[i].event = NULL;
            break;
        }
    }
    ag_mutex_unlock(&mutex);
    ag_capture_mode(mode);
    ag_context_leave(entered);
    if (done)
        atomic_store(&any, true);
    else
        ag_count(AG_COUNT_ENDLESS);
    return done;
}

static bool has_passed(CUcontext ctx, CUevent event)
{
    bool entered = ag_context_enter(ctx);
    bool passed = AG_REAL(cuEventQuery)(event) != CUDA_ERROR_NOT_READY;
    ag_context_leave(entered);
    return passed;
}

static bool loose_at_rest(void)
{
    bool rest = true;
    ag_mutex_lock(&mutex);
    for (int i = 0; i < LOOSE; i++) {
        if (!loose[i].event)
            continue;
        if (has_passed(loose[i].ctx, loose[i].event)) {
            AG_REAL(cuEventDestroy_v2)(loose[i].event);
            loose[i].event = NULL;
        } else {
            rest = false;
        }
    }
    ag_mutex_unlock(&mutex);
    return rest;
}

bool ag_waits_at_rest(void)
{
    size_t n;
    if (ag_host_functions_pending())
        return false;
    if (!atomic_exchange(&any, false))
        return true;
    /* to ask for an event would end a capture of the program's (graph.h, ag_capture_mode) */
    CUstreamCaptureMode mode = ag_capture_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
    bool rest = loose_at_rest();
    struct ag_stream **streams = ag_streams_snapshot(&n);
    for (size_t i = 0; i < n; i++) {
        if (!atomic_exchange(&streams[i]->waits, false) || !streams[i]->behind_wait)
            continue;
        if (!has_passed(streams[i]->context->handle, streams[i]->behind_wait)) {
            atomic_store(&streams[i]->waits, true);
            rest = false;
        }
    }
    ag_streams_release(streams, n);
    ag_capture_mode(mode);
    if (!rest)
        atomic_store(&any, true);
    return rest;
}

void ag_waits_stream_goes(struct ag_stream *s)
{
    CUevent event = s->behind_wait;
    s->behind_wait = NULL;
    if (!event)
        return;
    ag_mutex_lock(&mutex);
    for (int i = 0; i < LOOSE && atomic_load(&s->waits); i++) {
        if (loose[i].event)
            continue;
        loose[i].ctx = s->context->handle;
        loose[i].event = event;
        event = NULL;
        atomic_store(&s->waits, false);
    }
    ag_mutex_unlock(&mutex);
    if (event)
        AG_REAL(cuEventDestroy_v2)(event);
    else
        atomic_store(&any, true);
}

void ag_waits_context_goes(CUcontext ctx)
{
    ag_mutex_lock(&mutex);
    for (int i = 0; i < LOOSE; i++)
        if (loose[i].ctx == ctx)
            loose[i].event = NULL;
    ag_mutex_unlock(&mutex);
}

bool ag_waits_pending(void)
{
    return atomic_load(&any) || ag_host_functions_pending();
}

/* Or it cannot be told, where the call about to be made fails as well. */
static bool is_capturing(CUstream stream, bool ptsz)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult r = ptsz ? AG_REAL(cuStreamIsCapturing_ptsz)(stream, &status)
                      : AG_REAL(cuStreamIsCapturing)(stream, &status);
    return r != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

bool ag_capture_wait_begins(CUstream stream, bool ptsz)
{
    if (!ag_state_tracks() || ag_state_is(AG_EAGER_DEAD) || atomic_load(&ag_state.observe_only))
        return false;
    /* The stream itself, not the count of captures, which may miss one that an unknown call began:
     * a host function of a graph runs any number of times, and its wrapper must not. */
    if (is_capturing(stream, ptsz)) {
        ag_capture_graphs_wait(); /* it becomes a node, and nothing waits yet */
        return false;
    }
    ag_builder_hold();
    return true;
}

bool ag_capture_graph_wait_begins(CUstream stream, bool ptsz)
{
    return atomic_load_explicit(&graphs_wait, memory_order_relaxed) &&
           ag_capture_wait_begins(stream, ptsz);
}

void ag_capture_graphs_wait(void)
{
    atomic_store_explicit(&graphs_wait, true, memory_order_relaxed);
}

void ag_capture_wait_ends(CUstream stream, bool ptsz, bool waits)
{
    /* none is made here: that may load the fill kernel, which may wait for this very wait */
    struct ag_stream *s = waits ? ag_stream_find(stream, ptsz) : NULL;
    bool told = !waits || (s ? record(s) : record_loose(stream, ptsz));
    if (told)
        ag_builder_release(); /* else nothing is built any more */
}
