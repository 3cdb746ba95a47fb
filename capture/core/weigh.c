/* weigh.c - see weigh.h. */
#include "capture/core/weigh.h"
#include "capture/core/measure.h"
#include "capture/report/compare.h"
#include "capture/settings/options.h"
#include "capture/system/clock.h"
#include "capture/tracking/count.h"
#include "capture/tracking/dormancy.h"

/* Whether the graphs of late have spared the host less than it costs to look for them. While the
 * two ways are compared, and while the stream is dormant for it, there is no answer. */
static bool gains_little(struct ag_stream *s, uint64_t seen)
{
    struct ag_doubt *d = &s->doubt;
    if (s->without.tries || s->without.second || seen < d->ops + AG_WEIGH_DOUBT_OPS)
        return d->is;
    d->is = d->gain_ns < (int64_t)(seen - d->ops) * AG_WEIGH_GAIN_NS;
    d->ops = seen;
    d->gain_ns = 0;
    return d->is;
}

/* The GPU has kept the stream's graphs waiting of late, so what they spare the host does not
 * matter. Without them the program would seem faster until its queue is full. */
static bool gpu_is_behind(const struct ag_stream *s)
{
    return s->ahead.waited_at && ag_stream_ops(s) < s->ahead.waited_at + AG_AHEAD_MOST;
}

/* Nothing changes while the program measures its launches, or in an eager span of
 * report/compare.h. */
static bool may_weigh(struct ag_stream *s)
{
    /* while the stream is dormant, neither ops nor ties are seen */
    uint64_t seen = ag_policy_counts(ag_engine_policy(&s->engine))->ops;
    bool tied =
        s->ties && s->ties * AG_WEIGH_OPS_A_TIE >= seen && ag_engine_counts(&s->engine)->replayed;
    return ag_options.profit && (tied || (gains_little(s, seen) && !gpu_is_behind(s))) &&
           ag_engine_is_idle(&s->engine) && !ag_measures() &&
           atomic_load_explicit(&ag_compare_span, memory_order_relaxed) != AG_COMPARE_RESTS;
}

void ag_weigh_meet(struct ag_stream *s)
{
    uint64_t now = may_weigh(s) ? ag_clock_monotonic_ns() : 0;
    /* The submitter is compared first, as graphs may be faster by it alone. Its comparison leaves
     * out the time of eager spans (wanted.c). */
    if (!now || ag_pairs_are_awaited(&s->pairs, now - atomic_load(&ag_compare_rested_ns))) {
        ag_pairs_abort(&s->without);
        return;
    }
    if (s->pairs.next_ns)
        ag_pairs_soon(&s->without);
    bool without = ag_pairs_choose(&s->without, now, ag_stream_launches(s) - s->of_branches);
    if (s->without.tries)
        atomic_store_explicit(&ag_compare_weighed_ns, now, memory_order_relaxed);
    if (!without)
        return;
    uint32_t rest = s->without.tries ? AG_WEIGH_TRY_OPS : AG_WEIGH_REST_OPS;
    ag_count_by(AG_COUNT_WEIGHED, rest);
    ag_engine_rest(&s->engine, rest);
    ag_stream_goes_dormant(s);
}
