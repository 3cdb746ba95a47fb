/* test_quiet.c - streams that do not repeat, change their ways, or bring ever new sequences. */
#include "rig.h"
#include <malloc.h>

/* Nothing repeats: nothing is built, and the observer is off most of the time. */
static void test_no_repetition(void **state)
{
    (void)state;
    for (int sync = 0; sync < 2; sync++) {
        struct rig *r = rig_open(NULL);
        uint64_t seed = 1;
        for (int i = 0; i < 3000000; i++) {
            rig_op(r, rig_random(&seed) | 1);
            if (sync && i % 17 == 16)
                rig_sync(r);
        }
        assert_int_equal(r->graphs_built, 0);
        assert_int_equal(r->flushed, 0);
        rig_at_least(100.0 * (double)r->dormant / (double)r->ops, 75);
        rig_close(r);
    }
}

/* The caller says that every op is one that nobody has met: the observer is off nearly always, and
 * from early on. */
static void test_ever_fresh(void **state)
{
    (void)state;
    struct rig *r = rig_open(NULL);
    uint64_t seed = 1;
    for (int i = 0; i < 60000; i++) {
        r->engine.policy.fresh++;
        rig_op(r, rig_random(&seed) | 1);
    }
    rig_at_least(100.0 * (double)r->dormant / (double)r->ops, 85);
    for (uint32_t i = 0; i < 500000; i++) /* and yet it wakes */
        rig_op(r, rig_key(1, i % 20));
    rig_mark(r);
    for (uint32_t i = 0; i < 100000; i++)
        rig_op(r, rig_key(1, i % 20));
    rig_at_least(rig_replayed(r), 99);
    rig_close(r);
}

/* Short sequences of few kinds of op, of which none comes again: more of them than are remembered
 * say enough. One that comes again in time says otherwise. */
static void test_ever_new_sequences(void **state)
{
    (void)state;
    for (int again = 0; again < 2; again++) {
        struct rig *r = rig_open(NULL);
        uint64_t seed = 1;
        for (int segment = 0; segment < 1500; segment++) {
            bool known = again && segment % 200 == 199;
            for (uint32_t i = 0; i < 20; i++)
                rig_op(r, known ? rig_key(2, i) : rig_key(1, rig_random(&seed) % 64));
            rig_sync(r);
        }
        if (again)
            assert_int_equal(r->dormant, 0);
        else
            rig_at_least(100.0 * (double)r->dormant / (double)r->ops, 50);
        rig_close(r);
    }
}

/* It wakes when repetition starts, in any kind of loop. */
static void wakes(uint32_t len, bool sync)
{
    struct rig *r = rig_open(NULL);
    uint64_t seed = 4;
    for (int i = 0; i < 600000; i++)
        rig_op(r, rig_random(&seed) | 1);
    uint64_t slept = r->ops;
    for (uint32_t i = 0; i < 500000; i++) {
        rig_op(r, rig_key(1, i % len));
        if (sync && i % len == len - 1)
            rig_sync(r);
    }
    rig_at_least((double)r->first_replay, (double)slept);
    rig_mark(r);
    for (uint32_t i = 500000 % len; i < 600000; i++) {
        rig_op(r, rig_key(1, i % len));
        if (sync && i % len == len - 1)
            rig_sync(r);
    }
    rig_at_least(rig_replayed(r), 99);
    rig_close(r);
}

static void test_wakes(void **state)
{
    (void)state;
    for (int sync = 0; sync < 2; sync++) {
        wakes(1, sync);
        wakes(20, sync);
        wakes(500, sync);
        wakes(3000, sync);
    }
}

/* A new phase: its sequences take the place of the old ones. */
static void test_phases_change(void **state)
{
    (void)state;
    struct ag_policy_config config;
    ag_policy_defaults(&config);
    config.max_sequences = 16;
    struct rig *r = rig_open(&config);
    for (uint32_t phase = 0; phase < 12; phase++) {
        for (uint32_t step = 0; step < 400; step++) {
            if (step == 20)
                rig_mark(r);
            for (uint32_t i = 0; i < 30; i++)
                rig_op(r, rig_key(phase * 100 + step % 7, i));
            rig_sync(r);
        }
        rig_at_least(rig_replayed(r), 98);
    }
    assert_true(r->engine.policy.counts.evicted > 50);
    rig_at_most((double)r->graphs_peak, 16 * 4);
    rig_close(r);
}

