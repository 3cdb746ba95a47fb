/* per_thread.c - see per_thread.h. */
#include "capture/tracking/per_thread.h"
#include "capture/tracking/count.h"
#include "capture/tracking/state.h"
#include <limits.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key; /* its value: the thread's number */
static bool have_key;
_Atomic bool ag_per_thread_any;
_Atomic uint32_t ag_per_thread_strays;

CUstream ag_per_thread_name(void)
{
    return (CUstream)(ag_this_thread() | 1); /* above 2^32, as it begins with a count */
}

/* Destructors of other keys may still use the stream. All keys that are set get a turn before any
 * of them gets another one, so this is done in a late turn. In the last one checkers of threads
 * take the thread down. It calls no driver, which may have forgotten the thread by now. In the
 * child of a fork another thread may hold the lock for good. */
static void thread_ends(void *number)
{
    enum { TURN = PTHREAD_DESTRUCTOR_ITERATIONS - 1 };
    if (++ag_thread.ending < TURN && !pthread_setspecific(key, number))
        return;
    if (!ag_state_tracks())
        return;
    ag_lock(&ag_stream_table.lock, AG_RANK_STREAMS);
    for (struct ag_stream *s = ag_stream_table.newest; s; s = s->next)
        s->ended |= s->thread == (uintptr_t)number;
    ag_unlock(&ag_stream_table.lock);
}

static void make_key(void)
{
    have_key = pthread_key_create(&key, thread_ends) == 0;
}

void ag_per_thread_begins(void)
{
    atomic_store(&ag_per_thread_any, true);
    pthread_once(&once, make_key);
    if (have_key) /* without memory the stream stays until its context ends */
        pthread_setspecific(key, (void *)ag_this_thread());
}

struct ag_stream *ag_per_thread_ended(const struct ag_context *context)
{
    struct ag_stream *found = NULL;
    ag_lock(&ag_stream_table.lock, AG_RANK_STREAMS);
    for (struct ag_stream *s = ag_stream_table.newest; s && !found; s = s->next)
        if (s->ended && s->context == context)
            found = s;
    if (found) {
        found->ended = false;
        atomic_fetch_add(&found->references, 1);
    }
    ag_unlock(&ag_stream_table.lock);
    return found;
}

CUstream ag_per_thread_handle(struct ag_stream *s)
{
    if (ag_stream_is_of_this_thread(s))
        return CU_STREAM_PER_THREAD;
    s->strays = true;
    return CU_STREAM_LEGACY;
}

/* While something has strayed, streams that are ordered with the legacy stream look before each op
 * (ag_flush_for_order()), as if that held something back. */
static void set_strayed(struct ag_stream *s, bool strayed)
{
    if (atomic_exchange(&s->strayed, strayed) == strayed)
        return;
    if (strayed) {
        ag_stream_open(s);
        atomic_fetch_add(&s->context->legacy_held, 1);
        atomic_fetch_add(&ag_per_thread_strays, 1);
    } else {
        atomic_fetch_sub(&s->context->legacy_held, 1);
        atomic_fetch_sub(&ag_per_thread_strays, 1);
    }
}

static void destroy_event(struct ag_stream *s)
{
    if (s->behind_strayed)
        AG_REAL(cuEventDestroy_v2)(s->behind_strayed);
    s->behind_strayed = NULL;
}

/* The event is recorded right behind the work, as others may put work into streams of their own
 * that only ends once this one's thread has waited. */
void ag_per_thread_strayed(struct ag_stream *s)
{
    CUstreamCaptureMode mode = ag_core_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
    s->strays = false;
    s->ties++; /* it may wait for other streams there, so it is compared without graphs (weigh.h) */
    set_strayed(s, true);
    ag_probe_begins();
    if (!s->behind_strayed &&
        AG_REAL(cuEventCreate)(&s->behind_strayed, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
        s->behind_strayed = NULL;
    if (s->behind_strayed &&
        AG_REAL(cuEventRecord)(s->behind_strayed, CU_STREAM_LEGACY) != CUDA_SUCCESS)
        destroy_event(s);
    ag_probe_ends();
    ag_core_mode(mode);
}

/* Without an event the host waits. */
static bool waits_behind(CUevent event)
{
    if (event && AG_REAL(cuStreamWaitEvent)(CU_STREAM_PER_THREAD, event, 0) == CUDA_SUCCESS)
        return true;
    return AG_REAL(cuStreamSynchronize)(CU_STREAM_LEGACY) == CUDA_SUCCESS;
}

/* A stream that captures would capture the wait. */
void ag_per_thread_gathers(struct ag_stream *s)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (!ag_stream_is_of_this_thread(s))
        return;
    struct ag_visit visit = ag_driver_enter(s);
    CUstreamCaptureMode mode = ag_core_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
    ag_probe_begins();
    if (AG_HAVE(cuStreamIsCapturing))
        AG_REAL(cuStreamIsCapturing)(CU_STREAM_PER_THREAD, &status);
    if (status == CU_STREAM_CAPTURE_STATUS_NONE && waits_behind(s->behind_strayed)) {
        ag_count(AG_COUNT_GATHERED);
        destroy_event(s);
        set_strayed(s, false);
    }
    ag_probe_ends();
    ag_core_mode(mode);
    ag_driver_leave(s, visit);
}

void ag_per_thread_gathers_own(void)
{
    struct ag_stream *s = ag_stream_find(CU_STREAM_PER_THREAD, false);
    if (!s)
        return;
    ag_lock(&s->lock, AG_RANK_STREAM);
    ag_per_thread_gather(s);
    ag_unlock(&s->lock);
}

void ag_per_thread_forget(struct ag_stream *s, bool ended)
{
    if (ended) {
        s->behind_strayed = NULL;
    } else if (s->behind_strayed) {
        struct ag_visit visit = ag_driver_enter(s);
        CUstreamCaptureMode mode = ag_core_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
        destroy_event(s);
        ag_core_mode(mode);
        ag_driver_leave(s, visit);
    }
    set_strayed(s, false);
}
