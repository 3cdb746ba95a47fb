/*
 * tune.c - whether a block gains from longer chunks, by the program's own clock.
 *
 * plan.c cuts a block so that the GPU never waits long for a chunk to fill. Where the host is far
 * slower than the GPU that only pays for graph launches: the GPU waits anyway, and only the last
 * chunk keeps the program waiting. (Measured on an H100: ResNet-18 under TorchScript, an op every 9
 * us, takes 606 us in chunks of 4 and 576 us in chunks of 8.) How fast the GPU is nobody tells, so
 * longer chunks are tried: the time of a whole visit, from boundary to boundary, must get shorter
 * by more than its noise. If it does, still longer ones are tried; if not, the block goes back to
 * the cut before and rests, and after ever longer rests it is tried again.
 *
 * Only blocks that end at a boundary are tuned, and only while replay is not in doubt (gate.c).
 */
#include "policy/internal.h"

enum {
    SETTLED = 32,      /* visits replayed whole before a trial */
    WARM_UP = 2,       /* visits of a trial that are not counted */
    PATIENCE = 128,    /* visits until the graphs of a trial must be there */
    MOST_UP = 2,       /* times the chunks are made longer, each time four times */
    FASTER = 99,       /* at most so many percent of the time before */
    FIRST_REST = 2048, /* visits */
    LONGEST_REST = 65536,
    GROWTH = 4,
    MOST_FAILS = 3,
    VISITS_A_FAIL = 128,
};

/* A trial must save so many launches a visit to be worth building for. */
static bool saves_launches(const struct ag_policy_state *s, const struct ag_block *b)
{
    uint32_t longer = ag_plan_limit(s, b, b->tune.up + 1u);
    uint32_t chunks = (b->len + longer - 1) / longer + 1;
    return longer > b->longest && chunks + 2 <= b->num_chunks;
}

static bool may_try(const struct ag_policy_state *s, const struct ag_block *b)
{
    return !b->periodic && !s->config.fixed_chunk && b->gate.mode == AG_GATE_REPLAY &&
           !b->gate.doubt && !b->gate.most && b->tune.up < MOST_UP && saves_launches(s, b) &&
           !ag_block_has_like(b);
}

static void enter(struct ag_tune *t, enum ag_tune_mode mode)
{
    t->mode = mode;
    t->visits = t->replayed = t->fails = 0;
}

static void cut_longer(struct ag_tune *t)
{
    t->up++;
    t->recut = true;
    t->tried.count = 0;
    enter(t, AG_TUNE_TRIES);
}

static void rest(struct ag_tune *t)
{
    t->rest = !t->rest ? FIRST_REST : t->rest < LONGEST_REST ? t->rest * GROWTH : t->rest;
    enter(t, AG_TUNE_RESTS);
}

static void go_back(struct ag_tune *t)
{
    t->up--;
    t->recut = true;
    rest(t);
}

static void in_trial(const struct ag_policy_state *s, struct ag_block *b, uint64_t ns,
                     bool replayed)
{
    struct ag_tune *t = &b->tune;
    if (replayed && !t->recut && ++t->replayed > WARM_UP)
        ag_sample_add(t->tried.ns, &t->tried.count, AG_TUNE_SAMPLES, ns);
    if (t->tried.count < AG_TUNE_SAMPLES) {
        if (t->visits > PATIENCE) /* its graphs are not to be had */
            go_back(t);
    } else if (!ag_samples_beat(t->tried.ns, t->base.ns, AG_TUNE_SAMPLES, FASTER)) {
        go_back(t);
    } else if (may_try(s, b)) {
        t->base = t->tried;
        cut_longer(t);
    } else {
        rest(t);
    }
}

/* Deferred ops of the block had to be submitted eagerly: long chunks make that dear. */
void ag_tune_failed(struct ag_block *b)
{
    struct ag_tune *t = &b->tune;
    if (!t->up || (uint32_t)++t->fails < MOST_FAILS + t->visits / VISITS_A_FAIL)
        return;
    t->up = 0;
    t->recut = true;
    rest(t);
}

/* The block was visited in `ns`; replayed: all of it by its graphs. */
void ag_tune_visit(const struct ag_policy_state *s, struct ag_block *b, uint64_t ns, bool replayed)
{
    struct ag_tune *t = &b->tune;
    t->visits++;
    switch (t->mode) {
    case AG_TUNE_WAITS:
        if (!replayed || t->recut)
            break;
        ag_sample_add(t->base.ns, &t->base.count, AG_TUNE_SAMPLES, ns);
        if (++t->replayed >= SETTLED && t->base.count >= AG_TUNE_SAMPLES) {
            if (may_try(s, b))
                cut_longer(t);
            else
                rest(t);
        }
        break;
    case AG_TUNE_TRIES:
        in_trial(s, b, ns, replayed);
        break;
    default:
        if (t->visits > t->rest) {
            t->base.count = 0;
            enter(t, AG_TUNE_WAITS);
        }
    }
}
