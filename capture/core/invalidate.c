/*
 * invalidate.c - calls after which records and graphs no longer hold: handles end, functions
 * change.
 *
 * These calls are rare, so the code is simple: it pauses the builder, every stream submits what it
 * has deferred and invalidates what it must, and then the tables are freed.
 */
#include "capture/core/invalidate.h"
#include "capture/core/branch.h"
#include "capture/core/broken.h"
#include "capture/graphs/ahead.h"
#include "capture/graphs/budget.h"
#include "capture/graphs/builder.h"
#include "capture/core/captures.h"
#include "capture/tracking/count.h"
#include "capture/tracking/event.h"
#include "capture/core/flush.h"
#include "capture/core/lookup.h"
#include "capture/core/submitter.h"
#include "capture/tracking/dormancy.h"
#include "capture/tracking/hostfunction.h"
#include "capture/settings/log.h"
#include "capture/graphs/ownkernels.h"
#include "capture/graphs/pause.h"
#include "capture/graphs/request.h"
#include "capture/tracking/state.h"
#include "capture/report/stats.h"
#include "capture/tracking/parked.h"
#include "capture/tracking/per_thread.h"
#include "capture/tracking/streams.h"
#include "capture/trace/trace.h"
#include "capture/tracking/waits.h"
#include "driver/error.h"

/* Ends the stream's segment and invalidates all of its sequences. The caller holds no lock and has
 * paused the builder. */
static void invalidate_sequences(struct ag_stream *s)
{
    ag_lock(&s->lock, AG_RANK_STREAM);
    if (ag_stream_is_live(s)) {
        ag_stream_end_segment(s);
        ag_stream_leaves_dormant(s);
    }
    ag_engine_invalidate(&s->engine); /* it may be parked */
    memset(&s->signatures, 0, sizeof(s->signatures));
    ag_unlock(&s->lock);
}

/* The builder is paused; this function lets it go on. */
static void invalidate_everything(void)
{
    struct ag_signature_tables old = ag_signatures_detach();
    struct ag_streams all = ag_streams_snapshot();
    for (struct ag_stream *s; (s = ag_streams_next(&all));)
        invalidate_sequences(s);
    ag_graphs_collect(UINT32_MAX);
    ag_signatures_destroy(&old);
    ag_pause_resume();
}

static void say(enum ag_sym sym)
{
    ag_trace_sync_point(NULL, sym);
    ag_count(AG_COUNT_ALL_INVALIDATED);
    ag_debug("invalidate", "%s: all sequences are invalidated", ag_sym_name(sym));
}

void ag_core_invalidate_functions(enum ag_sym sym)
{
    if (ag_state_tracks() && !ag_thread.in_host_function)
        say(sym);
    ag_core_invalidate_functions_again();
}

void ag_core_invalidate_functions_again(void)
{
    if (!ag_state_tracks() || ag_thread.in_host_function) /* where the driver refuses the call */
        return;
    ag_builder_pause();
    invalidate_everything();
}

/* Whether a thread is in the driver with a stream's lock, or the submitter with a stream's chunks.
 * It may stay there for long. */
static bool any_is_in_driver(void)
{
    bool any = false;
    struct ag_streams all = ag_streams_snapshot();
    for (struct ag_stream *s; !any && (s = ag_streams_next(&all));) {
        any = !ag_stream_lock_if_prompt(s);
        if (any)
            break;
        any = !ag_stream_ring_is_free(s);
        ag_unlock(&s->lock);
    }
    ag_streams_done(&all);
    return any;
}

/* While the GPU may wait for the program, no graph is destroyed: the driver may wait for the GPU.
 */
void ag_core_invalidate_signatures(void)
{
    if (!ag_state_tracks())
        return;
    if (any_is_in_driver() || !ag_builder_pause_at_rest()) {
        atomic_store(&ag_signatures_full, true); /* a later launch does it */
        return;
    }
    say(AG_SYM_COUNT);
    invalidate_everything();
}

