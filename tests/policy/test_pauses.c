/* test_pauses.c - programs that pause without a call that the policy could see (pause.c). */
#include "rig.h"

enum { POLL_NS = 10000 }; /* until a program that polls sees what its kernel wrote */

/* The program polls here: whatever is deferred waits for the watchdog. Returns whether it did. */
static bool poll(struct rig *r)
{
    bool waits = ag_engine_deferred(&r->engine) > 0;
    if (waits)
        rig_pause(r);
    r->now += POLL_NS;
    return waits;
}

/* Steps of `ops` ops, each with a poll behind, in a loop without sync points, which begins `before`
 * ops before a poll. */
static void test_polled_loops(void **state)
{
    (void)state;
    for (uint32_t ops = 1; ops <= 150; ops += 1 + ops / 8)
        for (uint32_t before = 0; before < ops; before += 1 + ops / 3)
            for (uint32_t delay = 0; delay < 2; delay++) {
                struct rig *r = rig_open(NULL);
                uint32_t waits = 0;
                r->build_delay = delay * 200;
                r->gap = 100;
                for (uint32_t i = 0; i < before; i++)
                    rig_op(r, rig_key(1, ops - before + i));
                for (uint32_t step = 0; step < 2500; step++) {
                    if (step == 500)
                        rig_mark(r);
                    for (uint32_t i = 0; i < ops; i++)
                        rig_op(r, rig_key(1, i));
                    waits += poll(r) && step >= 500;
                }
                /* of turns of one op the policy cannot tell a pause from the pace */
                if (waits > (ops > 1 ? 3 : 9))
                    fail_msg("%u ops, %u before: waited %u times", ops, before, waits);
                rig_at_least(rig_replayed(r), ops > 1 ? 95 : 65);
                rig_close(r);
            }
}

/* The same, but with a poll behind a few turns of the loop only, on fast and slow hosts. */
static void test_polls_behind_some_turns(void **state)
{
    (void)state;
    for (uint64_t gap = 50; gap <= 3200; gap *= 8)
        for (uint32_t ops = 1; ops <= 7; ops += 2)
            for (uint32_t turns = 2; turns <= 9; turns++) {
                struct rig *r = rig_open(NULL);
                uint32_t waits = 0;
                r->gap = gap;
                for (uint32_t step = 0; step < 1500; step++) {
                    if (step == 500)
                        rig_mark(r);
                    for (uint32_t i = 0; i < turns * ops; i++)
                        rig_op(r, rig_key(1, i % ops));
                    waits += poll(r) && step >= 500;
                }
                if (waits > 10)
                    fail_msg("%u turns of %u ops: waited %u times", turns, ops, waits);
                rig_at_least(rig_replayed(r), ops > 1 ? 80 : 15);
                rig_close(r);
            }
}

/* Loops with several polls in a turn. */
static void test_polls_in_a_turn(void **state)
{
    (void)state;
    static const uint32_t cases[][4] = {{8, 3, 7}, {7, 2, 5, 6}, {20, 9, 19}, {40, 12, 25, 39}};
    for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rig *r = rig_open(NULL);
        uint32_t waits = 0;
        r->gap = 100;
        for (uint32_t step = 0; step < 2000; step++)
            for (uint32_t k = 0; k < cases[i][0]; k++) {
                rig_op(r, rig_key(1, k));
                for (uint32_t j = 1; j < 4; j++)
                    if (cases[i][j] == k && k)
                        waits += poll(r) && step >= 1000;
            }
        rig_at_most(waits, 10);
        rig_close(r);
    }
}

/* Steps that are polled, and of which one op is new each time: there is nothing to be learnt, so
 * chunks rest. */
static void test_new_ops(void **state)
{
    (void)state;
    for (int sync = 0; sync < 2; sync++) {
        struct rig *r = rig_open(NULL);
        uint32_t waits = 0;
        r->gap = 100;
        for (uint32_t step = 0; step < 2000; step++) {
            for (uint32_t i = 0; i < 100; i++) {
                rig_op(r, i == 20 ? rig_key(2, step) : rig_key(1, i));
                if (i == 85)
                    waits += poll(r);
            }
            if (sync)
                rig_sync(r);
        }
        rig_at_most(waits, 200);
        rig_close(r);
    }
}

