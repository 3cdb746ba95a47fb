/* test_periods.c - loops without any sync point: the period is found, at any phase, and merged. */
#include "rig.h"
#include "policy/internal.h"
#include <time.h>

static const uint32_t periods[] = {1, 2, 3, 7, 20, 109, 500, 4096};
enum { PERIODS = sizeof(periods) / sizeof(*periods) };

/* A stream of this period that starts at `phase` behind `prefix` ops that never come again. */
static struct rig *looping(uint32_t period, uint32_t phase, uint32_t prefix)
{
    struct rig *r = rig_open(NULL);
    uint64_t seed = period + phase;
    for (uint32_t i = 0; i < prefix; i++)
        rig_op(r, rig_random(&seed) | 1);
    uint32_t warm = 4 * period < 64 ? 64 : 4 * period;
    uint32_t total = warm + (period > 1000 ? 10 * period : 20000);
    for (uint32_t i = 0; i < total; i++) {
        if (i == warm)
            rig_mark(r);
        rig_op(r, rig_key(period, (i + phase) % period));
    }
    return r;
}

static void expect_replayed(struct rig *r)
{
    rig_at_least(rig_replayed(r), 99);
    rig_at_most(rig_flushed(r), 0.1);
    rig_close(r);
}

static void test_periods(void **state)
{
    (void)state;
    for (int i = 0; i < PERIODS; i++)
        expect_replayed(looping(periods[i], 0, 0));
}

static void test_phases(void **state)
{
    (void)state;
    for (int i = 1; i < PERIODS; i++)
        for (uint32_t k = 1; k < 5; k++)
            expect_replayed(looping(periods[i], periods[i] * k / 5, 0));
}

static void test_prefix(void **state)
{
    static const uint32_t prefixes[] = {1, 5, 37, 1000, 5000};
    (void)state;
    for (int i = 0; i < PERIODS; i++)
        for (int k = 0; k < 5; k++)
            expect_replayed(looping(periods[i], 1, prefixes[k]));
}

/* Whatever the keys are, which in a program depends on where its modules were loaded: two grams of
 * a short loop may hash to one place for ever. */
static void test_any_two_keys(void **state)
{
    (void)state;
    for (uint32_t n = 0; n < 2000; n++) {
        struct rig *r = rig_open(NULL);
        for (uint32_t i = 0; i < 1600; i++)
            rig_op(r, rig_key(n, i % 2));
        rig_at_least(r->replayed, 500);
        rig_close(r);
    }
}

/* Short periods: several in one chunk. */
static void test_merging(void **state)
{
    (void)state;
    for (uint32_t period = 1; period <= 20; period++) {
        struct rig *r = looping(period, 0, 3);
        rig_mark(r);
        for (uint32_t i = 0; i < 1200 * period; i++)
            rig_op(r, rig_key(period, (r->ops - 3) % period));
        rig_at_least(rig_ops_per_launch(r), 12);
        rig_close(r);
    }
}

/* A loop that is left and entered again, with other work between. */
static void test_loop_resumes(void **state)
{
    (void)state;
    struct rig *r = rig_open(NULL);
    uint64_t seed = 3;
    for (int turn = 0; turn < 200; turn++) {
        if (turn == 5)
            rig_mark(r);
        for (int i = 0; i < 30; i++)
            rig_op(r, rig_random(&seed) | 1);
        for (int i = 0; i < 50 * 40; i++)
            rig_op(r, rig_key(1, i % 40));
    }
    /* of at most 98.5 */
    rig_at_most(rig_built(r), 60);
    rig_close(r);
}

/* Every loop count, with a sync behind the loop: epochs of sync-free iterations. */
/* A long loop in which a few ops differ in some turns, each time others: it is found again at
 * another op, and still is the same loop. */
static void test_found_again(void **state)
{
    (void)state;
    struct rig *r = rig_open(NULL);
    uint64_t seed = 5;
    for (uint32_t turn = 0; turn < 400; turn++) {
        uint32_t odd = turn % 12 == 11 ? (uint32_t)(rig_random(&seed) % 290) : 300;
        for (uint32_t i = 0; i < 300; i++) {
            ag_key key = i >= odd && i < odd + 9 ? rig_key(2 + turn, i) : rig_key(1, i);
            ag_key expected = ag_engine_expected(&r->engine);
            if ((i < odd || i > odd + 9) && expected) /* it is found where it is */
                assert_int_equal(expected, key);
            rig_op(r, key);
        }
    }
    uint32_t loops = 0;
    for (struct ag_sequence *e = r->engine.policy.state->by_id; e; e = e->hh.next)
        loops += e->len == 300 && e->periodic;
    assert_int_equal(loops, 1);
    rig_at_least((double)r->replayed / (double)r->ops * 100, 90);
    rig_close(r);
}

