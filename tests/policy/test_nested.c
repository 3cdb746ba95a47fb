/* test_nested.c - loops in loops: an inner loop some times, then a tail, with and without a sync.
 */
#include "rig.h"

enum { SEEDS = 8 };

struct signature {
    uint32_t inner, tail, least, most; /* the inner loop runs least to most times */
    bool sync;
};

static void nested(struct signature n, uint64_t seed, double least)
{
    struct rig *r = rig_open(NULL);
    uint32_t steps = 60000 / (n.inner * (n.least + n.most) / 2 + n.tail) + 20;
    for (uint32_t step = 0; step < steps; step++) {
        if (step == steps / 5)
            rig_mark(r);
        uint32_t times = n.least + rig_random(&seed) % (n.most - n.least + 1);
        for (uint32_t i = 0; i < times * n.inner; i++)
            rig_op(r, rig_key(1, i % n.inner));
        for (uint32_t i = 0; i < n.tail; i++)
            rig_op(r, rig_key(2, i));
        if (n.sync)
            rig_sync(r);
    }
    double replayed = rig_replayed(r), flushed = rig_flushed(r);
    if (replayed < least || flushed > 5)
        fail_msg("inner %u x %u..%u, tail %u, sync %d: replayed %.2f, flushed %.2f", n.inner,
                 n.least, n.most, n.tail, n.sync, replayed, flushed);
    rig_close(r);
}

static void test_fixed_count(void **state)
{
    (void)state;
    for (int sync = 0; sync < 2; sync++)
        for (uint32_t inner = 1; inner <= 40; inner = inner * 2 + 1)
            for (uint32_t times = 2; times <= 50; times = times * 2 + 1)
                for (uint32_t tail = 1; tail <= 30; tail = tail * 3 + 1)
                    nested((struct signature){inner, tail, times, times, sync}, 1, 95);
}

static void test_random_count(void **state)
{
    (void)state;
    for (int run = 0; run < 2 * SEEDS; run++) {
        bool sync = run % 2;
        uint64_t seed = (uint64_t)run / 2 + 1;
        nested((struct signature){3, 5, 5, 40, sync}, seed, 90);
        nested((struct signature){2, 4, 3, 12, sync}, seed, 90);
        nested((struct signature){12, 7, 2, 9, sync}, seed, 90);
        nested((struct signature){5, 20, 10, 60, sync}, seed, sync ? 90 : 85);
        nested((struct signature){30, 3, 1, 5, sync}, seed, 90);
        nested((struct signature){109, 40, 2, 6, sync}, seed, 90);
        nested((struct signature){20, 10, 5, 200, sync}, seed, 90);
    }
}

/* Three levels. */
static void test_deep(void **state)
{
    (void)state;
    for (int sync = 0; sync < 2; sync++) {
        struct rig *r = rig_open(NULL);
        for (int step = 0; step < 150; step++) {
            if (step == 20)
                rig_mark(r);
            for (int i = 0; i < 6; i++) {
                for (int k = 0; k < 9 * 4; k++)
                    rig_op(r, rig_key(1, k % 4));
                rig_op(r, rig_key(2, 0));
                rig_op(r, rig_key(2, 1));
            }
            for (int k = 0; k < 11; k++)
                rig_op(r, rig_key(3, k));
            if (sync)
                rig_sync(r);
        }
        rig_at_least(rig_replayed(r), 95);
        rig_at_most(rig_flushed(r), 1);
        rig_close(r);
    }
}

/* Some ops: a layer, or what comes before and behind the layers. */
static void part(struct rig *r, uint64_t family, uint32_t len)
{
    for (uint32_t i = 0; i < len; i++)
        rig_op(r, rig_key(family, i));
}

static void training_step(struct rig *r, uint32_t more)
{
    part(r, 1, 8);
    for (int layer = 0; layer < 12; layer++)
        part(r, 2, 17);
    part(r, 3, 10);
    for (int layer = 0; layer < 12; layer++)
        part(r, 4, 27);
    part(r, 5, more);
    part(r, 6, 60);
}

/* Training: layers forth and back, ten steps from sync to sync. Each tenth step, by chance, has an
 * op more. No segment of ten steps becomes a sequence with graphs of its own. */
static void test_long_steps(void **state)
{
    (void)state;
    for (uint64_t gap = 3000; gap <= 30000; gap *= 10) {
        struct rig *r = rig_open(NULL);
        uint64_t seed = 5;
        r->gap = gap;
        r->build_delay = 20;
        for (int step = 0; step < 400; step++) {
            training_step(r, rig_random(&seed) % 10 == 0);
            if (step % 10 == 9) {
                part(r, 7, 3);
                rig_sync(r);
            }
        }
        rig_at_least(100 * (double)r->replayed / (double)r->ops, 96);
        rig_at_most((double)r->graphs_built, 1000);
        rig_close(r);
    }
}

/* The same on a host whose pace differs from step to step, so that loops are lost now and then: no
 * segment of ten steps gets graphs either if its steps are followed in two parts. */
static void test_long_steps_unevenly(void **state)
{
    (void)state;
    for (uint64_t first = 1; first <= 30; first++) {
        struct rig *r = rig_open(NULL);
        uint64_t seed = first * 7919 + 3;
        r->build_delay = 20;
        for (int step = 0; step < 400; step++) {
            r->gap = 50 * (50 + rig_random(&seed) % 100);
            training_step(r, rig_random(&seed) % 10 == 0);
            if (step % 10 == 9) {
                part(r, 7, 3);
                rig_sync(r);
            }
        }
        rig_at_most((double)r->graphs_built, 1500);
        rig_close(r);
    }
}

/* A slow host's pace wanders about one at which chunks of two and of four ops are planned. The
 * steps are not cut anew each time. */
static void test_wandering_pace(void **state)
{
    (void)state;
    struct rig *r = rig_open(NULL);
    uint64_t seed = 5;
    r->build_delay = 20;
    for (int step = 0; step < 400; step++) {
        uint64_t pace = step / 3 % 2 ? 90000 : 60000;
        for (int i = 0; i < 32; i++) {
            r->gap = pace * (50 + rig_random(&seed) % 100) / 100;
            part(r, 100 + (uint64_t)i, 19);
        }
        rig_sync(r);
    }
    rig_at_least(100 * (double)r->replayed / (double)r->ops, 97);
    rig_at_most((double)r->graphs_built, 800);
    rig_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fixed_count),
        cmocka_unit_test(test_random_count),
        cmocka_unit_test(test_deep),
        cmocka_unit_test(test_long_steps),
        cmocka_unit_test(test_long_steps_unevenly),
        cmocka_unit_test(test_wandering_pace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