/* A polled step, then one of several others: what follows the poll cannot be foretold. */
static void test_unforeseen(void **state)
{
    (void)state;
    struct rig *r = rig_open(NULL);
    uint64_t seed = 8;
    uint32_t waits = 0;
    r->gap = 50;
    for (uint32_t step = 0; step < 8000; step++) {
        for (uint32_t i = 0; i < 5; i++)
            rig_op(r, rig_key(1, i));
        waits += poll(r) && step >= 4000;
        uint64_t body = rig_random(&seed) % 8;
        for (uint32_t i = 0; i < 8; i++)
            rig_op(r, rig_key(10 + body, i));
        rig_sync(r);
    }
    rig_at_most(waits, 10);
    rig_close(r);
}

/* A sync point that measures, right behind a poll: nothing is replayed up to the next one. */
static void test_measured(void **state)
{
    (void)state;
    struct rig *r = rig_open(NULL);
    r->gap = 100;
    for (uint32_t step = 0; step < 60; step++) {
        for (uint32_t i = 0; i < 5; i++)
            rig_op(r, rig_key(1, i));
        poll(r);
    }
    uint64_t replayed = r->replayed;
    ag_policy_may_measure(&r->engine.policy, 256);
    rig_sync(r);
    for (uint32_t i = 0; i < 5; i++)
        rig_op(r, rig_key(1, i));
    assert_int_equal(r->replayed, replayed);
    rig_close(r);
}

/* A step of 40 ops and a sync point, with polls after the 17th and the 30th. */
static void test_polls_in_a_step(void **state)
{
    (void)state;
    struct rig *r = rig_open(NULL);
    uint32_t waits = 0;
    for (uint32_t step = 0; step < 2500; step++) {
        if (step == 500)
            rig_mark(r);
        for (uint32_t i = 0; i < 40; i++) {
            rig_op(r, rig_key(1, i));
            if (i == 16 || i == 29)
                waits += poll(r) && step >= 500;
        }
        rig_sync(r);
    }
    rig_at_most(waits, 2);
    rig_at_least(rig_replayed(r), 95);
    rig_close(r);
}

/* A polled loop is cut as a step with a sync point is, and the wait is not the host's pace. */
static void test_cut(void **state)
{
    (void)state;
    struct rig *r = rig_open(NULL);
    r->gap = 100;
    for (uint32_t step = 0; step < 500; step++) {
        for (uint32_t i = 0; i < 7; i++)
            rig_op(r, rig_key(1, i));
        poll(r);
    }
    const struct ag_sequence *b = r->engine.policy.state->sequence;
    assert_non_null(b);
    assert_int_equal(b->len % 7, 0);
    for (uint32_t i = 0; i < b->plan.num_chunks; i++)
        assert_int_equal(b->plan.chunks[i].count, i % 2 ? 3 : 4);
    assert_in_range(ag_policy_gap(&r->engine.policy), 50, 200);
    rig_close(r);
}

/* The table of sequences is full of others when a loop turns out to be polled. */
static void test_full_table(void **state)
{
    (void)state;
    struct ag_policy_config config;
    ag_policy_defaults(&config);
    config.max_sequences = 16;
    for (uint32_t others = 12; others <= 16; others++) {
        struct rig *r = rig_open(&config);
        for (uint32_t step = 0; step < 3 * others; step++) {
            for (uint32_t i = 0; i < 5; i++)
                rig_op(r, rig_key(2 + step % others, i));
            rig_sync(r);
        }
        for (uint32_t step = 0; step < 500; step++) {
            if (step == 250)
                rig_mark(r);
            for (uint32_t i = 0; i < 20; i++)
                rig_op(r, rig_key(1, i));
            poll(r);
        }
        rig_at_least(rig_replayed(r), 95);
        rig_close(r);
    }
}

