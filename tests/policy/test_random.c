/*
 * test_random.c - random programs of nested loops, branches and disturbances: nothing is asserted
 * but what must always hold (rig.h). AG_SEEDS sets how many programs, AG_SEED where they start.
 *
 *     test_policy_random PROGRAMS
 *
 * prints, for each program, what became of its ops and how the policy changed with each, as one
 * number. CMakeLists.txt compares these with those of a policy that never takes its short way
 * (goes_straight_on() in follow.c).
 */
#include "rig.h"
#include <stdio.h>

enum { NODES = 24, OPS = 2500 };

enum kind { OPS_RUN, SEQUENCE, LOOP, LOOP_RANDOM, BRANCH, SYNC, NOISE };

struct node {
    enum kind kind;
    uint32_t first, count; /* keys, or times */
    uint32_t child[3];
};

struct program {
    struct node nodes[NODES];
    uint64_t seed;
    uint32_t visits;   /* of nodes */
    uint32_t trouble;  /* one op in so many is disturbed; 0: never */
    bool measures;     /* the program may, behind sync points of the disturbances */
    uint64_t graph_ns; /* of the host, for each launch of a graph; 0: as for a single op */
    uint64_t digest;
    struct rig *rig;
};

static uint32_t below(struct program *g, uint32_t n)
{
    return (uint32_t)(rig_random(&g->seed) % n);
}

static void trouble(struct program *g)
{
    struct rig *r = g->rig;
    switch (below(g, g->measures ? 10 : 9)) {
    case 0:
    case 1:
        rig_break(r);
        break;
    case 2:
        rig_pause(r);
        break;
    case 3:
        rig_sync(r);
        break;
    case 4:
        if (below(g, 20) == 0)
            rig_invalidate(r);
        break;
    case 5:
        rig_drain(r);
        break;
    case 6:
        if (!ag_policy_deferred(&r->engine.policy) && !r->engine.policy.dormant)
            rig_rest(r, 1 + below(g, 40));
        break;
    case 9:
        r->now += below(g, 2) * (uint64_t)AG_MEASURE_LONGEST_NS;
        ag_policy_may_measure(&r->engine.policy, below(g, 300));
        rig_sync(r);
        break;
    default: {
        struct ag_sequence *b = ag_policy_victim(&r->engine.policy);
        if (b)
            ag_policy_drop_graphs(&r->engine.policy, b);
    }
    }
}

static void add(struct program *g, uint64_t value)
{
    g->digest = ag_mix(g->digest ^ value) + 1;
}

static void add_state(struct program *g, struct rig_given given)
{
    const struct ag_policy *p = &g->rig->engine.policy;
    const struct ag_policy_state *s = p->state;
    const struct ag_sequence *b = s->sequence;
    const uint64_t values[] = {given.ops,
                               given.graphs,
                               p->doing,
                               p->idle,
                               p->measured,
                               p->dormant,
                               p->counts.ops,
                               s->gap,
                               s->long_gaps,
                               p->counts.replayed,
                               s->run_began,
                               s->unproductive,
                               s->barren,
                               s->recorded,
                               p->counts.switches,
                               s->pure,
                               s->first_op,
                               p->counts.mismatches,
                               p->counts.sequences,
                               p->counts.resyncs,
                               s->retired.num_chunks};
    for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++)
        add(g, values[i]);
    if (!b)
        return;
    add(g, b->serial);
    add(g, b->visits);
    add(g, ag_position(p));
    for (uint32_t i = 0; i < b->plan.num_chunks; i++) {
        const struct ag_chunk *chunk = &b->plan.chunks[i];
        add(g, (uint64_t)chunk->hits << 32 | chunk->fails);
        add(g, chunk->fill_ns);
        add(g, chunk->cold_until);
    }
}

static void launch(struct rig *r, const struct ag_chunk *chunk)
{
    const struct program *g = r->world;
    r->now += chunk && g->graph_ns ? g->graph_ns : r->launch_ns;
}

static void emit(struct program *g, ag_key key)
{
    struct rig_given given = rig_op(g->rig, key);
    if (g->measures)
        add_state(g, given);
    if (g->trouble && below(g, g->trouble) == 0)
        trouble(g);
}

