/*
 * model_cells - microseconds an op in a model of the matrix' cells (tests/gpu/matrix), without a
 * GPU: what a change of the policy does to learning, to trials and to what comes of them.
 *
 *     model_cells RUNS NOISE SLOW [inline|thread] [KERNEL:GAP:OPS:SYNC...]
 *
 * A host and a GPU whose speeds are set: the host works GAP us between two launches, by up to NOISE
 * (0.1: a tenth) more or less, with pauses of some 10 us now and then, and goes SLOW times as slow
 * for 0.3 s of 1.3 (1: never). A launch, eager or of a graph, takes it RIG_LAUNCH_NS and a sync
 * RIG_SYNC_NS; each op that is flushed by itself takes a launch. The GPU begins 2.5 us after a
 * launch, and takes 1.2 us between two graphs (an H200, in round figures). With `thread`, a
 * submitter makes the launches one after the other, and the host takes HAND_NS for each, if there
 * is room in the ring; what is flushed stays the host's. As in the matrix, the host syncs every 3.3
 * ms in any case. For each cell: the mean of RUNS seeds, and ops a launch (0: no graph), from 80 to
 * 110 ms, from 200 to 230, and from 600 to 1200.
 */
#include "rig.h"
#include <math.h>
#include <stdio.h>

enum { CELL_KEYS = 7, QUEUE = 1024, BUILD_OPS = 60 };
static const double MATCH_NS = 170, START_NS = 2500, BETWEEN_KERNELS_NS = 300,
                    BETWEEN_GRAPHS_NS = 1200, PAUSE_NS = 10000, PAUSES = 0.0005, FAST_NS = 1e9,
                    SLOW_NS = 3e8, PART_NS = 3.3e6, HAND_NS = 200;

struct cell {
    double kernel_us, gap_us;
    int ops, sync;
};

struct machine {
    double noise, slow;
    double gpu_free; /* ns: when the GPU has done all that it was given */
    double changes;  /* ns: when the host's speed does */
    double part_ends;
    double submitter_free; /* ns: when the submitter has launched all that it was given */
    bool is_slow, hands;
    uint64_t seed;
};

static double uniform(struct machine *m)
{
    return (double)(rig_random(&m->seed) % 1000003) / 1000003;
}

static double exponential(struct machine *m)
{
    return -log(1 - uniform(m));
}

/* Launches of the program's thread, or what it hands over: then it waits where the ring is full. */
static void give(struct rig *r, struct machine *m, const struct cell *c, struct rig_given given)
{
    double launches = (double)(given.graphs ? given.graphs : given.ops), launched = (double)r->now;
    double start = m->gpu_free + (given.graphs ? BETWEEN_GRAPHS_NS : BETWEEN_KERNELS_NS);
    if (m->hands) {
        double ns = RIG_LAUNCH_NS * (m->is_slow ? m->slow : 1);
        launched = m->submitter_free = fmax(m->submitter_free, (double)r->now) + launches * ns;
        r->now = (uint64_t)fmax((double)r->now, launched - AG_RING_SLOTS * ns);
    }
    if (given.ops)
        m->gpu_free = fmax(start, launched + START_NS) + (double)given.ops * c->kernel_us * 1000;
}

static void launch(struct rig *r, struct machine *m, const struct cell *c, int op)
{
    if ((double)r->now > m->changes) {
        m->is_slow = !m->is_slow && m->slow > 1;
        m->changes = (double)r->now + exponential(m) * (m->is_slow ? SLOW_NS : FAST_NS);
    }
    double speed = m->is_slow ? m->slow : 1;
    double host = (c->gap_us * 1000 + MATCH_NS) * speed * (1 + m->noise * (2 * uniform(m) - 1));
    if (uniform(m) < PAUSES)
        host += PAUSE_NS * exponential(m);
    r->now += (uint64_t)host;
    uint64_t flushed = r->flushed;
    struct rig_given given = rig_op(r, rig_key(CELL_KEYS, (uint64_t)op));
    r->now += (uint64_t)((double)(given.graphs ? given.graphs : given.ops) * (speed - 1) *
                         (double)r->launch_ns);
    r->now += (r->flushed - flushed) * RIG_LAUNCH_NS;
    give(r, m, c, given);
}

