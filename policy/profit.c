/*
 * profit.c - the profitability check: whether a sequence gains from being replayed, and with how
 * long chunks, by the program's own clock.
 *
 * What it compares: the host's time from one start of the sequence to the next (from sync point to
 * sync point, or from turn to turn of a loop), with its graphs and with eager submission. If there
 * is a sync in that time, it contains the GPU's work and all waiting, which is what the user feels.
 * If there is none, it is the host's time to submit until the launch queue is full, and the GPU's
 * time after that. In both cases the smaller time belongs to the faster program. The check compares
 * medians of a few samples, so that a preempted thread or a slow sync does not decide.
 *
 * The early look: a sequence is replayed at first. On a slow host, waiting for a chunk costs most,
 * so the check looks early: it submits a few visits eagerly. If those are far faster, it replays as
 * many visits once more. If the eager visits are far faster than these too, the sequence stays
 * eager for a while, is tried again with chunks half as long, and so on. The early look comes at
 * once if the first visits with graphs take longer than the fastest visit before there were any.
 * But that is only a hint: first visits load kernels, find a GPU that has nothing to do, or one
 * whose clock has not risen yet. So on a very slow host, the early look comes after 48 visits in
 * any case.
 *
 * The later comparisons: after 128 visits, the check compares the sequence with the eager visits
 * from before its graphs existed. After 1024 visits, it compares it with a trial: it submits the
 * sequence eagerly for a few visits. It does not count the first of them, because that one begins
 * with what the other mode left in flight. One mode beats the other only if the slower half of its
 * samples is still faster than the faster half of the other's, twice in a row.
 *
 * If replay does not lose, the next trial is four times as far away, so that trials cost next to
 * nothing. If replay seems to lose, even by less than the noise, the check soon tries eager
 * submission once more. Otherwise a few outliers would cost thousands of visits. If replay loses,
 * the sequence is cut into chunks half as long, which helps a GPU that waits for chunks to fill. If
 * chunks of one op lose too, the sequence is submitted eagerly, and the best plan is tried again,
 * ever more rarely. No decision is final.
 *
 * A sequence that gets chunks of one op, and is too short for others, must also gain in the launch
 * calls alone, and as much as could be seen in the time of a visit.
 */
#include "policy/internal.h"

static void add_sample(struct ag_profit_samples *samples, uint64_t ns)
{
    ag_sample_add(samples->ns, &samples->count, AG_PROFIT_SAMPLES, ns);
}

/* The median or, in sorted order, the sample `off` places after it. */
static uint64_t middle(const struct ag_profit_samples *samples, int off)
{
    return ag_samples_middle(samples->ns, AG_PROFIT_SAMPLES, off);
}

/* Whether `a` takes at most `percent` percent of the time of `b`. Compares a neighbour of each
 * median, on the unfavourable side, so that a preempted thread, a slow sync or two of them do not
 * decide. */
static bool beats(const struct ag_profit_samples *a, const struct ag_profit_samples *b,
                  uint64_t percent)
{
    return a->count >= AG_PROFIT_SAMPLES && b->count >= AG_PROFIT_SAMPLES &&
           middle(a, 1) * 100 < middle(b, -1) * percent;
}

static void enter(struct ag_profit *g, enum ag_profit_mode mode, uint32_t visits)
{
    g->mode = mode;
    g->left = visits;
    g->patience = visits * AG_PROFIT_PATIENCE;
}

static void try_other(struct ag_profit *g, enum ag_profit_mode mode,
                      struct ag_profit_samples *samples)
{
    samples->count = 0;
    enter(g, mode, AG_PROFIT_SAMPLES + AG_PROFIT_WARM_UP);
}

/* Cuts the sequence into shorter chunks from its next visit on. */
static void plan_at(struct ag_profit *g, uint32_t most)
{
    g->most = most;
    g->replan = true;
    g->replay.count = 0;
}

/* Replay has rested, and is tried with the best plan. */
static void try_replay(struct ag_profit *g)
{
    if (g->most != g->best_most)
        plan_at(g, g->best_most);
    try_other(g, AG_PROFIT_TRIES_REPLAY, &g->replay);
}

static void wait_longer(struct ag_profit *g, enum ag_profit_mode mode)
{
    g->interval = g->interval ? g->interval * AG_PROFIT_GROWTH : AG_PROFIT_FIRST_INTERVAL;
    if (g->interval > AG_PROFIT_LONGEST_INTERVAL)
        g->interval = AG_PROFIT_LONGEST_INTERVAL;
    enter(g, mode, g->interval);
}

