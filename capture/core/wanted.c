/* wanted.c - see wanted.h. */
#include "capture/core/wanted.h"
#include "capture/core/measure.h"
#include "capture/report/compare.h"
#include "capture/settings/options.h"
#include "capture/system/clock.h"
#include "capture/system/thread.h"
#include "capture/tracking/count.h"
#include "capture/tracking/state.h"
#include "policy/submit.h"

/* The submitter is an ordinary thread. A real-time thread that waits for it may keep it from
 * running. Asking for the class takes a system call, so it is done now and then. */
static bool is_ordinary(void)
{
    static __thread struct {
        uint32_t calls;
        bool ordinary;
    } caller __attribute__((tls_model("initial-exec")));
    if (caller.calls++ % AG_SUBMIT_ASKS_CLASS == 0)
        caller.ordinary = ag_thread_is_ordinary();
    return caller.ordinary;
}

/* For tests: who launches changes with every so many of the stream's questions. With
 * AUTOGRAPH_SUBMIT=inline the program's thread begins. */
static bool has_its_turn(struct ag_stream *s)
{
    uint32_t turn = s->turns++ / (uint32_t)ag_options.test_switch;
    return turn % 2 == (ag_options.submit == AG_SUBMIT_INLINE);
}

/* By the comparison. Whoever forces one way does not pay for this. */
static __attribute__((noinline)) bool is_faster(struct ag_stream *s)
{
    uint32_t trials = s->pairs.trials;
    bool hands = ag_submit_is_wanted(&s->pairs, ag_measures() || s->without.tries,
                                     ag_clock_monotonic_ns() - atomic_load(&ag_compare_rested_ns),
                                     ag_policy_counts(ag_engine_policy(&s->engine))->ops);
    if (s->pairs.trials != trials) {
        ag_count(AG_COUNT_SUBMIT_TRIALS);
        ag_count_by(AG_COUNT_SUBMIT_WINS, hands);
        atomic_store(&ag_counts[AG_COUNT_SUBMIT_PERCENT], s->pairs.percent);
    }
    return hands && is_ordinary();
}

bool ag_submitter_is_wanted(struct ag_stream *s)
{
    if (ag_state_builds_nothing()) /* the library only observes */
        return false;
    if (__builtin_expect(ag_options.test_switch, 0))
        return has_its_turn(s);
    if (ag_options.submit != AG_SUBMIT_AUTO)
        return ag_options.submit == AG_SUBMIT_THREAD;
    return ag_submit_may_gain(&s->pairs, ag_thread_may_spin(),
                              ag_policy_gap(ag_engine_policy(&s->engine))) &&
           is_faster(s);
}