/* A loop that goes on behind a sync, wherever that comes, and behind what is read back then. */
static void test_goes_on(void **state)
{
    (void)state;
    for (int reads = 0; reads < 2; reads++) {
        struct rig *r = rig_open(NULL);
        uint64_t seed = 7;
        double syncs = 0, found = 0;
        for (uint32_t i = 0, left = 4000; i < 60000; i++, left--) {
            if (!left) {
                if (reads)
                    rig_op(r, rig_key(2, 0));
                rig_sync(r);
                left = 121 + (uint32_t)(rig_random(&seed) % 79);
                found += ag_engine_expected(&r->engine) == rig_key(1, i % 40);
                syncs++;
            }
            if (i == 10000)
                rig_mark(r);
            rig_op(r, rig_key(1, i % 40));
        }
        rig_at_least(found / syncs * 100, 98);
        rig_at_least(rig_replayed(r), 85); /* the chunk in which the sync comes is not */
        rig_close(r);
    }
}

/* What comes behind a sync is known, and is not the loop. */
static void test_goes_on_otherwise(void **state)
{
    (void)state;
    struct rig *r = rig_open(NULL);
    uint64_t seed = 9;
    for (uint32_t turn = 0; turn < 300; turn++) {
        uint32_t ops = 121 + (uint32_t)(rig_random(&seed) % 997);
        for (uint32_t i = 0; i < ops; i++)
            rig_op(r, rig_key(1, i % 40));
        rig_sync(r);
        if (turn == 20)
            rig_mark(r);
        for (uint32_t i = 0; i < 60; i++) {
            rig_op(r, rig_key(2, i));
            if (turn > 20 && !i) /* at once */
                assert_int_equal(ag_engine_expected(&r->engine), rig_key(2, 1));
        }
    }
    rig_at_least(rig_replayed(r), 91);
    rig_close(r);
}

/* A second sync behind the first ends nothing, and nothing was left if the loop does not go on. */
static void test_goes_on_behind_two_syncs(void **state)
{
    (void)state;
    struct rig *r = rig_open(NULL);
    const struct ag_policy_state *s = r->engine.policy.state;
    for (uint32_t i = 0; i < 4017; i++)
        rig_op(r, rig_key(1, i % 40));
    rig_sync(r);
    uint32_t segments = s->segments, left = s->sequence->left;
    const struct ag_sequence *loop = s->sequence;
    rig_sync(r);
    assert_int_equal(s->segments, segments);
    assert_int_equal(ag_engine_expected(&r->engine), rig_key(1, 17));
    rig_op(r, rig_key(2, 0));
    assert_ptr_equal(s->sequence, NULL);
    assert_int_equal(s->departed.serial, 0);
    assert_int_equal(loop->left, left);
    rig_close(r);
}

/* What comes between any two syncs is known as a whole, and goes before the loop. */
static void test_goes_on_as_a_whole(void **state)
{
    (void)state;
    struct rig *r = rig_open(NULL);
    for (uint32_t i = 0; i < 4017 + 50 * 120; i++) {
        rig_op(r, rig_key(1, i % 40));
        if (i >= 4016 && (i - 4016) % 120 == 0)
            rig_sync(r);
    }
    const struct ag_sequence *b = r->engine.policy.state->sequence;
    assert_true(b && !b->periodic && b->len == 120);
    rig_close(r);
}

static void test_epochs(void **state)
{
    (void)state;
    struct rig *r = rig_open(NULL);
    for (int epoch = 0; epoch < 20; epoch++) {
        if (epoch == 2)
            rig_mark(r);
        for (int i = 0; i < 300 * 33; i++)
            rig_op(r, rig_key(1, i % 33));
        rig_sync(r);
    }
    rig_at_least(rig_replayed(r), 98);
    rig_close(r);
}

/* Where the arguments of one kernel's loop come again after 20 launches, whole twenties are merged.
 */