static void step(struct rig *r, struct machine *m, const struct cell *c)
{
    for (int i = 0; i < c->ops; i++)
        launch(r, m, c, i);
    if (c->sync || (double)r->now > m->part_ends) {
        m->part_ends = (double)r->now + PART_NS;
        uint64_t flushed = r->flushed;
        give(r, m, c, rig_sync(r));
        r->now += (r->flushed - flushed) * RIG_LAUNCH_NS;
        r->now = (uint64_t)fmax(m->gpu_free, (double)r->now);
    } else {
        r->now = (uint64_t)fmax((double)r->now, m->gpu_free - QUEUE * c->kernel_us * 1000);
    }
}

/* Microseconds an op from so many ms on until so many. */
static double run(const struct cell *c, const struct machine *how, double from_ms, double to_ms,
                  double *ops_a_launch)
{
    struct rig *r = rig_open(NULL);
    struct machine m = *how;
    double begun = (double)r->now;
    r->gap = 0;
    r->build_delay = BUILD_OPS;
    r->launch_ns = m.hands ? (uint64_t)HAND_NS : RIG_LAUNCH_NS;
    m.changes = begun + exponential(&m) * FAST_NS;
    while ((double)r->now - begun < from_ms * 1e6)
        step(r, &m, c);
    double marked = (double)r->now;
    rig_mark(r);
    uint64_t ops = r->ops;
    while ((double)r->now - begun < to_ms * 1e6)
        step(r, &m, c);
    *ops_a_launch += r->launches > r->mark_launches ? rig_ops_per_launch(r) : 0;
    double us = ((double)r->now - marked) / 1000 / (double)(r->ops - ops);
    rig_close(r);
    return us;
}

static void show(const struct cell *c, int runs, const struct machine *machine)
{
    static const double windows[][2] = {{80, 110}, {200, 230}, {600, 1200}};
    printf("%g:%g:%d:%d", c->kernel_us, c->gap_us, c->ops, c->sync);
    for (size_t w = 0; w < sizeof windows / sizeof *windows; w++) {
        double us = 0, ops_a_launch = 0;
        for (int i = 1; i <= runs; i++) {
            struct machine m = *machine;
            m.seed = (uint64_t)i * 7919 + 3;
            us += run(c, &m, windows[w][0], windows[w][1], &ops_a_launch);
        }
        printf("  %7.3f %5.1f", us / runs, ops_a_launch / runs);
    }
    printf("\n");
}

static void show_all(int runs, const struct machine *machine)
{
    static const double kernels[] = {1, 2, 5, 10, 50, 500}, gaps[] = {0, 1, 3, 5, 10, 50};
    static const int ops[] = {1, 2, 5, 20, 200};
    for (int k = 0; k < 6; k++)
        for (int g = 0; g < 6; g++)
            for (int o = 0; o < 5; o++)
                for (int sync = 1; sync >= 0; sync--)
                    show(&(struct cell){kernels[k], gaps[g], ops[o], sync}, runs, machine);
}

int main(int argc, char **argv)
{
    int runs = argc > 3 ? atoi(argv[1]) : 0;
    if (runs < 1) {
        fprintf(stderr,
                "usage: model_cells RUNS NOISE SLOW [inline|thread] [KERNEL:GAP:OPS:SYNC...]\n");
        return 2;
    }
    struct machine machine = {.noise = atof(argv[2]), .slow = atof(argv[3])};
    int first = 4;
    if (argc > first && (!strcmp(argv[first], "inline") || !strcmp(argv[first], "thread")))
        machine.hands = !strcmp(argv[first++], "thread");
    for (int i = first; i < argc; i++) {
        struct cell c;
        if (sscanf(argv[i], "%lf:%lf:%d:%d", &c.kernel_us, &c.gap_us, &c.ops, &c.sync) != 4) {
            fprintf(stderr, "model_cells: %s is no cell\n", argv[i]);
            return 2;
        }
        show(&c, runs, &machine);
    }
    if (argc == first)
        show_all(runs, &machine);
    return 0;
}
