/*
 * tune.c - whether a sequence gains from longer or shorter chunks, by the program's own clock.
 *
 * plan.c cuts a sequence so that the GPU never waits long for a chunk to fill. If the host is far
 * slower than the GPU, this only adds graph launches: the GPU waits anyway, and only the last chunk
 * keeps the program waiting. (Measured on an H100: ResNet-18 under TorchScript, an op every 9 us,
 * takes 606 us in chunks of 4 and 576 us in chunks of 8.) Nothing reports how fast the GPU is, so
 * the policy tries longer chunks: a whole visit, from sync point to sync point, must get shorter by
 * more than the noise. If it does, the policy tries still longer chunks. If not, the sequence goes
 * back to the plan before and rests. The policy tries again after ever longer rests.
 *
 * A trial keeps both plans, and they take turns. The reason: a virtual processor sometimes runs at
 * 0.6 of its speed for a second (docs/gpu-results.md), which is far more than any plan gains. When
 * the visits of a trial were compared with those before it, two of three processes of ResNet-18
 * kept chunks of 4, presumably for this reason, and took 1.2 and 1.6 ms a step instead of 1.0
 * (H200).
 *
 * If longer chunks do not help, and the host is no faster than the GPU, the policy tries in the
 * same way chunks that get shorter towards the end of the sequence, because only the last one keeps
 * the program waiting; then chunks of a quarter, for which the GPU waits less. (Five kernels
 * of 5 us, issued every 3 us, between two syncs: 7.2 us a kernel in chunks of one, 8.1 us in one
 * and four.)
 *
 * Chunks are tuned for whoever makes the launches. If the program's thread does, longer ones spare
 * it launches. If the submitter does, those cost the program nothing, and a longer chunk only keeps
 * the GPU waiting. So both are compared with chunks that suit neither more: before the first
 * comparison, and whenever the answer changes, tuning starts over. While they are compared, no
 * other chunks are tried. (Model of host and GPU, 20 kernels of 1 us, issued every 3 us, and a
 * sync: with the longer chunks of the program's thread, 76 % of the launches' time was saved by
 * either; with its own, the submitter saves 89 %.)
 *
 * Trials happen only while replay is not in doubt (profit.c). A loop without sync points is timed
 * from turn to turn. If the host is the limit, that is the time to submit one turn. Otherwise it is
 * the GPU's time, and then no plan is faster. (Kernels of 2 us, issued every 3 us: 3.8 us each in
 * chunks of 5, 3.5 in chunks of 8.)
 */
#include "policy/internal.h"

bool ag_tune_saves_launches(const struct ag_policy_state *s, const struct ag_sequence *b)
{
    uint32_t longer = ag_plan_limit(s, b, b->tune.up + 1);
    uint32_t chunks = (b->len + longer - 1) / longer + 1;
    return longer > b->plan.longest && chunks + 2 <= b->plan.num_chunks;
}

/* The trial that is due: 1 for longer chunks, -1 for shorter ones, 0 for none. */
static int due(const struct ag_policy_state *s, const struct ag_sequence *b)
{
    const struct ag_tune *t = &b->tune;
    if (s->config.fixed_chunk || b->profit.mode != AG_PROFIT_REPLAY || b->profit.doubt ||
        b->profit.most || (b->periodic && (b->loose || s->gap < AG_TUNE_SLOW_HOST_NS)) ||
        ag_sequence_has_like(b))
        return 0;
    if (t->up >= 0 && t->up < AG_TUNE_MOST_UP && !t->shorter && ag_tune_saves_launches(s, b))
        return 1;
    /* not before profit.c has made up its mind for the first time */
    return !b->periodic && b->profit.interval && t->up <= 0 && t->up > -AG_TUNE_MOST_DOWN &&
                   b->plan.longest > 1 && b->plan.longest * AG_TUNE_END_SHARE >= b->len &&
                   s->gap >= AG_TUNE_SLOW_HOST_NS
               ? -1
               : 0;
}

static void enter(struct ag_tune *t, enum ag_tune_mode mode)
{
    t->mode = mode;
    t->visits = t->replayed = t->fails = 0;
}

