/* test_steps.c - steps that end in a sync: replayed from the third or fourth on, whatever their
 * length. */
#include "rig.h"

static void steps_of(uint32_t len, uint32_t delay)
{
    struct rig *r = rig_open(NULL);
    ag_key *keys = malloc(len * sizeof(*keys));
    uint32_t steps = len > 1000 ? 12 : 200;
    r->build_delay = delay;
    rig_keys(keys, len, len);
    for (uint32_t i = 0; i < steps; i++) {
        if (i == (delay ? 5 : 4))
            rig_mark(r);
        rig_run(r, keys, len);
        rig_sync(r);
    }
    /* the fourth step at the latest (or the first that finds its graph built) */
    if (!delay)
        rig_at_most((double)r->first_replay, 4.0 * len);
    rig_at_least(rig_replayed(r), 99);
    rig_at_most(rig_flushed(r), 0);
    rig_at_most(rig_built(r), len / 4.0 + 8); /* cut anew at most once */
    free(keys);
    rig_close(r);
}

static void test_lengths(void **state)
{
    static const uint32_t lengths[] = {1, 2, 3, 5, 20, 130, 1000, 10000};
    (void)state;
    for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++)
        steps_of(lengths[i], 0);
}

static void test_builder_takes_a_while(void **state)
{
    static const uint32_t lengths[] = {20, 130, 1000, 10000};
    (void)state;
    for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++)
        steps_of(lengths[i], lengths[i] / 2);
}

/* The same kernel over and over within a step: the step is what repeats, and its end is known. */
static void test_equal_ops_in_a_step(void **state)
{
    (void)state;
    for (uint32_t len = 2; len <= 200; len = len * 3 / 2 + 1) {
        struct rig *r = rig_open(NULL);
        for (int step = 0; step < 400; step++) {
            if (step == 100)
                rig_mark(r);
            for (uint32_t i = 0; i < len; i++)
                rig_op(r, 7);
            rig_sync(r);
        }
        rig_at_least(rig_replayed(r), 99);
        rig_at_most(rig_flushed(r), 0.5);
        rig_close(r);
    }
}

/* Twelve equal layers in a step: the outer period is what counts. */
static void layers(bool sync)
{
    enum { LAYERS = 12, LAYER = 9, TAIL = 7 };
    ag_key layer[LAYER], tail[TAIL];
    struct rig *r = rig_open(NULL);
    rig_keys(layer, LAYER, 1);
    rig_keys(tail, TAIL, 2);
    for (int step = 0; step < 300; step++) {
        if (step == 20)
            rig_mark(r);
        for (int i = 0; i < LAYERS; i++)
            rig_run(r, layer, LAYER);
        rig_run(r, tail, TAIL);
        if (sync)
            rig_sync(r);
    }
    rig_at_least(rig_replayed(r), 98);
    rig_at_most(rig_flushed(r), 0.5);
    rig_at_least(rig_ops_per_launch(r), 10);
    rig_close(r);
}

static void test_layers(void **state)
{
    (void)state;
    layers(true);
    layers(false);
}

/* A sync that comes early now and then, in the middle of a known step. */
static void test_early_sync_point(void **state)
{
    (void)state;
    enum { LEN = 60 };
    ag_key keys[LEN];
    struct rig *r = rig_open(NULL);
    uint64_t seed = 5;
    rig_keys(keys, LEN, 3);
    for (int step = 0; step < 2000; step++) {
        if (step == 100)
            rig_mark(r);
        rig_run(r, keys, step % 10 == 9 ? 1 + rig_random(&seed) % (LEN - 1) : LEN);
        rig_sync(r);
    }
    rig_at_least(rig_replayed(r), 95);
    rig_at_most(rig_flushed(r), 3);
    rig_close(r);
}

/* A step of two loops. The policy remembers that it saw the step, and how its parts begin: whatever
 * their hashes, none makes it forget another. */
static void test_no_pair_collides(void **state)
{
    (void)state;
    for (uint32_t program = 0; program < 600; program++) {
        struct rig *r = rig_open(NULL);
        for (uint32_t step = 0; step < 12; step++) {
            for (uint32_t i = 0; i < 60; i++)
                rig_op(r, rig_key(100 + program, i < 30 ? i % 3 : 3 + i % 5));
            rig_sync(r);
        }
        bool whole = false;
        for (struct ag_sequence *e = r->engine.policy.state->by_id; e; e = e->hh.next)
            whole |= e->len == 60 && !e->periodic;
        if (!whole)
            fail_msg("program %u: the step is not known after 12 times", program);
        rig_close(r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_pair_collides),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_builder_takes_a_while),
        cmocka_unit_test(test_equal_ops_in_a_step),
        cmocka_unit_test(test_layers),
        cmocka_unit_test(test_early_sync_point),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
