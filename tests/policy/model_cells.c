/*
 * model_cells - microseconds an op in a model of the matrix' cells (tests/gpu/matrix), without a
 * GPU: what a change of the policy does to learning, to trials and to what comes of them, and to
 * who makes the launches.
 *
 *     model_cells RUNS NOISE SLOW [inline|thread|auto] [KERNEL:GAP:OPS:SYNC[:SHARE]...]
 *
 * A host and a GPU whose speeds are set: the host works GAP us between two launches, by up to NOISE
 * (0.1: a tenth) more or less, with pauses of some 10 us now and then, and goes SLOW times as slow
 * for 0.3 s of 1.3 (1: never). A launch, eager or of a graph, takes it RIG_LAUNCH_NS and a sync
 * RIG_SYNC_NS; each op that is flushed by itself takes a launch. The GPU begins 2.5 us after a
 * launch, and takes 1.2 us between two graphs (an H200, in round figures). As in the matrix, the
 * host syncs every 3.3 ms in any case.
 *
 * With `thread` and `auto` a submitter makes launches, as AUTOGRAPH_SUBMIT says. It takes them out
 * of a ring of the library's (policy/ring.h), and what goes in and when it looks, naps and sleeps
 * is decided as there (policy/submit.h), in the model's time.
 *
 * For each cell: the mean of RUNS seeds, and ops a launch (0: no graph), from 80 to 110 ms, from
 * 200 to 230, and from 600 to 1200; and for the last what share is saved of the time that eager
 * launches would cost over launches that cost the host nothing. Exit 1: a share is lower than
 * SHARE.
 */
#include "rig.h"
#include "policy/submit.h"
#include <math.h>
#include <stdio.h>

enum { CELL_KEYS = 7, QUEUE = 1024, BUILD_OPS = 60, ARGUMENTS = 64 };
enum { MATCH_NS = 170, HAND_NS = 200, WAKE_NS = 4000, LATE_NS = 7000 };
static const double START_NS = 2500, BETWEEN_KERNELS_NS = 300, BETWEEN_GRAPHS_NS = 1200,
                    PAUSE_NS = 10000, PAUSES = 0.0005, FAST_NS = 1e9, SLOW_NS = 3e8,
                    PART_NS = 3.3e6;

/* Who makes the launches. The last two are without the library: eager ones, and for nothing. */
enum way { INLINE, THREAD, AUTO, EAGER, FREE };

struct cell {
    double kernel_us, gap_us, share;
    int ops, sync;
};

struct machine {
    double noise, slow;
    enum way way;
    const struct cell *cell;
    double gpu_free; /* ns: when the GPU has done all that it was given */
    double changes;  /* ns: when the host's speed does */
    double part_ends;
    bool is_slow;
    uint64_t seed, ops;
    struct ag_pairs pairs;
    struct ag_ring ring;
    /* the submitter: what it does until `at` (ns) is known, and then it launches `slot`, or its nap
     * ends */
    enum ag_submitter_state state;
    uint64_t at;
    const struct ag_ring_slot *slot;
    struct ag_submit_pace pace;
    bool last_comes;
};

static double uniform(struct machine *m)
{
    return (double)(rig_random(&m->seed) % 1000003) / 1000003;
}

static double exponential(struct machine *m)
{
    return -log(1 - uniform(m));
}

static uint64_t launch_ns(const struct machine *m)
{
    return m->way == FREE ? 0 : (uint64_t)(RIG_LAUNCH_NS * (m->is_slow ? m->slow : 1));
}

static void gpu_gets(struct machine *m, bool graph, uint32_t ops, uint64_t launched)
{
    double start = m->gpu_free + (graph ? BETWEEN_GRAPHS_NS : BETWEEN_KERNELS_NS);
    m->gpu_free = fmax(start, (double)launched + START_NS) + ops * m->cell->kernel_us * 1000;
}

static void took(struct machine *m, const struct ag_ring_slot *slot, uint64_t now)
{
    gpu_gets(m, slot->graphs, slot->ops, now);
    ag_ring_took(&m->ring, slot);
}

/* ---- the submitter ------------------------------------------------------------------------ */

/* It has found nothing more. */
static void rests(struct machine *m, uint64_t until)
{
    if (m->ring.work != m->pace.work)
        ag_submit_found(&m->pace, m->ring.work, m->at);
    uint64_t looks = ag_submit_until(&m->pace, m->last_comes);
    if (ag_submit_sleeps(&m->pace)) {
        m->state = AG_SUBMITTER_ASLEEP;
    } else if (looks > until) {
        m->at = until + 1;
    } else {
        m->state = AG_SUBMITTER_NAPS;
        m->at = (looks > m->at ? looks : m->at) + m->pace.nap + LATE_NS;
    }
}