/* ---- graphs with certain kernels ---------------------------------------------------------- */

struct dropping {
    struct ag_policy *policy;
    const struct ag_kernel *kernel; /* NULL: graphs with invalid signatures */
};

static void drop_if_concerned(void *context, struct ag_sequence *sequence)
{
    const struct dropping *d = context;
    struct ag_sequence_facts facts = ag_sequence_facts(sequence);
    bool concerns = false;
    uint32_t alive = 0, most_alive = 0;
    for (uint32_t i = 0; i < facts.len; i++) {
        const struct ag_signature *signature = ag_key_signature(facts.keys[i]);
        bool invalid = ag_signature_bad(signature) & AG_SIGNATURE_INVALID;
        concerns |=
            d->kernel ? signature->function && signature->function->kernel == d->kernel : invalid;
        alive = invalid ? 0 : alive + 1;
        if (most_alive < alive)
            most_alive = alive;
    }
    if (!concerns)
        return;
    /* by fewer ops no place in it is recognised again, and each later unload would look at it */
    if (!d->kernel && most_alive < AG_GRAM)
        ag_policy_forget(d->policy, sequence);
    else
        ag_policy_drop_graphs(d->policy, sequence);
}

/* Ends every stream's segment. With `drop` it also drops the graphs concerned; the builder is
 * paused then. */
static void submit_all(bool drop, const struct ag_kernel *kernel)
{
    struct ag_streams all = ag_streams_snapshot();
    for (struct ag_stream *s; (s = ag_streams_next(&all));) {
        ag_lock(&s->lock, AG_RANK_STREAM);
        if (ag_stream_is_live(s))
            ag_stream_end_segment(s);
        struct dropping d = {ag_engine_policy(&s->engine), kernel};
        if (drop) /* also if it is parked */
            ag_policy_each(ag_engine_policy(&s->engine), drop_if_concerned, &d);
        if (drop && !kernel)
            memset(&s->signatures, 0, sizeof(s->signatures));
        ag_unlock(&s->lock);
    }
}

void ag_core_invalidate_module(void *module, enum ag_sym sym)
{
    if (!ag_state_tracks())
        return;
    if (ag_thread.in_host_function) { /* where the driver refuses cuModuleUnload */
        if (sym == AG_SYM_cuLibraryUnload)
            atomic_store(&ag_signatures_full, true); /* a later launch does it */
        return;
    }
    ag_trace_sync_point(NULL, sym);
    ag_lookups_forget();
    ag_builder_pause();
    bool any = ag_signatures_invalidate(
        sym == AG_SYM_cuLibraryUnload ? AG_OF_LIBRARY : AG_OF_MODULE, module);
    if (any)
        ag_count(AG_COUNT_MODULE_INVALIDATED);
    submit_all(any, NULL);
    ag_graphs_collect(UINT32_MAX);
    ag_pause_resume();
    ag_core_invalidate_memory(); /* the module's variables */
}

enum ag_change ag_core_function_changes(CUfunction func, int attribute, int value, int device,
                                        enum ag_sym sym)
{
    const struct ag_kernel *kernel;
    if (!ag_state_tracks() || ag_thread.in_host_function) /* where the driver refuses the call */
        return AG_CHANGES_NOTHING;
    enum ag_change change = ag_function_setting_begins(func, attribute, value, device, &kernel);
    if (change == AG_CHANGES_NOTHING)
        return change;
    ag_trace_sync_point(NULL, sym);
    ag_debug("invalidate", "%s: attribute %d of %p on device %d is to be %d", ag_sym_name(sym),
             attribute, (void *)func, device, value);
    ag_count(kernel ? AG_COUNT_FUNCTION_CHANGED : AG_COUNT_LIMIT_FALLS);
    if (kernel)
        ag_builder_pause();
    submit_all(kernel != NULL, kernel);
    return change;
}