/* Eager submission was faster by more than chance. `longest`: ops in the longest chunk now. */
static void replay_lost(struct ag_profit *g, uint32_t longest)
{
    uint64_t replay = middle(&g->replay, 0);
    if (!g->doubt) {
        g->doubt = true;
        enter(g, AG_PROFIT_REPLAY, AG_PROFIT_SOON);
        return;
    }
    g->doubt = false;
    if (!g->best_ns || replay < g->best_ns) {
        g->best_ns = replay;
        g->best_most = longest;
    }
    g->interval = AG_PROFIT_FIRST_INTERVAL;
    if (longest > 1) {
        plan_at(g, longest / 2);
        enter(g, AG_PROFIT_REPLAY, AG_PROFIT_SOON);
        return;
    }
    wait_longer(g, AG_PROFIT_EAGER);
}

/* Whether replay seems to lose: not by more than the noise, but by the medians or by the second
 * fastest samples. Disturbances make a sample longer, never shorter, and may affect four of seven
 * samples. */
static bool seems_to_lose(const struct ag_profit *g)
{
    return g->replay.count >= AG_PROFIT_SAMPLES && g->eager.count >= AG_PROFIT_SAMPLES &&
           (middle(&g->eager, -2) * 100 < middle(&g->replay, -2) * AG_PROFIT_FASTER ||
            middle(&g->eager, 0) * 100 < middle(&g->replay, 0) * AG_PROFIT_FASTER);
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
    enter(g, AG_PROFIT_EAGER, AG_PROFIT_SOON);
}

/* A trial of the early look has ended. A program that is still warming up gets faster by itself. So
 * replay must lose against the eager visits both before and after them. */
static void decide_early(struct ag_profit *g, uint32_t longest)
{
    bool lost = beats(&g->eager, &g->replay, AG_PROFIT_FAR_FASTER);
    if (lost && g->early == AG_EARLY_EAGER) {
        g->early = AG_EARLY_REPLAY;
        try_other(g, AG_PROFIT_TRIES_REPLAY, &g->replay);
    } else if (lost) {
        lost_early(g, longest);
    } else {
        g->early = AG_EARLY_NONE;
        enter(g, AG_PROFIT_REPLAY, AG_PROFIT_SOON);
    }
}

/* Whether the early look can end before all its visits: so many eager visits were not far faster
 * than replay that beats() is false whatever the others are. */
static bool cannot_lose(const struct ag_profit *g)
{
    uint64_t bound = middle(&g->replay, -1) * AG_PROFIT_FAR_FASTER;
    uint32_t slow = 0;
    if (g->early != AG_EARLY_EAGER || g->mode != AG_PROFIT_TRIES_EAGER)
        return false;
    for (uint32_t i = 0; i < g->eager.count; i++)
        slow += (uint64_t)g->eager.ns[i] * 100 >= bound;
    return slow >= AG_PROFIT_SAMPLES / 2;
}

static bool looks_slow(struct ag_profit *g, uint32_t gap)
{
    if (g->looked || g->mode != AG_PROFIT_REPLAY || g->replay.count < AG_PROFIT_SAMPLES)
        return false;
    bool slower =
        !g->hinted && g->first_ns && middle(&g->replay, 0) * 100 > g->first_ns * AG_PROFIT_SLOWER;
    g->hinted = true;
    g->looked = slower || g->left <= AG_PROFIT_SOON - AG_PROFIT_LOOK;
    return g->looked && gap >= (slower ? AG_PROFIT_SLOW_HOST_NS : AG_PROFIT_VERY_SLOW_HOST_NS);
}

static void decide(struct ag_profit *g, uint32_t longest)
{
    if (g->early == AG_EARLY_EAGER || g->early == AG_EARLY_REPLAY) {
        decide_early(g, longest);
    } else if (g->mode == AG_PROFIT_TRIES_REPLAY) {
        if (beats(&g->replay, &g->eager, AG_PROFIT_FASTER)) {
            g->early = AG_EARLY_NONE;
            g->interval = 0;
            replay_stays(g);
        } else if (g->early && longest > 1) {
            lost_early(g, longest);
        } else {
            g->early = AG_EARLY_NONE;
            wait_longer(g, AG_PROFIT_EAGER);
        }
    } else if (beats(&g->eager, &g->replay, AG_PROFIT_FASTER)) {
        replay_lost(g, longest);
    } else if (seems_to_lose(g)) {
        enter(g, AG_PROFIT_REPLAY, AG_PROFIT_SOON); /* the check asks again, with other samples */
    } else {
        replay_stays(g);
    }
}

