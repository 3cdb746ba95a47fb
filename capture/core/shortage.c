/*
 * shortage.c - when the program runs short of device memory, the library gives its graphs back.
 *
 * A call that fails for lack of memory might have succeeded without the graphs. So the library
 * destroys them all and the call is made once more; streams then learn anew and replay again. From
 * then on graphs may take half as much memory as before. Otherwise a program at the edge of the
 * memory would make the library build graphs and give them back for ever.
 */
#include "capture/core/shortage.h"
#include "capture/graphs/budget.h"
#include "capture/graphs/builder.h"
#include "capture/tracking/count.h"
#include "capture/core/flush.h"
#include "capture/core/submitter.h"
#include "capture/settings/log.h"
#include "capture/graphs/pause.h"
#include "capture/tracking/state.h"
#include "capture/tracking/streams.h"

static void drop(void *policy, struct ag_sequence *sequence)
{
    ag_policy_drop_graphs(policy, sequence);
}

/* A stream keeps its graphs if the holder of its lock is in the driver, or the submitter with a
 * chunk of the stream. They may wait there for room in a queue, for which the program's call would
 * not wait. */
static void drop_graphs_of(struct ag_stream *s)
{
    if (!ag_stream_lock_if_prompt(s))
        return;
    if (ag_submitter_settle_if_prompt(s)) {
        if (ag_stream_is_live(s))
            ag_stream_end_segment(s);
        ag_policy_each(ag_engine_policy(&s->engine), drop, ag_engine_policy(&s->engine));
    }
    ag_unlock(&s->lock);
}

/* False: something is in flight, and destroying graphs could wait for it. */
static bool give_back(void)
{
    if (!ag_builder_pause_at_rest()) {
        ag_count(AG_COUNT_GRAPHS_KEPT);
        return false;
    }
    struct ag_streams all = ag_streams_snapshot();
    for (struct ag_stream *s; (s = ag_streams_next(&all));)
        drop_graphs_of(s);
    bool any = ag_graphs_dropped() > 0;
    ag_graphs_collect(UINT32_MAX);
    ag_pause_resume();
    if (any) {
        ag_budget_halve();
        ag_count(AG_COUNT_GRAPHS_GIVEN_BACK);
        ag_info("build", "device memory is short: graphs have been given back to the driver");
    }
    return true;
}

/* Returns true even if there was no graph left: another thread may have given the graphs back since
 * the call failed. */
bool ag_core_gives_memory(void)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    int cancel;
    if (!ag_state_tracks() || !ag_counted(AG_COUNT_BUILT))
        return false;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE,
                           &cancel); /* a cancelled thread would keep the lock and the pause */
    ag_mutex_lock(&mutex, AG_RANK_SHORTAGE);
    bool given = give_back();
    ag_mutex_unlock(&mutex);
    pthread_setcancelstate(cancel, NULL);
    return given;
}

CUresult ag_op_call(const struct ag_incoming *in)
{
    CUresult r = ag_call_make(in);
    if (__builtin_expect(r == CUDA_ERROR_OUT_OF_MEMORY, 0) && ag_core_gives_memory())
        r = ag_call_make(in);
    return r;
}