static void submitter_runs(struct machine *m, uint64_t until)
{
    while (m->state != AG_SUBMITTER_ASLEEP && m->at <= until) {
        if (m->state == AG_SUBMITTER_NAPS)
            ag_submit_napped(&m->pace, m->at);
        m->state = AG_SUBMITTER_AWAKE;
        if (m->slot)
            took(m, m->slot, m->at);
        m->slot = ag_ring_next(&m->ring);
        if (m->slot) {
            ag_ring_take_role(&m->ring);
            m->at += launch_ns(m);
        } else {
            ag_ring_give_role(&m->ring);
            rests(m, until);
        }
    }
}

/* ---- the program's thread ----------------------------------------------------------------- */

static bool is_wanted(const struct rig *r, struct machine *m)
{
    struct ag_policy *p = ag_engine_policy(&r->engine);
    if (m->way != AUTO)
        return m->way == THREAD;
    return ag_submit_may_gain(&m->pairs, p, true) &&
           ag_submit_is_wanted(&m->pairs, p, false, r->now);
}

static bool is_far_ahead(const struct rig *r, struct machine *m, uint32_t ops)
{
    double behind = fmax(0, m->gpu_free - (double)r->now) / (m->cell->kernel_us * 1000);
    return ag_submit_is_far_ahead((uint32_t)behind, ops + ag_ring_held_ops(&m->ring));
}

static bool puts_chunk(struct rig *r, struct machine *m, const struct ag_chunk *chunk)
{
    static const uint8_t arguments[AG_RING_BYTES];
    uint32_t ops = chunk->count, behind = ag_chunk_behind(chunk);
    bool awaited = ag_policy_awaited(ag_engine_policy(&r->engine), chunk);
    if (is_far_ahead(r, m, ops))
        return false;
    m->last_comes = ag_submit_last_comes(behind);
    struct ag_submit_offer offer = ag_submit_chunk(awaited, behind, m->pairs.tries);
    return ag_submit_takes(&m->ring, offer, m->state, m->way == AUTO) &&
           ag_ring_put(&m->ring, m, ops, arguments, ops * ARGUMENTS);
}

static bool puts_op(const struct rig *r, struct machine *m)
{
    struct ag_submit_offer offer = {.single = true};
    if ((m->way == AUTO && !ag_submit_gains_by_ops(ag_policy_gap(ag_engine_policy(&r->engine)))) ||
        !ag_submit_takes(&m->ring, offer, m->state, m->way == AUTO) ||
        !ag_ring_op_room(&m->ring, ARGUMENTS))
        return false;
    ag_ring_put_op(&m->ring, 1);
    return true;
}

static bool hands(struct rig *r, struct machine *m, const struct ag_chunk *chunk)
{
    if (!is_wanted(r, m) || !(chunk ? puts_chunk(r, m, chunk) : puts_op(r, m)))
        return false;
    r->now += HAND_NS;
    if (ag_submit_must_wake(&m->ring, !chunk, m->state)) {
        r->now += WAKE_NS;
        m->state = AG_SUBMITTER_AWAKE;
        m->at = r->now + LATE_NS;
        ag_submit_woken(&m->pace, m->at);
    }
    return true;
}

/* Waits for the submitter if that is at it, and does the rest. */
static void settle(struct rig *r, struct machine *m)
{
    submitter_runs(m, r->now);
    while (!ag_ring_is_at_rest(&m->ring)) {
        if (m->slot) {
            r->now = m->at;
            submitter_runs(m, r->now);
        } else {
            r->now += launch_ns(m);
            took(m, ag_ring_next(&m->ring), r->now);
        }
    }
    m->last_comes = m->last_comes && !m->ring.active;
    m->ring.active = false;
}

/* Makes the launch, or hands it over. What is flushed because somebody asked is not handed over,
 * nor is a graph that is launched in a flush. */
static void launch(struct rig *r, const struct ag_chunk *chunk)
{
    struct machine *m = r->world;
    submitter_runs(m, r->now);
    if (!(r->flushing && (chunk || r->why != AG_ENGINE_DEPARTED)) && hands(r, m, chunk))
        return;
    settle(r, m);
    r->now += launch_ns(m);
    gpu_gets(m, chunk, chunk ? chunk->count : 1, r->now);
}

static void op(struct rig *r, struct machine *m, int number)
{
    if ((double)r->now > m->changes) {
        m->is_slow = !m->is_slow && m->slow > 1;
        m->changes = (double)r->now + exponential(m) * (m->is_slow ? SLOW_NS : FAST_NS);
    }
    bool with = m->way < EAGER;
    double host = (m->cell->gap_us * 1000 + (with ? MATCH_NS : 0)) * (m->is_slow ? m->slow : 1) *
                  (1 + m->noise * (2 * uniform(m) - 1));
    if (uniform(m) < PAUSES)
        host += PAUSE_NS * exponential(m);
    r->now += (uint64_t)host;
    m->ops++;
    if (with)
        rig_op(r, rig_key(CELL_KEYS, (uint64_t)number));
    else
        launch(r, NULL);
}