static void test_aligned(void **state)
{
    (void)state;
    struct rig *r = looping(1, 0, 0);
    uint32_t len = r->engine.policy.state->sequence->len;
    assert_true(len % 20 != 0);
    ag_policy_align(&r->engine.policy, r->engine.policy.state->sequence,
                    65); /* too long for a graph: nothing */
    assert_int_equal(r->engine.policy.state->sequence->unrolled.serial, 0);
    ag_policy_align(&r->engine.policy, r->engine.policy.state->sequence, 20);
    for (int i = 0; i < 2000; i++)
        rig_op(r, rig_key(1, 0));
    const struct ag_sequence *b = r->engine.policy.state->sequence;
    assert_int_equal(b->len, 60);
    for (uint32_t i = 0; i < b->plan.num_chunks; i++)
        assert_true(b->plan.chunks[i].count % 20 == 0 ||
                    ag_plan_limit(r->engine.policy.state, b, 0) < 20);
    rig_mark(r);
    rig_sync(r); /* the loop begins anew, and is taken in whole twenties soon */
    for (int i = 0; i < 2000; i++)
        rig_op(r, rig_key(1, 0));
    assert_int_equal(r->engine.policy.state->sequence->len, 60);
    rig_at_least(rig_replayed(r), 97);
    rig_close(r);
}

/* The GPU is behind in a loop that goes on and on: it is cut no more. */
static void test_steady(void **state)
{
    (void)state;
    struct rig *r = looping(20, 0, 0);
    rig_at_most(rig_ops_per_launch(r), 30); /* 500 ns apart: the GPU is not to wait for 60 */
    for (int i = 0; i < 40000; i++)
        rig_op(r, rig_key(20, i % 20));
    rig_mark(r);
    for (int i = 0; i < 20000; i++)
        rig_op(r, rig_key(20, i % 20));
    rig_at_least(rig_ops_per_launch(r), 59);
    rig_at_least(rig_replayed(r),
                 97); /* but for the visits that the profitability check compares */
    rig_mark(r);
    for (int i = 0; i < 100000; i++) {
        rig_op(r, rig_key(20, i % 20));
        if (i % 4000 == 3999)
            rig_sync(r); /* and stays whole where it is left now and then */
    }
    rig_at_least(rig_ops_per_launch(r), 50);
    assert_int_equal(rig_built(r), 0);
    rig_close(r);
}

/* Nothing is planned to take longer than it may be held, also where the loop goes on and on. */
static void test_hold_most(void **state)
{
    (void)state;
    static const uint32_t hold_most_ns[] = {1200, 6200, 15000, 29000, 32000};
    static const uint32_t longest[] = {3, 12, 20, 20, 60};
    for (int i = 0; i < 5; i++) {
        struct ag_policy_config config;
        ag_policy_defaults(&config);
        config.hold_most_ns = hold_most_ns[i];
        struct rig *r = rig_open(&config);
        for (int op = 0; op < 60000; op++)
            rig_op(r, rig_key(20, op % 20)); /* 500 ns apart */
        const struct ag_sequence *b = r->engine.policy.state->sequence;
        assert_int_equal(b->len, 60);
        assert_int_equal(b->plan.longest, longest[i]);
        rig_at_least(rig_replayed(r), 95);
        rig_close(r);
    }
}

/* Whether a loop of 66 ops that waits anywhere behind so many turns gets chunks of eight within so
 * many waits. While it is compared who launches, no other chunks are tried. */
static bool gets_eight(uint64_t gap, uint64_t turns, int waits)
{
    struct rig *r = rig_open(NULL);
    uint64_t seed = 1;
    bool eight = false;
    r->gap = gap;
    ag_policy_launched_by(&r->engine.policy, false, true);
    for (int wait = 0; wait < waits; wait++) {
        for (uint64_t op = 0, n = 66 * turns + rig_random(&seed) % 66; op < n; op++)
            rig_op(r, rig_key(20, op % 66));
        const struct ag_sequence *b = r->engine.policy.state->sequence;
        eight |= b && b->len == 66 && b->plan.longest == 8;
        rig_sync(r);
    }
    rig_close(r);
    return eight;
}

/* Where the host takes long between two ops of a loop, its chunks have more than four, unless the
 * stream leaves it too often, or such a chunk takes too long to fill. */
static void test_slow_loop(void **state)
{
    (void)state;
    assert_true(gets_eight(20000, 12, 40));
    assert_false(gets_eight(20000, 12, 4));
    assert_true(gets_eight(3100, 12, 40));
    assert_false(gets_eight(2900, 12, 40));
    assert_false(gets_eight(20000, 2, 200));
    assert_false(gets_eight(64000, 12, 40));
}