void ag_core_function_changed(CUfunction func, int attribute, int value, int device,
                              enum ag_change change, CUresult result)
{
    ag_function_setting_ends(func, attribute, value, device, result == CUDA_SUCCESS);
    if (change != AG_CHANGES_GRAPHS)
        return;
    ag_function_disprove(func, attribute); /* what was proven during the call */
    ag_pause_resume();
}

/* ---- streams ------------------------------------------------------------------------------ */

/* Submits what the stream has deferred, and ends its fork. Returns with the stream's lock. */
static void come_to_rest(struct ag_stream *s)
{
    for (;;) {
        ag_branches_end(s);
        ag_lock(&s->lock, AG_RANK_STREAM);
        if (!atomic_load(&s->origin))
            break;
        ag_unlock(&s->lock); /* a thread that waits for its last event has made it one */
    }
    atomic_fetch_and(&s->not_understood, (uint8_t)~AG_FORK_IS_OVER);
    ag_submitter_settle(s);
    if (ag_stream_is_live(s))
        ag_stream_end_segment(s);
    ag_stream_leaves_dormant(s);
    ag_fork_free(s);
}

/* The same, and drops its graphs. From now on every launching thread submits at once; `gone`: for
 * good. The builder is paused. */
static CUresult close_stream(struct ag_stream *s, bool gone)
{
    come_to_rest(s);
    CUresult r = gone ? ag_stream_tell(s) : CUDA_SUCCESS; /* else a later call returns it */
    if (gone)
        ag_per_thread_forget(s, false);
    ag_stream_close(s);
    ag_engine_close(&s->engine);
    memset(&s->signatures, 0, sizeof(s->signatures));
    s->gone |= gone;
    ag_unlock(&s->lock);
    return r;
}

static void remove_stream(struct ag_stream *s)
{
    if (!ag_stream_invalidate(s))
        return;
    ag_stats_retire_stream(s);
    ag_request_stream_ends(s);
    ag_stream_release(s);
}

/* Whether nothing is left of the stream but what its engine knows, and work on the GPU. While a
 * stream captures, the query that follows would end that. The caller holds the lock. */
static bool may_be_parked(struct ag_stream *s)
{
    return ag_stream_is_live(s) && !ag_state_is_eager() && !ag_state_builds_nothing() &&
           !atomic_load(&s->context->ending) && !atomic_load(&s->not_understood) &&
           !atomic_load(&s->waits) && !s->behind_wait && s->pending == CUDA_SUCCESS;
}

/* Returns the stream that has to be removed now: this one, if it cannot be parked; another one,
 * with a reference; or none. */
static struct ag_stream *park(struct ag_stream *s)
{
    struct ag_stream *ends = s;
    come_to_rest(s);
    if (may_be_parked(s) && ag_engine_park(&s->engine) && ag_parked_begins(s)) {
        ag_per_thread_forget(s, false);
        ag_stream_close(s);
        memset(&s->signatures, 0, sizeof(s->signatures));
        struct ag_visit visit = ag_driver_enter(s);
        ag_ahead_ends(s);
        ag_driver_leave(s, visit);
        ends = ag_stream_park(s);
    }
    ag_unlock(&s->lock);
    return ends;
}

static CUresult invalidate_stream(struct ag_stream *named)
{
    ag_flush_for_order(named);
    struct ag_stream *s = park(named);
    if (!s)
        return CUDA_SUCCESS;
    ag_builder_pause();
    CUresult r = close_stream(s, true);
    ag_lock(&s->lock, AG_RANK_STREAM);
    int cancel; /* it asks about events, and others wait for the lock */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    bool told = ag_waits_stream_ends(s);
    ag_ahead_ends(s);
    ag_parked_ends(s, false);
    pthread_setcancelstate(cancel, NULL);
    if (!told)
        ag_pause_hold(); /* for good */
    ag_unlock(&s->lock);
    ag_broken_stream(s, r);
    remove_stream(s);
    if (s != named)
        ag_stream_release(s);
    if (!ag_waits_pending()) /* else the builder collects them once nothing waits any more */
        ag_graphs_collect(UINT32_MAX);
    ag_pause_resume();
    return r;
}