/* More sequences than are remembered, in turn: no graph is built only to be thrown away at once. */
static void test_too_many(void **state)
{
    (void)state;
    struct ag_policy_config config;
    ag_policy_defaults(&config);
    config.max_sequences = 512;
    struct rig *r = rig_open(&config);
    for (uint32_t step = 0; step < 20000; step++) {
        for (uint32_t i = 0; i < 10; i++)
            rig_op(r, rig_key(step % 2000, i));
        rig_sync(r);
    }
    rig_at_most((double)r->graphs_built, 1000); /* windows between dormant times may meet */
    rig_close(r);
}

/* All of that many fit by default. */
static void test_many(void **state)
{
    (void)state;
    struct rig *r = rig_open(NULL);
    for (uint32_t step = 0; step < 60000; step++) {
        if (step == 50000)
            rig_mark(r);
        for (uint32_t i = 0; i < 10; i++)
            rig_op(r, rig_key(step % 2000, i));
        rig_sync(r);
    }
    rig_at_least(rig_replayed(r), 99);
    rig_close(r);
}

/* Long sequences count for more. */
static void test_long_ones(void **state)
{
    (void)state;
    struct rig *r = rig_open(NULL);
    for (uint32_t n = 0; n < 400; n++)
        for (uint32_t times = 0; times < 2; times++) {
            for (uint32_t i = 0; i < 16000; i++)
                rig_op(r, rig_key(n, i));
            rig_sync(r);
        }
    rig_at_most((double)ag_policy_memory(&r->engine.policy), 96 << 20);
    assert_true(r->engine.policy.counts.evicted > 100);
    rig_close(r);
}

/* 100,000 distinct sequences, each of them a few times over: what is held stays bounded. */
static void test_memory(void **state)
{
    (void)state;
    struct ag_policy_config config;
    ag_policy_defaults(&config);
    config.max_sequences = 512;
    struct rig *r = rig_open(&config);
    size_t early = 0;
    for (uint32_t n = 0; n < 100000; n++) {
        for (uint32_t times = 0; times < 3; times++) {
            for (uint32_t i = 0; i < 3 + n % 8; i++)
                rig_op(r, rig_key(n + 1000, i));
            rig_sync(r);
        }
        if (n == 20000)
            early = mallinfo2().uordblks;
    }
    rig_at_most((double)r->graphs_peak, 3 * 512);
    rig_at_least((double)r->graphs_built, 100000);
#if !defined(__SANITIZE_ADDRESS__)
    rig_at_most((double)mallinfo2().uordblks, (double)early * 1.1 + 65536);
#endif
    (void)early;
    rig_close(r);
}

/* What a stream costs before it has much to remember, and while its segments are short. */
static void test_small_streams(void **state)
{
    (void)state;
    struct rig *r = rig_open(NULL);
    rig_at_most((double)ag_policy_memory(&r->engine.policy), 8192);
    for (uint32_t i = 0; i < 10; i++)
        rig_op(r, rig_key(1, i));
    rig_at_most((double)ag_policy_memory(&r->engine.policy), 10240);
    for (uint32_t step = 0; step < 2000; step++) {
        for (uint32_t i = 0; i < 20; i++)
            rig_op(r, rig_key(2, i));
        rig_sync(r);
    }
    rig_at_most((double)ag_policy_memory(&r->engine.policy), 16384);
    rig_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_repetition),
        cmocka_unit_test(test_ever_fresh),
        cmocka_unit_test(test_ever_new_sequences),
        cmocka_unit_test(test_wakes),
        cmocka_unit_test(test_phases_change),
        cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_long_ones),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_small_streams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
