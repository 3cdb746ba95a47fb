/*
 * profit.c - whether a sequence gains from being replayed, and in how long chunks, by the program's
 * own clock.
 *
 * What is compared: the host's time from one start of the sequence to the next (from sync point to
 * sync point, or from turn to turn of a loop), with its graphs and with eager submission. With a
 * sync in it that time holds the GPU's work and all waiting, which is what the user feels. Without
 * one it is the host's time of submitting until the launch queue is full, and the GPU's time after
 * that; in either case the smaller one is the faster program. Medians of a few samples, so that a
 * preempted thread or a slow sync does not decide.
 *
 * How: a sequence is replayed at first. Where the host is slow, so that waiting for a chunk costs
 * most, an early look is taken: a few eager visits, and if those are far faster as many with graphs
 * once more. If they are far faster than those as well the sequence stays eager for a while, is
 * tried again in chunks half as long, and so on. It is taken at once where the first visits with
 * graphs take longer than the fastest one before there were any, which is but a hint: first visits
 * load kernels, find a GPU that has nothing to do, or one whose clock has not risen yet. So it is
 * taken after 32 visits in any case where the host is very slow.
 *
 * After 128 visits the sequence is compared with eager visits from before
 * its graphs were there, after 1024 with a trial: it is submitted eagerly for a few visits, of
 * which the first is not counted, for it begins with what the other mode left in flight. One mode
 * beats the other only when the slower half of its samples is still faster than the faster half of
 * the other's, twice running. Where replay does not lose, the next trial is four times as far away,
 * so that looking costs next to nothing. Where it seems to lose, if by less than the noise, or wins
 * a trial after it had lost, eager submission is tried once more soon: else a few outliers would
 * cost thousands of visits. Where it loses, the sequence is cut in chunks half as long, which is
 * what helps a GPU that waits for chunks to fill; where chunks of one op lose too, it is submitted
 * eagerly, and the best cut is tried again ever more rarely. Nothing is decided for ever.
 */
#include "policy/internal.h"

enum {
    SOON = 128, /* visits until replay is compared with what is known, or after a doubt */
    FIRST_INTERVAL = 1024,
    LONGEST_INTERVAL = 16384,
    GROWTH = 4,  /* of the interval, when the answer stays the same */
    WARM_UP = 1, /* visits of a trial that are not counted */
    FASTER = 98, /* at most so many percent of the other's time */
    CLEARLY = 66,
    SLOW_HOST_NS = 9000,       /* between two ops: a chunk of four is long for the GPU to wait */
    VERY_SLOW_HOST_NS = 20000, /* and 1024 visits are a long time */
    SLOWER = 102,              /* percent of first_ns: worth a look at once */
    LOOK = 32,                 /* visits until the early look in any case */
    FAR_FASTER = 95,
};

static void add_sample(struct ag_profit_samples *samples, uint64_t ns)
{
    ag_sample_add(samples->ns, &samples->count, AG_PROFIT_SAMPLES, ns);
}

/* Whether a takes at most so many percent of the time of b, by more than their noise. */
static bool beats(const struct ag_profit_samples *a, const struct ag_profit_samples *b, int percent)
{
    return a->count >= AG_PROFIT_SAMPLES && b->count >= AG_PROFIT_SAMPLES &&
           ag_samples_beat(a->ns, AG_PROFIT_SAMPLES, b->ns, AG_PROFIT_SAMPLES, percent);
}

static uint64_t median_of(const struct ag_profit_samples *samples)
{
    return ag_samples_middle(samples->ns, AG_PROFIT_SAMPLES, 0);
}

bool ag_profit_defers(const struct ag_profit *g)
{
    return g->mode != AG_PROFIT_EAGER && g->mode != AG_PROFIT_TRIES_EAGER;
}

static void enter(struct ag_profit *g, enum ag_profit_mode mode, uint32_t visits)
{
    g->mode = mode;
    g->left = visits;
}

static void try_other(struct ag_profit *g, enum ag_profit_mode mode,
                      struct ag_profit_samples *samples)
{
    samples->count = 0;
    enter(g, mode, AG_PROFIT_SAMPLES + WARM_UP);
}

static void wait_longer(struct ag_profit *g, enum ag_profit_mode mode)
{
    g->interval = g->interval ? g->interval * GROWTH : FIRST_INTERVAL;
    if (g->interval > LONGEST_INTERVAL)
        g->interval = LONGEST_INTERVAL;
    enter(g, mode, g->interval);
}

/* Cuts the sequence in shorter chunks from its next visit on. */
static void plan_at(struct ag_profit *g, uint32_t most)
{
    g->most = most;
    g->replan = true;
    g->replay.count = 0;
}

/* Eager submission was faster by more than chance. `longest` is the most ops in a chunk now. */
static void replay_lost(struct ag_profit *g, uint32_t longest)
{
    uint64_t replay = median_of(&g->replay);
    if (!g->doubt) {
        g->doubt = true;
        enter(g, AG_PROFIT_REPLAY, SOON);
        return;
    }
    g->doubt = false;
    if (!g->best_ns || replay < g->best_ns) {
        g->best_ns = replay;
        g->best_most = longest;
    }
    g->interval = FIRST_INTERVAL;
    if (longest > 1) {
        plan_at(g, longest / 2);
        enter(g, AG_PROFIT_REPLAY, SOON);
        return;
    }
    wait_longer(g, AG_PROFIT_EAGER);
}

/* Not by more than their noise, but by the medians, or by the second fastest samples: what is not
 * the sequence's own time makes a sample longer, never shorter, and four of seven may be such. */
