/* test_gate.c - the gain gate with synthetic clocks: even, noisy and drifting ones. */
#include "rig.h"
#include "policy/internal.h"

/* `visits` of a block that takes so long in each mode, with noise and rare outliers; returns the
 * percentage that was replayed. */
static double play(struct ag_gate *g, int visits, double replay, double eager, double noise)
{
    static uint64_t seed = 9;
    int replays = 0;
    for (int i = 0; i < visits; i++) {
        bool defers = ag_gate_defers(g);
        double ns = defers ? replay : eager;
        ns *= 1 + noise * ((double)(rig_random(&seed) % 2001) / 1000 - 1);
        if (noise > 0 && rig_random(&seed) % 10 == 0)
            ns *= 5;
        ag_gate_visit(g, (uint64_t)ns, defers);
        replays += defers;
    }
    return 100.0 * replays / visits;
}

static void test_clear_cases(void **state)
{
    (void)state;
    for (int noisy = 0; noisy < 2; noisy++) {
        struct ag_gate wins = {0}, loses = {0}, even = {0};
        rig_at_least(play(&wins, 10000, 50000, 100000, noisy * 0.1), 99);
        play(&loses, 500, 130000, 100000, noisy * 0.1);
        rig_at_most(play(&loses, 10000, 130000, 100000, noisy * 0.1), 5);
        if (!noisy)
            rig_at_least(play(&even, 10000, 100000, 100000, 0), 99);
    }
}

/* Nothing is latched: what changes sides is found again, in either direction. */
static void test_changes_sides(void **state)
{
    (void)state;
    struct ag_gate g = {0};
    play(&g, 20000, 150000, 100000, 0.05);
    assert_false(ag_gate_defers(&g) && !g.trial);
    play(&g, 10000, 50000, 100000, 0.05);
    rig_at_least(play(&g, 1000, 50000, 100000, 0.05), 90);
    play(&g, 10000, 150000, 100000, 0.05);
    rig_at_most(play(&g, 1000, 150000, 100000, 0.05), 10);
}

/* A machine that slows down by a third over time: both modes do. */
static void test_drift(void **state)
{
    (void)state;
    struct ag_gate g = {0};
    double replayed = 0;
    for (int i = 0; i < 100; i++)
        replayed += play(&g, 300, 80000 * (1 + i / 300.0), 100000 * (1 + i / 300.0), 0.05) / 100;
    rig_at_least(replayed, 98);
}

/* Visits before the first replay say nothing: they pay for staging. */
static void test_first_visits(void **state)
{
    (void)state;
    struct ag_gate g = {0};
    for (int i = 0; i < 1000; i++)
        ag_gate_visit(&g, 1000, false);
    assert_int_equal(g.interval, 0);
    assert_true(ag_gate_defers(&g));
}

/* In the policy: steps that are slower with graphs go eager, and come back when that changes. */
static void test_in_policy(void **state)
{
    (void)state;
    for (int sync = 0; sync < 2; sync++) {
        struct ag_policy_config config;
        ag_policy_defaults(&config);
        config.gate = true;
        struct rig *r = rig_open(&config);
        for (int phase = 0; phase < 3; phase++) {
            for (int step = 0; step < 12000; step++) {
                if (step == 11000)
                    rig_mark(r);
                uint64_t launches = r->launches;
                for (uint32_t i = 0; i < 100; i++)
                    rig_op(r, rig_key(1, i));
                if (phase == 1) /* a graph launch costs more than all the ops it holds */
                    r->now += (r->launches - launches) * 1000000;
                if (sync)
                    rig_sync(r);
            }
            if (phase == 1)
                rig_at_most(rig_replayed(r), 10);
            else
                rig_at_least(rig_replayed(r), 95);
        }
        rig_close(r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clear_cases), cmocka_unit_test(test_changes_sides),
        cmocka_unit_test(test_drift),       cmocka_unit_test(test_first_visits),
        cmocka_unit_test(test_in_policy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
