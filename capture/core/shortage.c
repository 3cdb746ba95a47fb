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
#include "capture/system/clock.h"
#include "capture/graphs/pause.h"
#include "capture/tracking/state.h"
#include "capture/tracking/streams.h"

static void drop(void *policy, struct ag_sequence *sequence)
{
    ag_policy_drop_graphs(policy, sequence);
}

/* False: the holder of its lock is in the driver, or the submitter with a chunk of the stream. */
static bool drop_graphs_if_prompt(struct ag_stream *s)
{
    if (!ag_stream_lock_if_prompt(s))
        return false;
    bool prompt = ag_submitter_settle_if_prompt(s);
    if (prompt) {
        if (ag_stream_is_live(s))
            ag_stream_end_segment(s);
        ag_policy_each(ag_engine_policy(&s->engine), drop, ag_engine_policy(&s->engine));
    }
    ag_unlock(&s->lock);
    return prompt;
}

/* Whoever is in the driver comes back from it soon, unless it waits there for room in a queue, for
 * which the program's call would not wait. Then the stream keeps its graphs, and this is false. */
static bool drop_graphs_of(struct ag_stream *s)
{
    uint64_t until = ag_clock_monotonic_ns() + AG_GIVE_MOST_NS;
    bool dropped;
    while (!(dropped = drop_graphs_if_prompt(s)) && ag_clock_monotonic_ns() < until)
        ag_sleep_ns(AG_LOOK_AGAIN_NS);
    return dropped;
}

/* Whether the call may succeed now. Not if something is in flight, as destroying graphs could wait
 * for it. At first even if there was no graph left: another thread may have given the graphs back
 * since the call failed. Later only if there was: the builder had come first. */
static bool give_back(unsigned int tries)
{
    if (!ag_builder_pause_at_rest()) {
        ag_count(AG_COUNT_GRAPHS_KEPT);
        return false;
    }
    struct ag_streams streams = ag_streams_snapshot();
    bool all = true;
    for (struct ag_stream *s; (s = ag_streams_next(&streams));)
        all &= drop_graphs_of(s);
    bool any = ag_graphs_dropped() > 0;
    ag_graphs_collect(UINT32_MAX);
    ag_pause_resume();
    if (!all)
        ag_count(AG_COUNT_GRAPHS_KEPT);
    if (any) {
        ag_budget_halve();
        ag_count(AG_COUNT_GRAPHS_GIVEN_BACK);
        ag_info("build", "device memory is short: graphs have been given back to the driver");
    }
    return any || tries == 1;
}

bool ag_core_gives_memory(unsigned int tries)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    int cancel;
    if (!ag_state_tracks() || !ag_counted(AG_COUNT_BUILT) || tries > AG_GIVE_TRIES)
        return false;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE,
                           &cancel); /* a cancelled thread would keep the lock and the pause */
    ag_mutex_lock(&mutex, AG_RANK_SHORTAGE);
    bool given = give_back(tries);
    ag_mutex_unlock(&mutex);
    pthread_setcancelstate(cancel, NULL);
    return given;
}

CUresult ag_op_call(const struct ag_incoming *in)
{
    CUresult r = ag_call_make(in);
    for (unsigned int tries = 1;
         __builtin_expect(r == CUDA_ERROR_OUT_OF_MEMORY, 0) && ag_core_gives_memory(tries); tries++)
        r = ag_call_make(in);
    return r;
}