CUresult ag_core_invalidate_stream(CUstream stream, enum ag_sym sym)
{
    struct ag_stream *s = ag_state_tracks() ? ag_stream_find(stream, false) : NULL;
    if (!s || s->legacy || s->thread)
        return CUDA_SUCCESS; /* the driver refuses to destroy a default stream */
    ag_trace_sync_point(NULL, sym);
    return invalidate_stream(s);
}

/* Its thread has ended, and can hear of no error. */
void ag_invalidate_ended_threads(const struct ag_context *context)
{
    struct ag_stream *s;
    while ((s = ag_per_thread_ended(context))) {
        invalidate_stream(s);
        ag_stream_release(s);
    }
}

static struct ag_stream *not_understood(CUstream stream, bool ptsz, enum ag_sym sym)
{
    struct ag_stream *s = ag_state_tracks() ? ag_stream_get(stream, ptsz) : NULL;
    if (!s || atomic_fetch_or(&s->not_understood, AG_LACKS_SETTINGS) & AG_LACKS_SETTINGS)
        return s;
    ag_count_sync_point(sym);
    ag_info("invalidate", "%s: stream %p is never deferred again", ag_sym_name(sym),
            (void *)s->handle);
    ag_branches_end(s);
    ag_lock(&s->lock, AG_RANK_STREAM);
    if (ag_stream_is_live(s)) {
        ag_stream_end_segment(s);
        ag_stream_leaves_dormant(s);
        ag_engine_bypass(&s->engine);
    }
    ag_unlock(&s->lock);
    return s;
}

void ag_core_stream_not_understood(CUstream stream, bool ptsz, enum ag_sym sym)
{
    not_understood(stream, ptsz, sym);
}

void ag_core_green_stream(CUstream stream, CUgreenCtx green, enum ag_sym sym)
{
    struct ag_stream *s = not_understood(stream, false, sym);
    if (s)
        s->green = green;
}

/* Streams that come later are another green context's, though it may have the same handle: the
 * driver gives that out again before the call that destroys the context has returned. */
uint64_t ag_core_green_context_ends(void)
{
    ag_pause_hold(); /* nobody asks meanwhile whether its streams still wait for something */
    return ag_streams_latest();
}

void ag_core_green_context_ended(CUgreenCtx green, uint64_t latest, bool success)
{
    if (success && ag_state_tracks()) {
        ag_builder_pause();
        struct ag_streams all = ag_streams_snapshot();
        for (struct ag_stream *s; (s = ag_streams_next(&all));)
            if (s->green == green && s->serial <= latest) {
                close_stream(s, true);
                remove_stream(s);
            }
        ag_pause_resume();
    }
    ag_pause_release();
}

/* ---- contexts ----------------------------------------------------------------------------- */

/*
 * Between these two functions the context may end at any moment. So beforehand its streams submit
 * what they have deferred, drop their graphs and defer nothing: other threads that launch into them
 * call the driver themselves, and no thread enters the context on their behalf. Afterwards the
 * library removes the streams if the context has ended, and otherwise uses them as before.
 */
static void context_may_end(struct ag_context *context)
{
    atomic_fetch_add(&context->ending, 1);      /* for streams that are not there yet */
    atomic_fetch_add(&ag_stream_generation, 1); /* from here on handles may become another's */
    ag_waits_context_may_end();
    ag_pause_hold();
    ag_builder_pause();
    struct ag_streams all = ag_streams_snapshot();
    for (struct ag_stream *s; (s = ag_streams_next(&all));)
        if (s->context == context)
            close_stream(s, false);
    ag_events_context_may_end(context->handle);
    /* before they end: another thread that unloads a module asks the driver about all functions */
    ag_signatures_invalidate(AG_OF_CONTEXT, context->handle);
    ag_graphs_collect(UINT32_MAX);
    ag_own_kernels_unload(context);
}