/* The program polls for a while and then does so no more: its loop is cut as any other is. */
static void test_polls_no_more(void **state)
{
    (void)state;
    for (uint64_t gap = 50; gap <= 3200; gap *= 4)
        for (uint32_t ops = 1; ops <= 20; ops++) {
            struct rig *r = rig_open(NULL);
            r->gap = gap;
            for (uint32_t step = 0; step < 12000; step++) {
                if (step == 10000)
                    rig_mark(r);
                for (uint32_t i = 0; i < ops; i++)
                    rig_op(r, rig_key(1, i));
                if (step < 200)
                    poll(r);
            }
            const struct ag_sequence *b = r->engine.policy.state->sequence;
            for (uint32_t i = 0; i < b->num_cuts; i++)
                assert_int_equal(b->cuts[i].left, 0);
            rig_at_least(rig_replayed(r), 95);
            rig_at_least(rig_ops_per_launch(r), gap < 100 ? 30 : 3);
            rig_close(r);
        }
}

/* What the program needs eagerly, in the rig's time. */
static uint64_t eagerly(const struct rig *r, uint64_t ops)
{
    return ops * (r->gap + RIG_LAUNCH_NS) + POLL_NS;
}

/* The program polls for ever: now and then a mark goes, which costs three waits, ever more rarely.
 */
static void test_polls_for_ever(void **state)
{
    (void)state;
    for (uint32_t ops = 1; ops <= 64; ops *= 4) {
        struct rig *r = rig_open(NULL);
        uint64_t began = 0, eager = 0;
        r->gap = 100;
        for (uint32_t step = 0; step < 60000; step++) {
            if (step == 1000)
                began = r->now;
            for (uint32_t i = 0; i < ops; i++)
                rig_op(r, rig_key(1, i));
            poll(r);
            eager += step < 1000 ? 0 : eagerly(r, ops);
        }
        rig_at_most((double)(r->now - began), 1.01 * (double)eager);
        rig_close(r);
    }
}

/* Polls behind a number of turns that only the program knows, as of a solver that converges. */
static void test_polls_behind_any_turns(void **state)
{
    (void)state;
    for (uint64_t gap = 100; gap <= 1600; gap *= 4)
        for (uint32_t ops = 1; ops <= 20; ops = 3 * ops + 1)
            for (uint32_t span = 2; span <= 32; span *= 2) {
                struct rig *r = rig_open(NULL);
                uint64_t began = 0, eager = 0, seed = 3;
                r->gap = gap;
                for (uint32_t step = 0; step < 20000; step++) {
                    uint32_t turns = 1 + (uint32_t)(rig_random(&seed) % span);
                    if (step == 10000)
                        began = r->now;
                    for (uint32_t i = 0; i < turns * ops; i++)
                        rig_op(r, rig_key(1, i % ops));
                    poll(r);
                    eager += step < 10000 ? 0 : eagerly(r, turns * ops);
                }
                if ((double)(r->now - began) > 1.02 * (double)eager)
                    fail_msg("gap %d, 1 to %u turns of %u ops: %.2f of eager", (int)gap, span, ops,
                             (double)(r->now - began) / (double)eager);
                rig_close(r);
            }
}

/* Many segments, each with a poll behind, with and without sync points. */
static void test_many_places(void **state)
{
    (void)state;
    for (uint32_t places = 8; places <= 128; places *= 2)
        for (int sync = 0; sync < 2; sync++) {
            struct rig *r = rig_open(NULL);
            uint32_t waits = 0, steps = 192000 / places;
            r->gap = 100;
            for (uint32_t step = 0; step < steps; step++) {
                if (step == steps / 4 * 3)
                    rig_mark(r);
                for (uint32_t j = 0; j < places; j++) {
                    for (uint32_t i = 0; i < 12; i++)
                        rig_op(r, rig_key(1 + j, i));
                    waits += poll(r) && step >= steps / 4 * 3;
                }
                if (sync)
                    rig_sync(r);
            }
            rig_at_most(waits, 480); /* one in a hundred */
            rig_at_least(rig_replayed(r), 90);
            rig_close(r);
        }
}

/* A step of a slow host, which at some places works for longer than the watchdog waits. Only the
 * chunks at these places get new graphs. */
