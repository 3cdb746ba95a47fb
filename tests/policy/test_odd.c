/* test_odd.c - steps with ops that are others in each of them, as a kernel whose grid grows. */
#include "rig.h"

enum { STEPS = 1200, WARM = 400 };

static struct rig *open_rig(void)
{
    struct rig *r = rig_open(NULL);
    r->tells_new = true;
    return r;
}

/* Which of `kinds` odd ops comes at place `k` of `ops`; 0: none. */
static uint32_t odd_at(uint32_t k, uint32_t ops, uint32_t kinds)
{
    for (uint32_t kind = 1; kind <= kinds; kind++)
        if (k == kind * ops / (kinds + 1))
            return kind;
    return 0;
}

static void want(const struct rig *r, double possible, double built, const char *what, uint32_t ops,
                 uint32_t kinds, bool sync)
{
    double replayed = rig_replayed(r);
    if (replayed < possible - 2 || rig_built(r) > built)
        fail_msg("%s: %u ops, %u of them odd, sync %d: replayed %.2f of %.2f, built %.0f", what,
                 ops, kinds, sync, replayed, possible, (double)rig_built(r));
}

/* A loop with `kinds` odd ops in each turn, new ones in every turn or in every third. */
static void loop(uint32_t ops, uint32_t kinds, uint32_t every, bool sync)
{
    struct rig *r = open_rig();
    uint64_t seed = ops + kinds;
    for (uint32_t step = 0; step < STEPS; step++) {
        if (step == WARM)
            rig_mark(r);
        for (uint32_t k = 0; k < ops; k++)
            rig_op(r, step % every == 0 && odd_at(k, ops, kinds) ? rig_random(&seed) | 1
                                                                 : rig_key(1, k));
        if (sync)
            rig_sync(r);
    }
    want(r, 100.0 - 100.0 * kinds / (ops * every), 10, "loop", ops, kinds, sync);
    rig_close(r);
}

static void test_loops(void **state)
{
    static const uint32_t lengths[] = {6, 10, 12, 20, 60, 200};
    (void)state;
    for (uint32_t i = 0; i < 6; i++)
        for (int sync = 0; sync < 2; sync++)
            for (uint32_t kinds = 1; kinds * 6 <= lengths[i] && kinds < 4; kinds++) {
                loop(lengths[i], kinds, 1, sync);
                if (kinds == 1)
                    loop(lengths[i], kinds, 3, sync);
            }
}

/* The first `news` ops of each step are new ones. `turn`: the others are a loop of so many; 0: they
 * are none. */
static void at_the_beginning(uint32_t ops, uint32_t news, uint32_t turn, uint32_t steps_a_sync)
{
    struct rig *r = open_rig();
    uint64_t seed = ops;
    for (uint32_t step = 0; step < STEPS; step++) {
        if (step == WARM)
            rig_mark(r);
        for (uint32_t k = 0; k < ops; k++)
            rig_op(r, k < news ? rig_random(&seed) | 1 : rig_key(1, turn ? (k - news) % turn : k));
        for (uint32_t i = 0; i < 2 && step % steps_a_sync == 0; i++)
            rig_sync(r); /* a wait, and the end of a module, say */
    }
    want(r, 100.0 - 100.0 * news / ops, 10, turn ? "in front of a loop" : "at the beginning", ops,
         news, steps_a_sync == 1);
    rig_close(r);
}

static void test_at_the_beginning(void **state)
{
    static const uint32_t lengths[] = {14, 15, 26, 30, 42, 102}, news[] = {2, 3, 2, 6, 2, 2};
    (void)state;
    for (uint32_t i = 0; i < 6; i++)
        for (uint32_t turn = 0; turn < 5; turn += 2) {
            at_the_beginning(lengths[i], news[i], turn, 1);
            at_the_beginning(lengths[i], 1, turn, 1);
            at_the_beginning(lengths[i], 1, turn, 5);
        }
}

/* Several new ops in a row between `front` and `back` others. */
static void in_the_middle(uint32_t front, uint32_t news, uint32_t back)
{
    struct rig *r = open_rig();
    uint64_t seed = front;
    for (uint32_t step = 0; step < STEPS; step++) {
        if (step == WARM)
            rig_mark(r);
        for (uint32_t k = 0; k < front + news + back; k++)
            rig_op(r, k >= front && k < front + news ? rig_random(&seed) | 1 : rig_key(1, k));
        rig_sync(r);
    }
    want(r, 100.0 - 100.0 * news / (front + news + back), 10, "in the middle", front + news + back,
         news, true);
    rig_close(r);
}

