/*
 * invalidate.c - calls after which records and graphs no longer hold: modules end, functions
 * change.
 *
 * These calls are rare, so the code is simple: it pauses the builder, every stream submits what it
 * has deferred and invalidates what it must, and then the tables are freed.
 */
#include "capture/core/flush.h"
#include "capture/core/lookup.h"
#include "capture/graphs/budget.h"
#include "capture/graphs/builder.h"
#include "capture/graphs/pause.h"
#include "capture/settings/log.h"
#include "capture/tracking/count.h"
#include "capture/tracking/dormancy.h"
#include "capture/tracking/state.h"
#include "capture/tracking/streams.h"
#include "capture/trace/trace.h"

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