static void test_slow_places(void **state)
{
    (void)state;
    static const uint32_t slow[] = {38, 121, 222, 223, 397, 590};
    struct rig *r = rig_open(NULL);
    r->gap = 20000;
    for (uint32_t step = 0; step < 60; step++) {
        if (step == 20)
            rig_mark(r);
        for (uint32_t i = 0, next = 0; i < 608; i++) {
            rig_op(r, rig_key(1, i));
            if (next == sizeof(slow) / sizeof(slow[0]) || i != slow[next])
                continue;
            next++;
            if (ag_engine_deferred(&r->engine))
                rig_pause(r);
            r->now += 700000;
        }
    }
    rig_at_most((double)r->graphs_built, 152 + 2 * 6);
    rig_at_most((double)rig_built(r), 0);
    rig_at_least(rig_replayed(r), 85); /* the rest is the profitability check */
    rig_close(r);
}

/* Behind a place at which a loop of a slow host pauses the GPU waits anyway: no chunk of one op
 * there. In a loop of a host that is not slow, there is one. */
static void test_slow_loop_that_pauses(void **state)
{
    (void)state;
    enum { LOOP = 66, PLACE = 30 };
    for (int slow = 0; slow < 2; slow++) {
        struct rig *r = rig_open(NULL);
        r->gap = slow ? 10000 : 2500;
        for (uint32_t op = 0; op < LOOP * 300; op++) {
            rig_op(r, rig_key(1, op % LOOP));
            if (op < LOOP * 100 || op % LOOP != PLACE - 1)
                continue;
            if (ag_engine_deferred(&r->engine))
                rig_pause(r);
            r->now += 700000;
        }
        const struct ag_sequence *b = r->engine.policy.state->sequence;
        assert_int_equal(b->len, LOOP);
        const struct ag_chunk *behind = &b->plan.chunks[ag_plan_chunk_at(b, PLACE)];
        assert_int_equal(behind->first, PLACE);
        assert_int_equal(behind->count == 1, !slow);
        rig_close(r);
    }
}

/* Now and then the program's thread loses its processor, and the watchdog strikes. Some places are
 * met three times by chance, and the sequence is cut there for a while; it must not fall to pieces.
 */
static void accidents(uint32_t ops, uint32_t one_in, bool sync, double replayed, double per_launch)
{
    struct rig *r = rig_open(NULL);
    uint64_t seed = 8;
    for (uint32_t step = 0; step < 20000; step++) {
        if (step == 10000)
            rig_mark(r);
        for (uint32_t i = 0; i < ops; i++) {
            rig_op(r, rig_key(1, i));
            if (rig_random(&seed) % one_in == 0)
                rig_pause(r);
        }
        if (sync)
            rig_sync(r);
    }
    rig_at_least(rig_replayed(r), replayed);
    rig_at_least(rig_ops_per_launch(r), per_launch);
    rig_close(r);
}

/* A short step, as of a thread that waits for Python's lock now and then: it is not cut for that.
 */
static void test_rare_accidents(void **state)
{
    (void)state;
    struct rig *r = rig_open(NULL);
    uint64_t seed = 5;
    r->gap = 8000;
    for (uint32_t step = 0; step < 2000; step++) {
        if (step == 100)
            rig_mark(r);
        for (uint32_t i = 0; i < 9; i++) {
            rig_op(r, rig_key(1, i));
            if (rig_random(&seed) % 100 == 0)
                rig_pause(r);
        }
        rig_sync(r);
    }
    rig_at_least(rig_replayed(r), 95);
    rig_at_most((double)r->engine.policy.counts.pauses, 20);
    rig_close(r);
}

static void test_accidents(void **state)
{
    (void)state;
    accidents(60, 80, false, 75, 4);
    accidents(60, 80, true, 75, 4);
    accidents(20, 60, true, 60, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_polled_loops),
        cmocka_unit_test(test_polls_behind_some_turns),
        cmocka_unit_test(test_polls_in_a_step),
        cmocka_unit_test(test_polls_in_a_turn),
        cmocka_unit_test(test_new_ops),
        cmocka_unit_test(test_unforeseen),
        cmocka_unit_test(test_measured),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_full_table),
        cmocka_unit_test(test_polls_no_more),
        cmocka_unit_test(test_polls_for_ever),
        cmocka_unit_test(test_polls_behind_any_turns),
        cmocka_unit_test(test_many_places),
        cmocka_unit_test(test_rare_accidents),
        cmocka_unit_test(test_accidents),
        cmocka_unit_test(test_slow_places),
        cmocka_unit_test(test_slow_loop_that_pauses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