static void test_in_the_middle(void **state)
{
    (void)state;
    in_the_middle(4, 3, 15);
    in_the_middle(8, 3, 15);
    in_the_middle(14, 3, 27);
    in_the_middle(14, 2, 27);
}

/* New ops, and then so many times `ops` others and a wait. */
static void several_waits(uint32_t news, uint32_t ops, uint32_t waits)
{
    struct rig *r = open_rig();
    uint64_t seed = ops;
    for (uint32_t step = 0; step < STEPS; step++) {
        if (step == WARM)
            rig_mark(r);
        for (uint32_t k = 0; k < news; k++)
            rig_op(r, rig_random(&seed) | 1);
        for (uint32_t k = 0; k < waits * ops; k++) {
            rig_op(r, rig_key(1, k));
            if (k % ops == ops - 1)
                rig_sync(r);
        }
    }
    uint32_t all = news + waits * ops;
    want(r, 100.0 - 100.0 * news / all, 10, "several waits", all, news, true);
    rig_close(r);
}

static void test_several_waits(void **state)
{
    (void)state;
    several_waits(1, 62, 2);
    several_waits(2, 62, 2);
    several_waits(2, 12, 2);
    several_waits(3, 20, 3);
    several_waits(1, 20, 4);
    several_waits(3, 12, AG_ODD_ROWS);
}

/* A step is made of parts: one of so many known ops in turn, new ops, and known ones. */
struct part {
    uint32_t in_turn, news, known;
};

static void of_parts(const struct part *parts, uint32_t num, bool sync)
{
    struct rig *r = open_rig();
    uint64_t seed = num;
    uint32_t all = 0, news = 0;
    for (uint32_t step = 0; step < 2 * STEPS; step++) {
        if (step == WARM)
            rig_mark(r);
        for (uint32_t i = 0; i < num; i++) {
            if (parts[i].in_turn)
                rig_op(r, rig_key(50 + i, step % parts[i].in_turn));
            for (uint32_t k = 0; k < parts[i].news; k++)
                rig_op(r, rig_random(&seed) | 1);
            for (uint32_t k = 0; k < parts[i].known; k++)
                rig_op(r, rig_key(1 + i, k));
        }
        if (sync)
            rig_sync(r);
    }
    for (uint32_t i = 0; i < num; i++) {
        all += (parts[i].in_turn > 0) + parts[i].news + parts[i].known;
        news += (parts[i].in_turn > 0) + parts[i].news;
    }
    want(r, 100.0 - 100.0 * news / all, 200, "parts", all, news, sync);
    rig_close(r);
}

#define OF_PARTS(sync, ...)                                                                        \
    of_parts((struct part[]){__VA_ARGS__},                                                         \
             sizeof((struct part[]){__VA_ARGS__}) / sizeof(struct part), sync)

/* Too few known ops come in front of a new one, or between two, to say anything. */
static void test_few_known_ops(void **state)
{
    (void)state;
    OF_PARTS(true, {.in_turn = 7}, {.news = 1, .known = 20});
    OF_PARTS(true, {.in_turn = 2}, {.news = 1, .known = 20});
    OF_PARTS(false, {.known = 60}, {.news = 1, .known = 1}, {.news = 1});
    OF_PARTS(false, {.known = 60}, {.news = 1, .known = 2}, {.news = 1});
}

static void test_rows_of_different_lengths(void **state)
{
    (void)state;
    for (int sync = 0; sync < 2; sync++)
        OF_PARTS(sync, {.known = 20}, {.news = 1, .known = 20}, {.news = 2, .known = 20});
    OF_PARTS(true, {.known = 20}, {.news = 1, .known = 20}, {.news = 2, .known = 20},
             {.news = 3, .known = 20});
}

static void test_the_shortest_parts(void **state)
{
    (void)state;
    OF_PARTS(true, {.known = AG_PART_OPS}, {.news = 1, .known = AG_PART_OPS},
             {.news = 1, .known = 20});
}

/* A loop without waits, in which one kernel is another one now and then. */
static void test_loops_that_change(void **state)
{
    enum { TURNS = 2400, EACH = 200, PLACES = 8, BEFORE = 9, BEHIND = 5 };
    struct rig *r = open_rig();
    (void)state;
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        if (turn == WARM)
            rig_mark(r);
        for (uint32_t k = 0; k < PLACES * (BEFORE + 1 + BEHIND); k++) {
            bool changes = k % (BEFORE + 1 + BEHIND) == BEFORE;
            rig_op(r, changes ? rig_key(100, turn / EACH) : rig_key(1, k));
        }
    }
    want(r, 98, 200, "a loop that changes", PLACES * (BEFORE + 1 + BEHIND), PLACES, false);
    rig_close(r);
}