static void context_stays(struct ag_context *context)
{
    struct ag_streams all = ag_streams_snapshot();
    for (struct ag_stream *s; (s = ag_streams_next(&all));) {
        if (s->context != context) /* another's lock may be held in the driver for long */
            continue;
        ag_lock(&s->lock, AG_RANK_STREAM);
        if (!s->gone && !ag_stream_is_live(s)) {
            ag_engine_reopen(&s->engine);
            if (s->pending != CUDA_SUCCESS)
                ag_stream_open(s);
            if (atomic_load(&s->not_understood) & AG_LACKS_SETTINGS)
                ag_engine_bypass(&s->engine);
        }
        ag_unlock(&s->lock);
    }
}

/* Returns the first error of deferred work that no call has returned yet: no later call can. An
 * error that ends a context does not count where a call has told of such a one. */
static CUresult context_has_ended(struct ag_context *context)
{
    CUresult first = CUDA_SUCCESS;
    ag_count(AG_COUNT_CONTEXT_ENDED);
    atomic_store(&context->attached, 0);
    ag_waits_context_ends(context);
    ag_host_functions_invalidate(context);
    ag_captures_context_ends(context);
    struct ag_streams all = ag_streams_snapshot();
    for (struct ag_stream *s; (s = ag_streams_next(&all));) {
        if (s->context != context)
            continue;
        ag_lock(&s->lock, AG_RANK_STREAM);
        ag_per_thread_forget(s, true);
        ag_unlock(&s->lock);
        CUresult r = close_stream(s, true);
        if (first == CUDA_SUCCESS && !(ag_error_ends_context(r) && atomic_load(&context->broken)))
            first = r;
        ag_lock(&s->lock, AG_RANK_STREAM); /* another thread may be removing it, if it is parked */
        s->behind_wait = NULL;             /* ended with the context */
        ag_parked_ends(s, true);
        memset(&s->ahead, 0, sizeof(s->ahead));
        ag_unlock(&s->lock);
        remove_stream(s);
    }
    ag_signatures_invalidate(AG_OF_CONTEXT, context->handle);
    ag_signatures_disprove(context->bit); /* a CUkernel outlives the context */
    ag_broken_context_ended(context);
    ag_core_invalidate_memory();
    return first;
}

struct ag_context *ag_core_context_may_end(CUcontext ctx, enum ag_sym sym)
{
    if (!ctx || !ag_state_tracks() || ag_thread.in_host_function) /* the driver refuses the call */
        return NULL;
    ag_lookups_forget();
    struct ag_context *context = ag_context_find(ctx);
    if (!context) { /* no stream of it is known; functions may be, and memory without a context */
        ag_core_invalidate_memory();
        ag_signatures_invalidate(AG_OF_CONTEXT, ctx);
        return NULL;
    }
    ag_trace_sync_point(NULL, sym);
    context_may_end(context);
    return context;
}

CUresult ag_core_context_ended(struct ag_context *context, bool ended)
{
    CUresult pending = CUDA_SUCCESS;
    ag_lookups_forget(); /* what was looked up during the call */
    if (!context)
        return pending;
    if (ended)
        pending = context_has_ended(context);
    else
        context_stays(context);
    atomic_fetch_sub(&context->ending, 1);
    ag_pause_resume();
    ag_pause_release();
    return pending;
}

void ag_core_context_attached(CUcontext ctx)
{
    struct ag_context *context = ctx && ag_state_tracks() ? ag_context_get(ctx) : NULL;
    if (context)
        atomic_fetch_add(&context->attached, 1);
}

bool ag_core_context_detached(struct ag_context *context)
{
    uint32_t n = context ? atomic_load(&context->attached) : 0;
    while (n && !atomic_compare_exchange_weak(&context->attached, &n, n - 1))
        ;
    return n == 0;
}
