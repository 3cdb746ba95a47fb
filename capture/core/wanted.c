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

/* For tests: who launches changes with every so many of the stream's questions. With
 * AUTOGRAPH_SUBMIT=inline the program's thread begins. */
static bool has_its_turn(struct ag_stream *s)
{
    uint32_t turn = s->turns++ / (uint32_t)ag_options.test_switch;
    return turn % 2 == (ag_options.submit == AG_SUBMIT_INLINE);
}

/* By the comparison. The submitter is an ordinary thread: a real-time thread that waits for it may
 * keep it from running. */
static bool is_faster(struct ag_stream *s)
{
    uint32_t trials = s->pairs.trials;
    bool hands = ag_submit_is_wanted(&s->pairs, ag_engine_policy(&s->engine),
                                     ag_measures() || s->without.tries,
                                     ag_clock_monotonic_ns() - atomic_load(&ag_compare_rested_ns));
    if (s->pairs.trials != trials) {
        ag_count(AG_COUNT_SUBMIT_TRIALS);
        ag_count_by(AG_COUNT_SUBMIT_WINS, hands);
        atomic_store(&ag_counts[AG_COUNT_SUBMIT_PERCENT], s->pairs.percent);
    }
    return hands && ag_thread_is_ordinary();
}

static bool is_wanted(struct ag_stream *s)
{
    if (s->thread) /* it gets no ring */
        return false;
    if (ag_options.test_switch)
        return has_its_turn(s);
    if (ag_options.submit != AG_SUBMIT_AUTO)
        return ag_options.submit == AG_SUBMIT_THREAD;
    return ag_submit_may_gain(&s->pairs, ag_engine_policy(&s->engine), ag_thread_may_spin()) &&
           is_faster(s);
}

void ag_submitter_asks(struct ag_stream *s, uint64_t now)
{
    s->hands_ops = is_wanted(s);
    s->asks_at = now + (s->pairs.tries ? AG_PAIRS_LOOK_NS : AG_PAIRS_SPAN_NS);
    if (ag_options.test_switch) /* each op asks, also by itself */
        s->asks_at = s->asked = 0;
}