/* After so many steps come new ops, or mostly new ones, between the waits of each step. */
static void phases(uint32_t ops, uint32_t waits, uint32_t known, uint32_t steps)
{
    struct rig *r = open_rig();
    for (uint32_t step = 0; step < STEPS; step++) {
        if (step == WARM)
            rig_mark(r);
        for (uint32_t k = 0; k < ops * waits; k++) {
            rig_op(r, k % ops + known >= ops ? rig_key(1, k) : rig_key(100 + step / steps, k));
            if (k % ops == ops - 1)
                rig_sync(r);
        }
    }
    want(r, 100.0 - 200.0 / steps, 1000, "phases", ops, waits, true);
    rig_close(r);
}

static void test_phases(void **state)
{
    (void)state;
    for (uint32_t waits = 1; waits <= 3; waits++)
        for (uint32_t known = 0; known < 2; known++)
            phases(5, waits, known, 16);
    phases(10, 3, 7, 200);
}

/* Behind a few steps of another kind, which end like them, come steps that begin with a new op. */
static void test_behind_others_with_the_same_end(void **state)
{
    static const uint32_t bodies[] = {30, 50, 60, 100};
    enum { OTHERS = 4, END = 8 };
    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        struct rig *r = open_rig();
        uint64_t seed = i;
        for (uint32_t step = 0; step < STEPS; step++) {
            if (step == WARM)
                rig_mark(r);
            rig_op(r, rig_random(&seed) | 1);
            for (uint32_t k = 0; k < bodies[i]; k++)
                rig_op(r, rig_key(step < OTHERS ? 2 : 1, k));
            for (uint32_t k = 0; k < END; k++)
                rig_op(r, rig_key(3, 0));
            rig_sync(r);
        }
        want(r, 100.0 - 100.0 / (1 + bodies[i] + END), 10, "behind others", 1 + bodies[i] + END, 1,
             true);
        rig_close(r);
    }
}

/* A model of several layers: in each step the odd ops of all layers are the same, and other ones
 * than in the step before. */
static void layers(uint32_t layers, uint32_t ops, uint32_t kinds, bool sync)
{
    struct rig *r = open_rig();
    uint32_t all = layers * ops + 5;
    for (uint32_t step = 0; step < STEPS / 2; step++) {
        if (step == WARM / 2)
            rig_mark(r);
        for (uint32_t i = 0; i < layers * ops; i++) {
            uint32_t odd = odd_at(i % ops, ops, kinds);
            rig_op(r, odd ? rig_key(10 + odd, step) : rig_key(1, i % ops));
        }
        for (uint32_t i = 0; i < 5; i++)
            rig_op(r, rig_key(3, i));
        if (sync)
            rig_sync(r);
    }
    want(r, 100.0 * (all - layers * kinds) / all, 40, "layers", ops, kinds, sync);
    rig_close(r);
}

static void test_layers(void **state)
{
    (void)state;
    for (int sync = 0; sync < 2; sync++) {
        layers(2, 20, 1, sync);
        layers(6, 10, 1, sync);
        layers(6, 20, 2, sync);
        layers(24, 10, 1, sync);
        layers(24, 10, 2, sync);
        layers(24, 20, 3, sync);
    }
}

/* The GPU is idle behind a sync, even if an odd op came right before that, and not behind an odd
 * op.
 */
static void test_keeps_the_gpu_busy(void **state)
{
    (void)state;
    for (uint32_t at = 10; at < 20; at += 9) {
        struct rig *r = open_rig();
        uint64_t awaited = 0;
        for (uint32_t step = 0; step < STEPS; step++) {
            if (step == WARM)
                awaited = r->awaited;
            for (uint32_t k = 0; k < 20; k++)
                rig_op(r, k == at ? rig_key(2, step) : rig_key(1, k));
            rig_sync(r);
        }
        rig_at_most((double)(r->awaited - awaited), STEPS - WARM);
        rig_at_least((double)(r->awaited - awaited), STEPS - WARM - 40); /* trials */
        rig_close(r);
    }
}