static void begin_turn(struct ag_tune *t)
{
    t->before_ns = t->turn_ns;
    t->turn_ns = 0;
    t->counted = t->replayed = 0;
}

static void try(struct ag_tune *t, int step)
{
    t->up = (int8_t)(t->up + step);
    t->shorter = step < 0;
    t->wants = AG_TUNE_NEW_PLAN;
    t->pairs = 0;
    enter(t, AG_TUNE_TRIES);
    begin_turn(t);
    t->before_ns = 0;
}

static void rest(struct ag_tune *t)
{
    t->rest = !t->rest                         ? AG_TUNE_FIRST_REST
              : t->rest < AG_TUNE_LONGEST_REST ? t->rest * AG_TUNE_GROWTH
                                               : t->rest;
    t->shorter = false;
    enter(t, AG_TUNE_RESTS);
}

static void settle(const struct ag_policy_state *s, struct ag_sequence *b, bool won)
{
    struct ag_tune *t = &b->tune;
    int step = t->shorter ? -1 : 1;
    if (t->wants == AG_TUNE_NEW_PLAN) { /* it has not begun since: there is only one plan */
        t->wants = AG_TUNE_NOTHING;
    } else {
        t->wants = AG_TUNE_SETTLE;
        t->old_wins = !won;
    }
    if (!won) {
        t->up = (int8_t)(t->up - step);
        t->shorter = true; /* longer chunks have had their trial */
    }
    if (won ? t->up && due(s, b) == step : step > 0)
        enter(t, AG_TUNE_WAITS);
    else
        rest(t);
}

void ag_tune_ends(struct ag_sequence *b)
{
    struct ag_tune *t = &b->tune;
    if (t->mode == AG_TUNE_TRIES) {
        t->up = (int8_t)(t->up - (t->shorter ? -1 : 1));
        rest(t);
    }
    t->wants = AG_TUNE_NOTHING;
    t->old_plan = t->old_wins = false;
}

bool ag_tune_changes_plan(struct ag_policy *p, struct ag_sequence *b)
{
    struct ag_tune *t = &b->tune;
    uint8_t wants = t->wants;
    if (wants == AG_TUNE_NOTHING)
        return false;
    t->wants = AG_TUNE_NOTHING;
    if (wants == AG_TUNE_NEW_PLAN) {
        ag_sequence_swap_plans(b); /* none is aside: the new plan is made when it begins */
        return true;
    }
    bool turns = wants == AG_TUNE_TURN || t->old_plan != t->old_wins;
    if (turns) {
        ag_sequence_swap_plans(b);
        t->old_plan = !t->old_plan;
    }
    if (wants == AG_TUNE_TURN)
        return true;
    if (ag_plan_retire(p->state, &b->aside))
        t->old_plan = t->old_wins = false;
    else
        t->wants = AG_TUNE_SETTLE; /* a chunk is being built: try later */
    return turns;
}

/* How many places the median of `kept` pairs may be off by chance. Each turn is in two pairs. */
static int doubt(uint32_t kept)
{
    return (int)(kept + 7) / 8;
}

static bool is_faster(const struct ag_tune *t)
{
    uint32_t kept = ag_samples_kept(t->pairs, AG_TUNE_SAMPLES);
    return ag_samples_middle(t->ratios, kept, doubt(kept)) < AG_TUNE_FASTER;
}

static bool is_slower(const struct ag_tune *t)
{
    uint32_t kept = ag_samples_kept(t->pairs, AG_TUNE_SAMPLES);
    return ag_samples_middle(t->ratios, kept, -doubt(kept)) > AG_TUNE_EQUAL;
}

/* A trial may gain less than the difference between two visits of a program. So if a few pairs do
 * not show whether the new plan is faster, the trial takes more. */
static bool is_open(const struct ag_tune *t)
{
    uint32_t n = t->pairs;
    if (n == AG_TUNE_AT_ONCE && ag_samples_middle(t->ratios, n, -1) > AG_TUNE_FAR_SLOWER)
        return false;
    if (n < AG_TUNE_FEW)
        return t->visits <= AG_TUNE_PATIENCE;
    if (n >= AG_TUNE_SAMPLES || t->visits > AG_TUNE_LONGEST_TRIAL)
        return false;
    return (n - AG_TUNE_FEW) % AG_TUNE_LOOKS || (!is_faster(t) && !is_slower(t));
}

