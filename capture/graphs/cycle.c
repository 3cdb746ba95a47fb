/*
 * cycle.c - finds after how many ops the arguments of a loop repeat.
 *
 * The policy sees no arguments. So for the policy a loop of one kernel that takes 20 sets of
 * arguments in turn has period 1. In graphs of 64 launches this loop needs five graphs, launched in
 * turn; in graphs of 60 it needs one. (Measured on an H100: 1.00-1.18 us a kernel with five, 0.985
 * with one; docs/performance.md.)
 */
#include "capture/graphs/cycle.h"
#include "capture/graphs/graph.h"
#include "policy/constants.h"
#include <string.h>

static bool equal(const struct ag_graphs *g, const uint8_t *bytes, uint32_t a, uint32_t b)
{
    const struct ag_recorded *x = &g->ops[a], *y = &g->ops[b];
    return x->key == y->key &&
           !memcmp(bytes + x->offset, bytes + y->offset, ag_key_signature(x->key)->recorded_bytes);
}

static bool repeats_after(const struct ag_graphs *g, uint32_t period)
{
    for (uint32_t k = 0; k < g->num_variants; k++)
        for (uint32_t i = 0; i + period < g->count; i++)
            if (!equal(g, g->variants[k]->bytes, i, i + period))
                return false;
    return true;
}

uint32_t ag_graphs_cycle(const struct ag_graphs *g)
{
    for (uint32_t period = 1; g->num_variants > 1 && period < g->count; period++)
        if ((g->count - period) * g->num_variants >= AG_CYCLE_EVIDENCE && repeats_after(g, period))
            return period;
    return 0;
}