/* An inner loop, and an odd op in each turn of the outer one. */
static void test_outside_of_a_loop(void **state)
{
    (void)state;
    for (int sync = 0; sync < 2; sync++) {
        struct rig *r = open_rig();
        for (uint32_t step = 0; step < STEPS; step++) {
            if (step == WARM)
                rig_mark(r);
            for (uint32_t k = 0; k < 10; k++)
                rig_op(r, k == 5 ? rig_key(2, step) : rig_key(1, k));
            for (uint32_t k = 0; k < 30; k++)
                rig_op(r, rig_key(4, k % 3));
            if (sync)
                rig_sync(r);
        }
        want(r, 97.5, 10, "inner loop", 40, 1, sync);
        rig_close(r);
    }
}

/* Behind a time with odd ops the program turns to other work, all of which is new. It is replayed
 * as soon as any. */
static void test_new_work(void **state)
{
    (void)state;
    struct rig *r = open_rig();
    for (uint32_t step = 0; step < 3 * 300; step++) {
        uint32_t work = step / 300;
        if (step % 300 == 8)
            rig_mark(r);
        for (uint32_t k = 0; k < 40; k++)
            rig_op(r, k == 17 && step % 300 < 4 ? rig_key(9, step) : rig_key(20 + work, k));
        rig_sync(r);
        if (step % 300 == 299)
            rig_at_least(rig_replayed(r), 97);
    }
    rig_close(r);
}

/* Late in a stream's life a new op comes to stay, where another was odd a short time before. It is
 * an op of the step before long. */
static void test_stays(void **state)
{
    (void)state;
    struct rig *r = open_rig();
    for (uint32_t step = 0; step < 5000; step++) {
        if (step == 4900)
            rig_mark(r);
        for (uint32_t k = 0; k < 40; k++) {
            bool new = k == 17 && step >= 3998;
            rig_op(r, new ? rig_key(9, step < 4000 ? step : 0) : rig_key(1, k));
        }
        rig_sync(r);
    }
    rig_at_least(rig_replayed(r), 98.5);
    rig_close(r);
}

/* An odd op behind each nine ops of a step, another one every so many steps. Where it changes
 * rarely, the step is replayed as a whole but for the first turns behind each change. */
static void changes(uint32_t every, uint32_t waits, double least)
{
    enum { LAYERS = 12, OPS = 10 };
    struct rig *r = open_rig();
    for (uint32_t step = 0; step < STEPS; step++) {
        if (step == WARM)
            rig_mark(r);
        for (uint32_t layer = 1; layer <= LAYERS; layer++) {
            for (uint32_t k = 1; k < OPS; k++)
                rig_op(r, rig_key(1, k));
            rig_op(r, rig_key(2, step / every));
            if (layer % (LAYERS / waits) == 0)
                rig_sync(r);
        }
    }
    double replayed = rig_replayed(r);
    if (replayed < least)
        fail_msg("a change every %u steps, %u waits a step: replayed %.2f of %.2f", every, waits,
                 replayed, least);
    rig_close(r);
}

static void test_changes(void **state)
{
    (void)state;
    for (uint32_t every = 1; every <= 16; every *= 2)
        changes(every, 1, 89.5);
    changes(32, 1, 85);
    for (uint32_t every = 1; every <= 8; every *= 2)
        changes(every, 3, 89.5);
    changes(100, 1, 92);
    changes(100, 3, 97);
}

/* The report names them. */
static void test_told(void **state)
{
    (void)state;
    struct rig *r = open_rig();
    uint32_t told = 0;
    for (uint32_t step = 0; step < 100; step++)
        for (uint32_t k = 0; k < 10; k++) {
            rig_op(r, k == 5 ? rig_key(2, step) : rig_key(1, k));
            told += step >= 50 && ag_policy_why_eager(&r->engine.policy) == AG_WHY_ODD;
        }
    assert_int_equal(told, 50);
    rig_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loops),
        cmocka_unit_test(test_at_the_beginning),
        cmocka_unit_test(test_in_the_middle),
        cmocka_unit_test(test_several_waits),
        cmocka_unit_test(test_few_known_ops),
        cmocka_unit_test(test_rows_of_different_lengths),
        cmocka_unit_test(test_the_shortest_parts),
        cmocka_unit_test(test_loops_that_change),
        cmocka_unit_test(test_phases),
        cmocka_unit_test(test_behind_others_with_the_same_end),
        cmocka_unit_test(test_layers),
        cmocka_unit_test(test_keeps_the_gpu_busy),
        cmocka_unit_test(test_outside_of_a_loop),
        cmocka_unit_test(test_new_work),
        cmocka_unit_test(test_changes),
        cmocka_unit_test(test_told),
        cmocka_unit_test(test_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