static bool seems_to_lose(const struct ag_profit *g)
{
    if (g->replay.count < AG_PROFIT_SAMPLES || g->eager.count < AG_PROFIT_SAMPLES)
        return false;
    for (int off = -2; off <= 0; off += 2)
        if ((uint64_t)ag_samples_middle(g->eager.ns, AG_PROFIT_SAMPLES, off) * 100 <
            (uint64_t)ag_samples_middle(g->replay.ns, AG_PROFIT_SAMPLES, off) * FASTER)
            return true;
    return false;
}

static void replay_stays(struct ag_profit *g)
{
    g->doubt = false;
    g->best_ns = 0;
    wait_longer(g, AG_PROFIT_REPLAY);
}

/* Eager submission was far faster at the early look, or still is with shorter chunks. */
static void lost_early(struct ag_profit *g, uint32_t longest)
{
    g->early = AG_EARLY_SHORTER;
    g->best_most = longest > 1 ? longest / 2 : 1;
    enter(g, AG_PROFIT_EAGER, SOON);
}

/* A trial of the early look has ended. A program that is still warming up gets faster by itself: so
 * replay has to lose against the eager visits from both sides. */
static void decide_early(struct ag_profit *g, uint32_t longest)
{
    bool lost = beats(&g->eager, &g->replay, FAR_FASTER);
    if (lost && g->early == AG_EARLY_EAGER) {
        g->early = AG_EARLY_REPLAY;
        try_other(g, AG_PROFIT_TRIES_REPLAY, &g->replay);
    } else if (lost) {
        lost_early(g, longest);
    } else {
        g->early = AG_EARLY_NONE;
        enter(g, AG_PROFIT_REPLAY, SOON);
    }
}

static bool looks_slow(struct ag_profit *g, uint32_t gap)
{
    if (g->looked || g->mode != AG_PROFIT_REPLAY || g->replay.count < AG_PROFIT_SAMPLES)
        return false;
    bool slower = !g->hinted && g->first_ns && median_of(&g->replay) * 100 > g->first_ns * SLOWER;
    g->hinted = true;
    g->looked = slower || g->left <= SOON - LOOK;
    return g->looked && gap >= (slower ? SLOW_HOST_NS : VERY_SLOW_HOST_NS);
}

static void decide(struct ag_profit *g, uint32_t longest)
{
    if (g->early == AG_EARLY_EAGER || g->early == AG_EARLY_REPLAY) {
        decide_early(g, longest);
    } else if (g->mode == AG_PROFIT_TRIES_REPLAY) {
        if (beats(&g->replay, &g->eager, FASTER)) {
            g->early = AG_EARLY_NONE;
            g->unsure = true;
            enter(g, AG_PROFIT_REPLAY, SOON);
        } else if (g->early && longest > 1) {
            lost_early(g, longest);
        } else {
            g->early = AG_EARLY_NONE;
            wait_longer(g, AG_PROFIT_EAGER);
        }
    } else if (g->unsure) {
        g->unsure = false;
        if (beats(&g->eager, &g->replay, FASTER)) {
            wait_longer(g, AG_PROFIT_EAGER);
        } else {
            g->interval = FIRST_INTERVAL;
            replay_stays(g);
        }
    } else if (beats(&g->eager, &g->replay, FASTER)) {
        replay_lost(g, longest);
    } else if (seems_to_lose(g)) {
        enter(g, AG_PROFIT_REPLAY, SOON); /* and is asked again, with other samples */
    } else {
        replay_stays(g);
    }
}

/* The sequence was visited in `ns` before it had graphs. */
void ag_profit_first(struct ag_profit *g, uint64_t ns)
{
    if (g->mode == AG_PROFIT_NEW && (!g->first_ns || ns < g->first_ns))
        g->first_ns = ns;
}

/* The sequence was visited in `ns`, with its graphs or (replayed false) without. Visits that
 * recorded arguments for a build are not to be told. `longest`: most ops in a chunk of the
 * sequence. `gap`: the host's time between two ops. */
void ag_profit_visit(struct ag_profit *g, uint64_t ns, bool replayed, uint32_t longest,
                     uint32_t gap)
{
    if (g->mode == AG_PROFIT_NEW) {
        if (!replayed) {
            add_sample(&g->eager, ns);
            return;
        }
        enter(g, AG_PROFIT_REPLAY, SOON);
    }
    if (replayed != ag_profit_defers(g) || g->replan)
        return; /* something else went on: a build, a chunk that cools down */
    bool trial = g->mode == AG_PROFIT_TRIES_EAGER || g->mode == AG_PROFIT_TRIES_REPLAY;
    if (!trial || g->left <= AG_PROFIT_SAMPLES)
        add_sample(replayed ? &g->replay : &g->eager, ns);
    if (looks_slow(g, gap)) {
        g->early = AG_EARLY_EAGER;
        try_other(g, AG_PROFIT_TRIES_EAGER, &g->eager);
        return;
    }
    if (--g->left)
        return;
    switch (g->mode) {
    case AG_PROFIT_REPLAY:
        if (g->unsure) {
            try_other(g, AG_PROFIT_TRIES_EAGER, &g->eager);
        } else if (!g->interval && !seems_to_lose(g)) {
            g->interval = FIRST_INTERVAL;
            enter(g, AG_PROFIT_REPLAY, FIRST_INTERVAL - SOON);
        } else if (g->interval == FIRST_INTERVAL && !g->doubt && !g->most &&
                   beats(&g->replay, &g->eager, CLEARLY)) {
            replay_stays(g);
        } else {
            try_other(g, AG_PROFIT_TRIES_EAGER, &g->eager);
        }
        break;
    case AG_PROFIT_EAGER:
        if (g->most != g->best_most)
            plan_at(g, g->best_most);
        try_other(g, AG_PROFIT_TRIES_REPLAY, &g->replay);
        break;
    default:
        decide(g, longest);
    }
}
