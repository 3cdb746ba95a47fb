/*
 * tune.c - whether a block gains from longer or shorter chunks, by the program's own clock.
 *
 * plan.c cuts a block so that the GPU never waits long for a chunk to fill. Where the host is far
 * slower than the GPU that only pays for graph launches: the GPU waits anyway, and only the last
 * chunk keeps the program waiting. (Measured on an H100: ResNet-18 under TorchScript, an op every 9
 * us, takes 606 us in chunks of 4 and 576 us in chunks of 8.) How fast the GPU is nobody tells, so
 * longer chunks are tried: the time of a whole visit, from boundary to boundary, must get shorter
 * by more than its noise. If it does, still longer ones are tried; if not, the block goes back to
 * the cut before and rests, and after ever longer rests it is tried again.
 *
 * Where longer ones do not help a short block of a host that is no faster than the GPU, shorter
 * ones are tried in the same way: there the GPU waits for each chunk. (Five kernels of 5 us, issued
 * every 3 us, between two syncs: 7.2 us a kernel in chunks of one, 8.1 us in one and four.)
 *
 * Only while replay is not in doubt (gate.c). A loop without boundaries is timed from turn to turn:
 * if the host is the limit that is what it takes to submit one, else what the GPU takes, and then
 * no cut is faster. (Kernels of 2 us, issued every 3 us: 3.8 us each in chunks of 5, 3.5 in chunks
 * of 8.)
 */
#include "policy/internal.h"

enum {
    SETTLED = 48,        /* visits replayed whole before a trial */
    WARM_UP = 2,         /* visits of a trial that are not counted */
    FEW = 15,            /* samples of a trial that may decide it; else it goes on */
    LOOKS = 16,          /* and is looked at after so many more */
    PATIENCE = 128,      /* visits until a trial must have those few: its graphs must be there */
    LONGEST_TRIAL = 256, /* visits */
    MOST_UP = 2,         /* times the chunks are made longer, each time four times */
    MOST_DOWN = 2,       /* times they are made half as long */
    SHORT_OPS = 8,       /* a block where that is tried */
    SLOW_HOST_NS = 2000, /* between two ops: about what the GPU takes for a small kernel */
    FASTER = 99,         /* at most so many percent of the time before */
    FAR_FASTER = 93,     /* where there are to be more launches for it */
    FIRST_REST = 2048,   /* visits */
    LONGEST_REST = 65536,
    GROWTH = 4,
    MOST_FAILS = 3,
    VISITS_A_FAIL = 128,
};

/* A trial must save so many launches a visit to be worth building for. */
static bool saves_launches(const struct ag_policy_state *s, const struct ag_block *b)
{
    uint32_t longer = ag_plan_limit(s, b, b->tune.up + 1);
    uint32_t chunks = (b->len + longer - 1) / longer + 1;
    return longer > b->longest && chunks + 2 <= b->num_chunks;
}

/* The trial that is due: 1 for longer chunks, -1 for shorter ones, 0: none. */
static int due(const struct ag_policy_state *s, const struct ag_block *b)
{
    const struct ag_tune *t = &b->tune;
    if (s->config.fixed_chunk || b->gate.mode != AG_GATE_REPLAY || b->gate.doubt || b->gate.most ||
        (b->periodic && (b->loose || s->gap < SLOW_HOST_NS)) || ag_block_has_like(b))
        return 0;
    if (t->up >= 0 && t->up < MOST_UP && !t->shorter && saves_launches(s, b))
        return 1;
    return !b->periodic && t->up <= 0 && t->up > -MOST_DOWN && b->longest > 1 &&
                   b->len <= SHORT_OPS && s->gap >= SLOW_HOST_NS
               ? -1
               : 0;
}

static void enter(struct ag_tune *t, enum ag_tune_mode mode)
{
    t->mode = mode;
    t->visits = t->replayed = t->fails = 0;
}

static void cut(struct ag_tune *t, int step)
{
    t->up = (int8_t)(t->up + step);
    t->shorter = step < 0;
    t->recut = true;
    t->tried.count = 0;
    enter(t, AG_TUNE_TRIES);
}

static void rest(struct ag_tune *t)
{
    t->rest = !t->rest ? FIRST_REST : t->rest < LONGEST_REST ? t->rest * GROWTH : t->rest;
    t->shorter = false;
    enter(t, AG_TUNE_RESTS);
}

static void go_back(const struct ag_policy_state *s, struct ag_block *b)
{
    struct ag_tune *t = &b->tune;
    bool longer = !t->shorter;
    t->up = (int8_t)(t->up + (longer ? -1 : 1));
    t->recut = true;
    t->shorter = true;
    if (longer && due(s, b) < 0) {
        t->base.count = 0;
        enter(t, AG_TUNE_WAITS);
    } else {
        rest(t);
    }
}

/* `faster` takes at most so many percent of the time of `slower`. */
static bool beats(const struct ag_tune_samples *faster, const struct ag_tune_samples *slower,
                  int percent)
{
    return ag_samples_beat(faster->ns, ag_samples_kept(faster->count, AG_TUNE_SAMPLES), slower->ns,
                           ag_samples_kept(slower->count, AG_TUNE_SAMPLES), percent);
}

/* What a trial gains may be less than two visits of a program differ by: where a few samples tell
 * neither that it is faster nor that it is not, more are taken. */
static bool is_open(const struct ag_tune *t)
{
    uint32_t n = t->tried.count;
    if (n < FEW)
        return t->visits <= PATIENCE;
    if (n >= AG_TUNE_SAMPLES || t->visits > LONGEST_TRIAL)
        return false;
    return (n + 1) % LOOKS || (!beats(&t->tried, &t->base, t->shorter ? FAR_FASTER : FASTER) &&
                               !beats(&t->base, &t->tried, 100));
}

static void in_trial(const struct ag_policy_state *s, struct ag_block *b, uint64_t ns,
                     bool replayed)
{
    struct ag_tune *t = &b->tune;
    if (replayed && !t->recut && ++t->replayed > WARM_UP)
        ag_sample_add(t->tried.ns, &t->tried.count, AG_TUNE_SAMPLES, ns);
    if (is_open(t))
        return;
    if (t->tried.count < FEW || !beats(&t->tried, &t->base, t->shorter ? FAR_FASTER : FASTER)) {
        go_back(s, b);
    } else if (t->up && due(s, b) == (t->shorter ? -1 : 1)) {
        t->base = t->tried;
        cut(t, t->shorter ? -1 : 1);
    } else {
        rest(t);
    }
}

/* Deferred ops of the block had to be submitted eagerly: long chunks make that dear. */
void ag_tune_failed(struct ag_block *b)
{
    struct ag_tune *t = &b->tune;
    if (t->up <= 0 || (uint32_t)++t->fails < MOST_FAILS + t->visits / VISITS_A_FAIL)
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
        if (++t->replayed >= SETTLED) {
            int step = due(s, b);
            if (step)
                cut(t, step);
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