static void step(struct rig *r, struct machine *m)
{
    for (int i = 0; i < m->cell->ops; i++)
        op(r, m, i);
    if (m->cell->sync || (double)r->now > m->part_ends) {
        m->part_ends = (double)r->now + PART_NS;
        rig_sync(r);
        settle(r, m);
        r->now = (uint64_t)fmax(m->gpu_free, (double)r->now);
    } else {
        r->now = (uint64_t)fmax((double)r->now, m->gpu_free - QUEUE * m->cell->kernel_us * 1000);
    }
}

/* Microseconds an op from so many ms on until so many. */
static double run(const struct machine *how, double from_ms, double to_ms, double *ops_a_launch)
{
    struct rig *r = rig_open(NULL);
    struct machine m = *how;
    double begun = (double)r->now;
    r->gap = 0;
    r->build_delay = BUILD_OPS;
    r->launch = launch;
    r->world = &m;
    m.state = AG_SUBMITTER_AWAKE;
    ag_submit_woken(&m.pace, m.at = r->now);
    m.changes = begun + exponential(&m) * FAST_NS;
    while ((double)r->now - begun < from_ms * 1e6)
        step(r, &m);
    double marked = (double)r->now;
    rig_mark(r);
    uint64_t ops = m.ops;
    while ((double)r->now - begun < to_ms * 1e6)
        step(r, &m);
    *ops_a_launch += r->launches > r->mark_launches ? rig_ops_per_launch(r) : 0;
    double us = ((double)r->now - marked) / 1000 / (double)(m.ops - ops);
    rig_close(r);
    free(m.ring.bytes);
    return us;
}

static double mean(int runs, const struct machine *machine, const double *ms, double *ops_a_launch)
{
    double us = 0;
    *ops_a_launch = 0;
    for (int i = 1; i <= runs; i++) {
        struct machine m = *machine;
        m.seed = (uint64_t)i * 7919 + 3;
        us += run(&m, ms[0], ms[1], ops_a_launch) / runs;
    }
    *ops_a_launch /= runs;
    return us;
}

/* Whether the cell saves what it should. */
static bool show(const struct cell *c, int runs, const struct machine *machine)
{
    static const double windows[][2] = {{80, 110}, {200, 230}, {600, 1200}};
    struct machine m = *machine, eager = m, nothing = m;
    double us = 0, ops_a_launch;
    m.cell = eager.cell = nothing.cell = c;
    eager.way = EAGER;
    nothing.way = FREE;
    printf("%g:%g:%d:%d", c->kernel_us, c->gap_us, c->ops, c->sync);
    for (size_t w = 0; w < sizeof windows / sizeof *windows; w++) {
        us = mean(runs, &m, windows[w], &ops_a_launch);
        printf("  %7.3f %5.1f", us, ops_a_launch);
    }
    double with = mean(runs, &eager, windows[2], &ops_a_launch);
    double least = mean(runs, &nothing, windows[2], &ops_a_launch);
    double share = 100 * (with - us) / (with - least);
    printf("  %5.1f %%%s\n", share, share < c->share ? ", which is too little" : "");
    return share >= c->share;
}

static void show_all(int runs, const struct machine *machine)
{
    static const double kernels[] = {1, 2, 5, 10, 50, 500}, gaps[] = {0, 1, 3, 5, 10, 50};
    static const int ops[] = {1, 2, 5, 20, 200};
    for (int k = 0; k < 6; k++)
        for (int g = 0; g < 6; g++)
            for (int o = 0; o < 5; o++)
                for (int sync = 1; sync >= 0; sync--)
                    show(&(struct cell){kernels[k], gaps[g], -INFINITY, ops[o], sync}, runs,
                         machine);
}

int main(int argc, char **argv)
{
    static const char *const ways[] = {"inline", "thread", "auto"};
    int runs = argc > 3 ? atoi(argv[1]) : 0;
    if (runs < 1) {
        fprintf(stderr, "usage: model_cells RUNS NOISE SLOW [inline|thread|auto] "
                        "[KERNEL:GAP:OPS:SYNC[:SHARE]...]\n");
        return 2;
    }
    struct machine machine = {.noise = atof(argv[2]), .slow = atof(argv[3])};
    int first = 4;
    for (int way = AUTO; way >= INLINE && argc > 4 && first == 4; way--)
        if (!strcmp(argv[4], ways[way])) {
            machine.way = (enum way)way;
            first = 5;
        }
    bool enough = true;
    for (int i = first; i < argc; i++) {
        struct cell c = {.share = -INFINITY};
        if (sscanf(argv[i], "%lf:%lf:%d:%d:%lf", &c.kernel_us, &c.gap_us, &c.ops, &c.sync,
                   &c.share) < 4) {
            fprintf(stderr, "model_cells: %s is no cell\n", argv[i]);
            return 2;
        }
        enough = show(&c, runs, &machine) && enough;
    }
    if (argc == first)
        show_all(runs, &machine);
    return !enough;
}
