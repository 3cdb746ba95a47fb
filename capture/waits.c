/*
 * waits.c - work that waits for something outside the GPU: collective kernels for their peers,
 * memory operations of a stream for a word that the program may be about to write. Instantiating a
 * graph may wait for the GPU (the fuzzer hung so on an H200, driver 580), with the driver's locks
 * held. So nothing is built until they have passed.
 */
#include "capture/capture.h"
#include "capture/graph.h"
#include "capture/state.h"
#include <pthread.h>

static _Atomic bool any; /* some stream has its mark set, or `loose` has something */

/* Behind waits in streams that have no struct ag_stream. */
enum { LOOSE = 16 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct {
    CUcontext ctx;
    CUevent event;
} loose[LOOSE];

void ag_waits_launched(struct ag_stream *s)
{
    bool entered = ag_context_enter(s);
    CUstreamCaptureMode mode = ag_capture_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
    ag_lock(&s->lock);
    if (!s->behind_wait)
        AG_REAL(cuEventCreate)(&s->behind_wait, CU_EVENT_DISABLE_TIMING);
    if (s->behind_wait)
        AG_REAL(cuEventRecord)(s->behind_wait, s->handle);
    ag_unlock(&s->lock);
    ag_capture_mode(mode);
    ag_context_leave(entered);
    atomic_store(&s->waits, true);
    atomic_store(&any, true);
}

static bool loose_at_rest(void);

/* By the thread whose stream it is. */
static bool record_loose(CUstream stream, bool ptsz)
{
    bool done = false;
    struct ag_context context = {0};
    AG_REAL(cuCtxGetCurrent)(&context.handle);
    if (stream && stream != CU_STREAM_LEGACY && stream != CU_STREAM_PER_THREAD)
        AG_REAL(cuStreamGetCtx)(stream, &context.handle);
    bool entered = ag_context_enter(&(struct ag_stream){.context = &context});
    CUstreamCaptureMode mode = ag_capture_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
    loose_at_rest(); /* makes room */
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < LOOSE && !done; i++) {
        if (loose[i].event ||
            AG_REAL(cuEventCreate)(&loose[i].event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
            continue;
        loose[i].ctx = context.handle;
        CUresult r = ptsz ? AG_REAL(cuEventRecord_ptsz)(loose[i].event, stream)
                          : AG_REAL(cuEventRecord)(loose[i].event, stream);
        done = r == CUDA_SUCCESS;
        if (!done) {
            AG_REAL(cuEventDestroy_v2)(loose[i].event);
            loose[i].event = NULL;
            break;
        }
    }
    pthread_mutex_unlock(&mutex);
    ag_capture_mode(mode);
    ag_context_leave(entered);
    if (done)
        atomic_store(&any, true);
    return done;
}

static bool has_passed(CUcontext ctx, CUevent event)
{
    struct ag_context context = {.handle = ctx};
    bool entered = ag_context_enter(&(struct ag_stream){.context = &context});
    bool passed = AG_REAL(cuEventQuery)(event) != CUDA_ERROR_NOT_READY;
    ag_context_leave(entered);
    return passed;
}

static bool loose_at_rest(void)
{
    bool rest = true;
    pthread_mutex_lock(&mutex);
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
    pthread_mutex_unlock(&mutex);
    return rest;
}

bool ag_waits_at_rest(void)
{
    size_t n;
    if (!atomic_exchange(&any, false))
        return true;
    /* to ask for an event would end a capture of the program's (graph.h, ag_capture_mode) */
    CUstreamCaptureMode mode = ag_capture_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
    bool rest = loose_at_rest();
    struct ag_stream **streams = ag_streams_snapshot(&n);
    for (size_t i = 0; i < n; i++) {
        if (!atomic_exchange(&streams[i]->waits, false))
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

bool ag_waits_pending(void)
{
    return atomic_load(&any);
}

bool ag_capture_wait_begins(void)
{
    /* while the program captures nothing is built, and the wait may be part of the capture */
    if (atomic_load_explicit(&ag_state.bypass, memory_order_relaxed) ||
        atomic_load(&ag_state.observe_only) || atomic_load(&ag_state.captures))
        return false;
    ag_builder_hold();
    return true;
}

void ag_capture_wait_ends(CUstream stream, bool ptsz, bool waits)
{
    /* none is made here: that may load the fill kernel, which may wait for this very wait */
    struct ag_stream *s = waits ? ag_stream_find(stream, ptsz) : NULL;
    if (s)
        ag_waits_launched(s);
    else if (waits && !record_loose(stream, ptsz))
        return; /* when it has passed cannot be told: nothing is built any more */
    ag_builder_release();
}