/* The policy follows the sequence. If the stream leaves it half way each time, no visit is whole,
 * so none is measured. Then what the check waits for does not come, and it must not wait in vain
 * with the sequence eager. */
void ag_profit_followed(struct ag_profit *g)
{
    if (g->mode == AG_PROFIT_NEW || g->mode == AG_PROFIT_REPLAY || --g->patience)
        return;
    if (g->mode == AG_PROFIT_TRIES_EAGER) {
        g->early = AG_EARLY_NONE;
        enter(g, AG_PROFIT_REPLAY, AG_PROFIT_SOON);
    } else if (g->mode == AG_PROFIT_EAGER) {
        try_replay(g);
    } else {
        wait_longer(g, AG_PROFIT_EAGER);
    }
}

/* Whether the last launches, of a sequence of `len` ops, have gained less than AG_PROFIT_FASTER
 * asks for. */
static bool gains_too_little(const struct ag_profit *g, uint32_t len)
{
    bool known = g->replay.count >= AG_PROFIT_SAMPLES;
    uint64_t visits_ns = known ? AG_PROFIT_LAUNCHES * middle(&g->replay, 0) / len : 0;
    return g->gained_ns < (int64_t)(visits_ns * (100 - AG_PROFIT_FASTER) / 100);
}

/* The graph of one op of a sequence of `len` ops was launched, which took the host by `ns` less
 * than an eager call. Host time is all that such a graph can spare, and no longer chunk can be
 * tried. A launch spares 1 or 2 us at most. Where the time from op to op is a hundred times as
 * long, nobody would notice that, and other costs of a graph have outweighed it (JAX without jit,
 * docs/results-log.md). So if the launches spare too little, there are none for a while. */
void ag_profit_gained(struct ag_profit *g, int64_t ns, uint32_t len)
{
    if (g->mode != AG_PROFIT_REPLAY)
        return;
    g->gained_ns += ns;
    if (++g->launches < AG_PROFIT_LAUNCHES)
        return;
    bool lost = gains_too_little(g, len) && !beats(&g->replay, &g->eager, AG_PROFIT_FASTER);
    g->launches = 0;
    g->gained_ns = 0;
    if (!lost)
        return;
    g->interval = 0; /* another answer than before */
    wait_longer(g, AG_PROFIT_EAGER);
}

/* A visit of the sequence before it had graphs took `ns`. */
void ag_profit_first(struct ag_profit *g, uint64_t ns)
{
    if (g->mode == AG_PROFIT_NEW && (!g->first_ns || ns < g->first_ns))
        g->first_ns = ns;
}

/* A visit of the sequence took `ns`, with its graphs or (`replayed` is false) without. Do not
 * report visits that recorded arguments for a build. `longest`: ops in the longest chunk of the
 * sequence. `gap`: the host's time between two ops. */
void ag_profit_visit(struct ag_profit *g, uint64_t ns, bool replayed, uint32_t longest,
                     uint32_t gap)
{
    if (g->mode == AG_PROFIT_NEW) {
        if (!replayed) {
            add_sample(&g->eager, ns);
            return;
        }
        enter(g, AG_PROFIT_REPLAY, AG_PROFIT_SOON);
    }
    if (replayed != ag_profit_defers(g) || g->replan)
        return; /* something else went on: a build, or a chunk that rests */
    bool trial = g->mode == AG_PROFIT_TRIES_EAGER || g->mode == AG_PROFIT_TRIES_REPLAY;
    if (!trial || g->left <= AG_PROFIT_SAMPLES)
        add_sample(replayed ? &g->replay : &g->eager, ns);
    if (looks_slow(g, gap)) {
        g->early = AG_EARLY_EAGER;
        try_other(g, AG_PROFIT_TRIES_EAGER, &g->eager);
        return;
    }
    if (--g->left && !cannot_lose(g))
        return;
    switch (g->mode) {
    case AG_PROFIT_REPLAY:
        if (!g->interval && !seems_to_lose(g)) {
            g->interval = AG_PROFIT_FIRST_INTERVAL;
            enter(g, AG_PROFIT_REPLAY, AG_PROFIT_FIRST_INTERVAL - AG_PROFIT_SOON);
        } else if (g->interval == AG_PROFIT_FIRST_INTERVAL && !g->doubt && !g->most &&
                   beats(&g->replay, &g->eager, AG_PROFIT_CLEARLY)) {
            replay_stays(g);
        } else {
            try_other(g, AG_PROFIT_TRIES_EAGER, &g->eager);
        }
        break;
    case AG_PROFIT_EAGER:
        try_replay(g);
        break;
    default:
        decide(g, longest);
    }
}