/* A visit of a trial. Turns of a few visits with the new plan alternate with turns with the plan
 * before, and each turn is compared with the turn before it. So a processor that runs at half its
 * speed for a second makes both slower. */
static void in_trial(const struct ag_policy_state *s, struct ag_sequence *b, uint64_t ns,
                     bool replayed)
{
    struct ag_tune *t = &b->tune;
    if (t->wants == AG_TUNE_NOTHING && replayed &&
        ++t->replayed > (t->before_ns ? 1 : (uint32_t)AG_TUNE_WARM_UP)) {
        t->turn_ns += ns;
        t->counted++;
    }
    if (t->counted == AG_TUNE_TURN_VISITS) {
        uint64_t with = t->old_plan ? t->before_ns : t->turn_ns;
        uint64_t without = t->old_plan ? t->turn_ns : t->before_ns;
        if (t->before_ns && without)
            ag_sample_add(t->ratios, &t->pairs, AG_TUNE_SAMPLES, with * AG_TUNE_EQUAL / without);
        t->wants = AG_TUNE_TURN;
        begin_turn(t);
        if (!is_open(t))
            settle(s, b, t->pairs >= AG_TUNE_FEW && is_faster(t));
    } else if (t->visits > AG_TUNE_PATIENCE && !is_open(t)) {
        settle(s, b, false);
    }
}

/* Deferred ops of the sequence had to be submitted eagerly, which is expensive if chunks are long:
 * so they get as long as they were before. */
void ag_tune_failed(struct ag_sequence *b)
{
    struct ag_tune *t = &b->tune;
    if (t->up <= 0)
        return;
    uint32_t visits = AG_TUNE_VISITS_A_FAIL << 2 * (t->up - 1);
    if ((uint32_t)++t->fails < AG_TUNE_MOST_FAILS + t->visits / visits)
        return;
    t->up--;
    t->replan = true;
    rest(t);
}

void ag_policy_launched_by(struct ag_policy *p, bool submitter, bool compares)
{
    struct ag_policy_state *s = p->state;
    bool first = compares && !s->launcher;
    s->launcher += first || submitter != s->by_submitter;
    s->by_submitter = submitter;
    s->compares = compares;
}

/* A trial under way says nothing, and comes again. */
static void put_off(const struct ag_policy_state *s, struct ag_sequence *b)
{
    bool shorter = b->tune.shorter;
    settle(s, b, false);
    b->tune.shorter = shorter;
    enter(&b->tune, AG_TUNE_WAITS);
}

static void start_over(const struct ag_policy_state *s, struct ag_tune *t)
{
    t->launcher = s->launcher;
    t->replan |= t->up != 0;
    t->up = 0;
    t->rest = 0;
    t->shorter = false;
    enter(t, AG_TUNE_WAITS);
}

/* A visit of the sequence took `ns`. `replayed`: graphs submitted all of it. */
void ag_tune_visit(const struct ag_policy_state *s, struct ag_sequence *b, uint64_t ns,
                   bool replayed)
{
    struct ag_tune *t = &b->tune;
    t->visits++;
    bool other = t->launcher != s->launcher;
    if (s->compares || other) {
        if (t->mode == AG_TUNE_TRIES)
            put_off(s, b);
        else if (other && t->wants == AG_TUNE_NOTHING)
            start_over(s, t);
        return;
    }
    switch (t->mode) {
    case AG_TUNE_WAITS:
        if (replayed && t->wants == AG_TUNE_NOTHING && !t->replan &&
            ++t->replayed >= AG_TUNE_SETTLED) {
            int step = due(s, b);
            if (step)
                try(t, step);
            else if (b->profit.interval)
                rest(t);
        }
        break;
    case AG_TUNE_TRIES:
        in_trial(s, b, ns, replayed);
        break;
    default:
        if (t->visits > t->rest)
            enter(t, AG_TUNE_WAITS);
    }
}
