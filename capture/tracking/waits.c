/*
 * waits.c - work that waits for something outside the GPU. Collective kernels wait for their
 * peers, stream memory operations for a word that the program may be about to write, and host
 * functions (hostfunction.c) for whatever they like. Instantiating a graph may wait for the GPU
 * while it holds the driver's locks (the fuzzer hung in this way on an H200, driver 580). So
 * nothing is built until such work has passed.
 */
#include "capture/tracking/waits.h"
#include "capture/tracking/count.h"
#include "capture/tracking/hostfunction.h"
#include "capture/system/clock.h"
#include "capture/system/thread.h"
#include "capture/tracking/streams.h"
#include "capture/tracking/per_thread.h"
#include <sched.h>

_Atomic bool ag_rings_are_used;

static _Atomic bool any; /* some stream's `waits` is set, or `loose` has an event */

/* Events after waits in streams that have no struct ag_stream. Whoever has the mutex calls the
 * driver, and must not be cancelled there. */
enum { LOOSE = 16 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct {
    struct ag_context *context;
    CUevent event;
} loose[LOOSE];

/* Under the lock. */
static bool record_locked(struct ag_stream *s)
{
    if (!s->behind_wait &&
        AG_REAL(cuEventCreate)(&s->behind_wait, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
        s->behind_wait = NULL;
    return s->behind_wait &&
           AG_REAL(cuEventRecord)(s->behind_wait, ag_stream_handle(s)) == CUDA_SUCCESS;
}

bool ag_waits_record(struct ag_stream *s)
{
    bool done = true;
    ag_lock(&s->lock, AG_RANK_STREAM);
    if (ag_stream_is_live(s)) { /* else its context ends, and all that waits in it */
        struct ag_visit visit = ag_driver_enter(s);
        CUstreamCaptureMode mode = ag_core_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
        done = record_locked(s);
        ag_core_mode(mode);
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

static bool has_passed(CUcontext ctx, CUevent event)
{
    bool entered = ag_context_enter(ctx);
    bool passed = AG_REAL(cuEventQuery)(event) != CUDA_ERROR_NOT_READY;
    ag_context_leave(entered);
    return passed;
}

/* Events of a context that may be ending stay: they may have ended with it by now. */
static bool loose_at_rest(void)
{
    bool rest = true;
    ag_mutex_lock(&mutex, AG_RANK_WAITS);
    for (int i = 0; i < LOOSE; i++) {
        if (!loose[i].event)
            continue;
        if (!atomic_load(&loose[i].context->ending) &&
            has_passed(loose[i].context->handle, loose[i].event)) {
            AG_REAL(cuEventDestroy_v2)(loose[i].event);
            loose[i].event = NULL;
        } else {
            rest = false;
        }
    }
    ag_mutex_unlock(&mutex);
    return rest;
}

bool ag_waits_record_loose(CUstream stream, bool ptsz)
{
    bool done = false;
    int cancel;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    CUcontext ctx = ag_context_current();
    if (stream && stream != CU_STREAM_LEGACY && stream != CU_STREAM_PER_THREAD)
        AG_REAL(cuStreamGetCtx)(stream, &ctx);
    struct ag_context *context = ctx ? ag_context_get(ctx) : NULL;
    bool entered = ag_context_enter(ctx);
    CUstreamCaptureMode mode = ag_core_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
    loose_at_rest(); /* makes room */
    ag_mutex_lock(&mutex, AG_RANK_WAITS);
    for (int i = 0; i < LOOSE && context && !done; i++) {
        if (loose[i].event ||
            AG_REAL(cuEventCreate)(&loose[i].event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
            continue;
        loose[i].context = context;
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
    ag_core_mode(mode);
    ag_context_leave(entered);
    if (done)
        atomic_store(&any, true);
    else
        ag_count(AG_COUNT_ENDLESS);
    pthread_setcancelstate(cancel, NULL);
    return done;
}

bool ag_waits_at_rest(void)
{
    if (ag_host_functions_pending())
        return false;
    if (!atomic_exchange(&any, false))
        return true;
    /* without this, querying an event would end the program's stream capture (graph.h,
     * ag_core_mode) */
    CUstreamCaptureMode mode = ag_core_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
    bool rest = loose_at_rest();
    struct ag_streams all = ag_streams_snapshot();
    for (struct ag_stream *s; (s = ag_streams_next(&all));) {
        if (!atomic_exchange(&s->waits, false) || !s->behind_wait)
            continue;
        if (!has_passed(s->context->handle, s->behind_wait)) {
            atomic_store(&s->waits, true);
            rest = false;
        }
    }
    ag_core_mode(mode);
    if (!rest)
        atomic_store(&any, true);
    return rest;
}

bool ag_waits_stream_ends(struct ag_stream *s)
{
    CUevent event = s->behind_wait;
    s->behind_wait = NULL;
    if (!event)
        return true;
    CUstreamCaptureMode mode = ag_core_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
    if (has_passed(s->context->handle, event))
        atomic_store(&s->waits, false);
    else
        loose_at_rest(); /* makes room */
    ag_core_mode(mode);
    ag_mutex_lock(&mutex, AG_RANK_WAITS);
    for (int i = 0; i < LOOSE && atomic_load(&s->waits); i++) {
        if (loose[i].event)
            continue;
        loose[i].context = s->context;
        loose[i].event = event;
        event = NULL;
        atomic_store(&s->waits, false);
    }
    ag_mutex_unlock(&mutex);
    bool told = !atomic_load(&s->waits);
    if (!event) {
        atomic_store(&any, true);
        return true;
    }
    AG_REAL(cuEventDestroy_v2)(event);
    if (!told)
        ag_count(AG_COUNT_ENDLESS);
    return told;
}

void ag_waits_context_may_end(void)
{
    ag_mutex_lock(&mutex, AG_RANK_WAITS);
    ag_mutex_unlock(&mutex);
}

void ag_waits_context_ends(const struct ag_context *context)
{
    ag_mutex_lock(&mutex, AG_RANK_WAITS);
    for (int i = 0; i < LOOSE; i++)
        if (loose[i].context == context)
            loose[i].event = NULL;
    ag_mutex_unlock(&mutex);
}

/* Whoever has the role may wait in the driver for room in a queue. Eagerly the program's own thread
 * would wait there, and nothing behind that would be launched either. */
static bool passes(struct ag_ring *ring, uint64_t now, uint64_t until)
{
    uint32_t put = atomic_load(&ring->put), before = atomic_load(&ring->taken), taken;
    uint64_t since = now;
    for (unsigned int looks = 1; (int32_t)(put - (taken = atomic_load(&ring->taken))) > 0;
         looks++) {
        ag_relax();
        if (looks % AG_RINGS_LOOKS)
            continue;
        now = ag_clock_monotonic_ns();
        if (taken != before || !ag_ring_is_busy(ring))
            since = now;
        if (now > since + AG_RINGS_STUCK_NS)
            return true;
        if (now > until)
            return false;
        before = taken;
        sched_yield();
    }
    return true;
}

bool ag_waits_rings_pass(void)
{
    bool pass = true;
    uint64_t until = 0, now;
    if (!atomic_load_explicit(&ag_rings_are_used, memory_order_relaxed))
        return true;
    struct ag_streams all = ag_streams_snapshot();
    for (struct ag_stream *s; (s = ag_streams_next(&all));) {
        struct ag_ring *ring = atomic_load(&s->ring);
        if (!ring || ag_ring_is_empty(ring))
            continue;
        now = ag_clock_monotonic_ns();
        until = until ? until : now + AG_RINGS_MOST_NS;
        pass &= passes(ring, now, until);
    }
    return pass;
}

bool ag_waits_pending(void)
{
    return atomic_load(&any) || ag_host_functions_pending();
}