/* Every twelfth op comes late. No chunk is planned that would take too long to fill for that, and
 * the others are as long as elsewhere. */
static void test_uneven_loop(void **state)
{
    (void)state;
    static const uint64_t late_ns = 250000, usual_ns = 10000;
    struct rig *r = rig_open(NULL);
    ag_policy_launched_by(&r->engine.policy, false, true);
    for (uint32_t op = 0; op < 72 * 200; op++) {
        r->now += op % 12 == 6 ? late_ns : usual_ns;
        rig_op(r, rig_key(20, op % 72));
    }
    const struct ag_sequence *b = r->engine.policy.state->sequence;
    assert_int_equal(b->len, 72);
    assert_int_equal(b->plan.longest, 8);
    for (uint32_t i = 0; i < b->plan.num_chunks; i++) {
        const struct ag_chunk *chunk = &b->plan.chunks[i];
        uint64_t ns = 0;
        for (uint32_t op = chunk->first; op < chunk->first + chunk->count; op++)
            ns += op % 12 == 6 ? late_ns : usual_ns;
        assert_true(ns <= r->engine.policy.state->config.hold_most_ns);
    }
    rig_close(r);
}

/* One interrupt says nothing of the host's pace, whenever it comes. */
static void test_interrupts(void **state)
{
    (void)state;
    for (uint32_t at = 10; at < 600; at += 7) {
        struct rig *r = rig_open(NULL);
        for (uint32_t i = 0; i < 1000; i++) {
            r->now += i == at ? 90000 : 0;
            rig_op(r, rig_key(20, i % 20));
        }
        const struct ag_sequence *b = r->engine.policy.state->sequence;
        assert_int_equal(b->len, 60);
        rig_at_least(b->plan.longest, 15);
        rig_close(r);
    }
}

/* A host that works for longer between two ops than it may hold any back: graphs of one op or two.
 */
static void test_slow_pace(void **state)
{
    (void)state;
    struct rig *r = rig_open(NULL);
    for (uint32_t i = 0; i < 4000; i++) {
        r->now += 230000;
        rig_op(r, rig_key(10, i % 10));
        if (i % 10 == 9)
            rig_sync(r);
        if (i == 2000)
            rig_mark(r);
    }
    rig_at_least(rig_replayed(r), 90);
    rig_at_most(rig_ops_per_launch(r), 2);
    rig_close(r);
}

static double processor_ns(void)
{
    struct timespec t;
    assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t), 0);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* In each step an inner loop of its own. However many loops are known, to find one again, or that
 * it is new, takes no longer: with 8,192 of them 13 times as long as with 2,000, before each had a
 * place in a table. */
static void test_many_loops(void **state)
{
    (void)state;
    enum { STEPS = 5000, WINDOW = 250 };
    struct rig *r = rig_open(NULL);
    double few = 1e18, many = 1e18;
    for (uint32_t step = 0, window = 0; step < STEPS; step += WINDOW, window++) {
        double began = processor_ns();
        for (uint32_t k = 0; k < WINDOW; k++) {
            for (uint32_t i = 0; i < 120; i++)
                rig_op(r, i % 10 == 4 ? rig_key(7, step + k) : rig_key(1, i % 10));
            rig_sync(r);
        }
        double took = processor_ns() - began;
        if (window >= 1 && window < 4 && took < few)
            few = took;
        if (window >= 16 && took < many)
            many = took;
    }
    rig_at_most(many / few, 4);
    rig_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_periods),
        cmocka_unit_test(test_phases),
        cmocka_unit_test(test_prefix),
        cmocka_unit_test(test_any_two_keys),
        cmocka_unit_test(test_merging),
        cmocka_unit_test(test_loop_resumes),
        cmocka_unit_test(test_found_again),
        cmocka_unit_test(test_epochs),
        cmocka_unit_test(test_aligned),
        cmocka_unit_test(test_steady),
        cmocka_unit_test(test_hold_most),
        cmocka_unit_test(test_slow_loop),
        cmocka_unit_test(test_uneven_loop),
        cmocka_unit_test(test_interrupts),
        cmocka_unit_test(test_slow_pace),
        cmocka_unit_test(test_many_loops),
        cmocka_unit_test(test_goes_on),
        cmocka_unit_test(test_goes_on_otherwise),
        cmocka_unit_test(test_goes_on_behind_two_syncs),
        cmocka_unit_test(test_goes_on_as_a_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