static void walk(struct program *g, uint32_t at, uint32_t depth)
{
    const struct node *n = &g->nodes[at];
    if (g->rig->ops > OPS || depth > 8 || g->visits++ > 4 * OPS)
        return;
    switch (n->kind) {
    case OPS_RUN:
        for (uint32_t i = 0; i < n->count; i++)
            emit(g, 1 + n->first + i);
        break;
    case SEQUENCE:
        for (int i = 0; i < 3; i++)
            walk(g, n->child[i], depth + 1);
        break;
    case LOOP:
        for (uint32_t i = 0; i < n->count; i++)
            walk(g, n->child[0], depth + 1);
        break;
    case LOOP_RANDOM:
        for (uint32_t i = below(g, n->count + 1); i; i--)
            walk(g, n->child[0], depth + 1);
        break;
    case BRANCH:
        walk(g, n->child[below(g, 2)], depth + 1);
        break;
    case SYNC:
        rig_sync(g->rig);
        break;
    case NOISE:
        emit(g, rig_random(&g->seed) | 1);
        break;
    }
}

static uint64_t run_program(uint64_t seed, bool measures)
{
    struct program g = {.seed = seed * 77 + 5, .measures = measures};
    struct ag_policy_config config;
    uint32_t alphabet = 1 + below(&g, 30);
    ag_policy_defaults(&config);
    if (below(&g, 2))
        config.max_sequences = 16;
    config.profit = below(&g, 2);
    if (below(&g, 6) == 0)
        config.fixed_chunk = 1 + below(&g, 9);
    if (below(&g, 6) == 0)
        config.min_repeats = 2 + below(&g, 5);
    for (uint32_t i = 0; i < NODES; i++) {
        struct node *n = &g.nodes[i];
        uint32_t dice = below(&g, 20);
        n->kind = dice < 7    ? OPS_RUN
                  : dice < 11 ? SEQUENCE
                  : dice < 14 ? LOOP
                  : dice < 16 ? LOOP_RANDOM
                  : dice < 17 ? BRANCH
                  : dice < 19 ? SYNC
                              : NOISE;
        n->first = below(&g, alphabet);
        n->count = 1 + below(&g, 12);
        for (int k = 0; k < 3; k++)
            n->child[k] = below(&g, NODES);
    }
    g.rig = rig_open(&config);
    g.rig->tells_new = below(&g, 2);
    g.rig->seed = seed;
    g.rig->gap = 50 + below(&g, 4000);
    if (below(&g, 3))
        g.rig->build_delay = below(&g, 60);
    if (below(&g, 4) == 0)
        g.rig->fail_percent = below(&g, 100);
    if (below(&g, 4) == 0)
        g.rig->decline_percent = below(&g, 100 - g.rig->fail_percent);
    if (below(&g, 4) == 0)
        g.rig->launch_fail_percent = below(&g, 30);
    if (measures && below(&g, 2)) {
        g.graph_ns = below(&g, 60000);
        g.rig->world = &g;
        g.rig->launch = launch;
    }
    g.trouble = below(&g, 2) ? 0 : 10 + below(&g, 300);
    for (uint32_t i = 0; g.rig->ops < OPS && g.visits < 4 * OPS; i++)
        walk(&g, i % 3, 0);
    rig_close(g.rig);
    return g.digest;
}

static uint64_t running;
static int say_seed(void **state)
{
    (void)state;
    if (running)
        fprintf(stderr, "AG_SEED=%llu failed\n", (unsigned long long)running);
    return 0;
}

static void test_random_programs(void **state)
{
    (void)state;
    const char *text = getenv("AG_SEEDS"), *start = getenv("AG_SEED");
    uint64_t seeds = text ? strtoull(text, NULL, 10) : 3000;
    uint64_t first = start ? strtoull(start, NULL, 10) : 1;
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        running = seed;
        run_program(seed, false);
    }
    running = 0;
}

/* Two ops as the Thue-Morse sequence has them: each block of 2^n ops is followed by the one in
 * which they are swapped. To a polynomial hash modulo 2^64 both are the same from 2,048 ops on, and
 * the graph of one was launched for the other. */
static void test_swapped_blocks(void **state)
{
    (void)state;
    struct rig *r = rig_open(NULL);
    for (uint32_t i = 0; i < 100000; i++) {
        rig_op(r, rig_key(1, (uint32_t)__builtin_popcount(i) & 1));
        if (i % 6400 == 6399)
            rig_sync(r);
    }
    rig_close(r);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        for (int seed = 1; seed <= atoi(argv[1]); seed++)
            printf("%d %016llx\n", seed, (unsigned long long)run_program((uint64_t)seed, true));
        return 0;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(test_random_programs, say_seed),
                                       cmocka_unit_test(test_swapped_blocks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
