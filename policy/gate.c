/*
 * gate.c - whether a block gains from being replayed, by the program's own clock.
 *
 * What is compared: the host's time from one start of the block to the next (from boundary to
 * boundary, or from turn to turn of a loop), with its graphs and with eager submission. With a sync
 * in it that time holds the GPU's work and all waiting, which is what the user feels. Without one
 * it is the host's time of submitting until the launch queue is full, and the GPU's time after
 * that; in either case the smaller one is the faster program. Medians of a few samples, so that a
 * preempted thread or a slow sync does not decide.
 *
 * How: a block is in one mode (replay first). After `interval` visits the other mode is tried for
 * a few visits; the first one is not counted, for it begins with what the other mode left in
 * flight. If the mode stays the interval doubles, so that looking costs next to nothing; if it
 * changes the interval is short again. Nothing is decided for ever.
 */
#include "policy/internal.h"

enum {
    FIRST_INTERVAL = 64, /* visits */
    LONGEST_INTERVAL = 4096,
    WARM_UP = 1,           /* visits of a trial that are not counted */
    EAGER_MUST_REACH = 98, /* percent of the replayed time, for eager to be chosen */
};

static uint64_t median(const struct ag_gate_samples *samples)
{
    uint64_t sorted[AG_GATE_SAMPLES];
    for (int i = 0; i < AG_GATE_SAMPLES; i++) {
        int k = i;
        for (; k > 0 && sorted[k - 1] > samples->ns[i]; k--)
            sorted[k] = sorted[k - 1];
        sorted[k] = samples->ns[i];
    }
    return sorted[AG_GATE_SAMPLES / 2];
}

bool ag_gate_defers(const struct ag_gate *g)
{
    return g->eager == g->trial; /* replaying and not trying, or eager and trying replay */
}

static void decide(struct ag_gate *g)
{
    uint64_t replay = median(&g->samples[0]), eager = median(&g->samples[1]);
    bool was = g->eager;
    g->eager = eager * 100 < replay * EAGER_MUST_REACH;
    g->interval = g->eager != was ? FIRST_INTERVAL : g->interval * 2;
    if (g->interval > LONGEST_INTERVAL)
        g->interval = LONGEST_INTERVAL;
    g->trial = false;
    g->left = g->interval;
}

/* The block was visited in `ns`, with its graphs or (replayed false) without. */
void ag_gate_visit(struct ag_gate *g, uint64_t ns, bool replayed)
{
    if (!g->interval) {
        if (!replayed)
            return; /* not built yet: these visits pay for staging */
        g->interval = g->left = FIRST_INTERVAL;
    }
    if (replayed != ag_gate_defers(g))
        return; /* something else went on: a build, a chunk that cools down */
    struct ag_gate_samples *samples = &g->samples[!replayed];
    if (!g->trial || g->left <= AG_GATE_SAMPLES) {
        samples->ns[samples->at++ % AG_GATE_SAMPLES] = ns;
        samples->at %= AG_GATE_SAMPLES;
    }
    if (--g->left)
        return;
    if (g->trial) {
        decide(g);
    } else {
        g->trial = true;
        g->left = AG_GATE_SAMPLES + WARM_UP;
    }
}
