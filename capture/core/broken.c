/* broken.c - errors that a call returns. Some end a context: the library defers nothing until that
 * context is destroyed. */
#include "capture/core/broken.h"
#include "capture/tracking/count.h"
#include "capture/core/enter.h"
#include "driver/error.h"
#include "capture/settings/log.h"
#include "capture/tracking/state.h"
#include "capture/tracking/streams.h"

/* Held while a context breaks or ends, and the library's state changes with it. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void error_in(struct ag_context *context, CUresult error)
{
    if (!context || atomic_load(&context->broken))
        return; /* an unknown context defers nothing, and we would not hear of its end */
    ag_mutex_lock(&mutex, AG_RANK_BROKEN);
    bool first = !atomic_exchange(&context->broken, true);
    if (first)
        ag_state_defer_nothing(AG_EAGER_BROKEN);
    ag_mutex_unlock(&mutex);
    if (!first)
        return;
    ag_count(AG_COUNT_BROKEN_CONTEXT);
    ag_info("context", "error %d: nothing is deferred until the context is destroyed", (int)error);
    ag_state_entered(AG_EAGER_BROKEN, AG_SYM_COUNT);
}

/* Whether calls in the current context fail. A call that names an event, a stream or a context may
 * return the error of another one. */
static bool current_is_lost(void)
{
    size_t unused, total;
    ag_probe_begins();
    CUresult r = AG_REAL(cuMemGetInfo_v2)(&unused, &total);
    ag_probe_ends();
    return ag_error_ends_context(r);
}

/* Looks for what is lost in the other contexts, by a stream of each that is not in the driver just
 * now. */
static void in_another_context(CUcontext current, CUresult error)
{
    struct ag_streams all = ag_streams_snapshot();
    for (struct ag_stream *s; (s = ag_streams_next(&all));) {
        bool lost = false;
        if (atomic_load(&s->context->broken) || s->context->handle == current ||
            !ag_stream_lock_if_prompt(s))
            continue;
        if (ag_stream_is_live(s)) {
            struct ag_visit visit = ag_driver_enter(s);
            lost = current_is_lost();
            ag_driver_leave(s, visit);
        }
        ag_unlock(&s->lock);
        if (lost)
            error_in(s->context, error);
    }
}

static void in_any_context(CUresult error)
{
    if (__builtin_expect(!ag_error_ends_context(error), 1) || !ag_state_tracks())
        return;
    CUcontext ctx = ag_context_current();
    if (ctx && current_is_lost())
        error_in(ag_context_get(ctx), error);
    else
        in_another_context(ctx, error);
}

/* Returns whether the next call on the stream that may return an error returns this one. NULL: the
 * stream may have any handle. */
static bool keep(struct ag_stream *s, CUstream handle, CUresult pending)
{
    ag_lock(&s->lock, AG_RANK_STREAM);
    bool keeps =
        ag_stream_is_live(s) && s->pending == CUDA_SUCCESS && (!handle || s->handle == handle);
    if (keeps) {
        s->pending = pending;
        ag_stream_open(s);
    }
    ag_unlock(&s->lock);
    return keeps;
}

/* In the stream that the error came from. If that has ended, in another one of this thread; the
 * next call that drains them all then returns it. An error that ends a context is not kept: that
 * context repeats it at each call but those that never tell of it, such as cuStreamDestroy(), and
 * no call in another context may return it. */
static void keep_anywhere(CUresult pending)
{
    const struct ag_context *context = ag_thread.told_in;
    if (ag_error_ends_context(pending))
        return;
    bool kept = false;
    struct ag_streams all = ag_streams_concerned(false, true);
    for (size_t i = 0; i < all.n && !kept; i++) /* no look-up: it may have ended */
        kept = ag_streams_at(&all, i)->context == context && ag_thread.told_of &&
               keep(ag_streams_at(&all, i), ag_thread.told_of, pending);
    for (size_t i = 0; i < all.n && !kept; i++)
        kept = ag_stream_is_own(ag_streams_at(&all, i)) &&
               ag_streams_at(&all, i)->context == context &&
               keep(ag_streams_at(&all, i), NULL, pending);
    ag_streams_done(&all);
}

void ag_broken_stream(const struct ag_stream *s, CUresult error)
{
    if (__builtin_expect(ag_error_ends_context(error), 0) && ag_state_tracks())
        error_in(s->context, error);
}

CUresult ag_core_first_error(CUresult result, CUresult pending)
{
    in_any_context(result);
    if (result != CUDA_SUCCESS && pending != CUDA_SUCCESS)
        keep_anywhere(pending);
    return result != CUDA_SUCCESS ? result : pending;
}

CUresult ag_core_stream_first_error(CUstream stream, bool ptsz, CUresult result, CUresult pending)
{
    CUresult first = result != CUDA_SUCCESS ? result : pending;
    bool keeps = result != CUDA_SUCCESS && pending != CUDA_SUCCESS;
    struct ag_stream *s =
        keeps || ag_error_ends_context(first) ? ag_stream_find(stream, ptsz) : NULL;
    if (s)
        ag_broken_stream(s, first);
    else
        in_any_context(first);
    if (keeps && (!s || ag_error_ends_context(pending) || !keep(s, NULL, pending)))
        keep_anywhere(pending);
    return first;
}

void ag_broken_context_ended(struct ag_context *context)
{
    bool any = false;
    ag_mutex_lock(&mutex, AG_RANK_BROKEN);
    if (atomic_exchange(&context->broken, false)) {
        for (const struct ag_context *c = ag_contexts(); c; c = c->next)
            any |= atomic_load(&c->broken);
        if (!any)
            ag_state_leave(AG_EAGER_BROKEN);
    }
    ag_mutex_unlock(&mutex);
}
