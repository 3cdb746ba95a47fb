/* test_profit.c - the profitability check with synthetic clocks: even, noisy and drifting ones.
 */
#include "rig.h"
#include "policy/internal.h"

enum { LONGEST = 16 }; /* ops in a chunk, as planned */

/* What a sequence takes. */
struct times {
    double eager, noise;
    uint32_t gap;     /* of the host */
    double replay[6]; /* with chunks of LONGEST, LONGEST / 2 ... ops; 0: as the one before */
};

static uint32_t plan_of(const struct ag_profit *g)
{
    return g->most ? g->most : LONGEST;
}

static double takes(const struct ag_profit *g, const struct times *t, bool replay)
{
    double ns = t->eager;
    for (int i = 0; replay && i < 6 && (uint32_t)LONGEST >> i >= plan_of(g) && t->replay[i] > 0;
         i++)
        ns = t->replay[i];
    return ns;
}

struct seen {
    double replayed; /* percent of the visits */
    double slower;   /* than the faster mode at its best cut, in percent */
    uint32_t recuts;
};

/* `visits` with noise and rare outliers. */
static struct seen play(struct ag_profit *g, int visits, const struct times *t)
{
    static uint64_t seed = 9;
    struct seen seen = {0};
    double total = 0, best = t->eager;
    for (int i = 0; i < 6 && t->replay[i] > 0; i++)
        best = t->replay[i] < best ? t->replay[i] : best;
    for (int i = 0; i < visits; i++) {
        bool defers = ag_profit_defers(g);
        if (g->replan) {
            g->replan = false;
            seen.recuts++;
        }
        double ns = takes(g, t, defers), noise = 1;
        total += ns;
        seen.replayed += defers;
        noise += t->noise * ((double)(rig_random(&seed) % 2001) / 1000 - 1);
        if (t->noise > 0 && rig_random(&seed) % 10 == 0)
            noise *= 5;
        ag_profit_visit(g, (uint64_t)(ns * noise), defers, plan_of(g), t->gap);
    }
    seen.replayed *= 100.0 / visits;
    seen.slower = 100 * (total / visits / best - 1);
    return seen;
}

/* A slow host: that graphs lose is seen within a few visits if the sequence has been seen without
 * them, and the cut that wins is found. With noise a trial may be decided by chance now and then.
 */
static void test_slow_host(void **state)
{
    (void)state;
    for (int noisy = 0; noisy < 2; noisy++) {
        enum { RUNS = 20 };
        double begin = 0, later = 0, found = 0, quarter = 0, fast = 0, misled = 0, warming = 0;
        for (int run = 0; run < (noisy ? RUNS : 1); run++) {
            double share = noisy ? 1.0 / RUNS : 1;
            struct times t = {
                .eager = 300000, .noise = noisy * 0.02, .gap = 50000, .replay = {450000}};
            struct ag_profit g = {.first_ns = 300000};
            begin += share * play(&g, 64, &t).replayed;
            later += share * play(&g, 2000, &t).replayed;
            struct times half = t;
            half.replay[1] = 450000, half.replay[2] = 280000; /* chunks of a quarter win */
            g = (struct ag_profit){.first_ns = 300000};
            play(&g, 500, &half);
            found += share * (plan_of(&g) == LONGEST / 4);
            quarter += share * play(&g, 1000, &half).replayed;

            t.gap = 1000; /* with a fast host there is no hurry */
            g = (struct ag_profit){.first_ns = 300000};
            fast += share * play(&g, 64, &t).replayed;
            t.gap = 50000; /* nor where the hint misleads: a trial, no more */
            t.replay[0] = 295000;
            g = (struct ag_profit){.first_ns = 200000};
            misled += share * play(&g, 128, &t).replayed;
            /* nor where the program is still warming up, and gets faster by itself */
            g = (struct ag_profit){.first_ns = 300000};
            for (int i = 0; i < 64; i++)
                ag_profit_visit(&g, i < 8 ? 340000 : 300000, ag_profit_defers(&g), LONGEST, 50000);
            warming += share * ag_profit_defers(&g);
        }
        rig_at_most(begin, noisy ? 40 : 30);
        rig_at_most(later, noisy ? 15 : 5);
        rig_at_least(found, noisy ? 0.8 : 1);
        rig_at_least(quarter, noisy ? 80 : 95);
        rig_at_least(fast, 99);
        rig_at_least(misled, 90);
        rig_at_least(warming, 1);
    }
}

/* Graphs of a sequence of one op that cost the host more than eager calls are left, whatever the
 * visits say, and tried again later. */
static void test_one_op(void **state)
{
    (void)state;
    enum { LAUNCHES = 1000 };
    static const struct {
        int64_t ns[2];
        bool stays;
    } cases[] = {
        {{-100, -100}, false}, {{-2000, 1900}, false}, {{-2000, 2000}, true}, {{5, 5}, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ag_profit g = {.mode = AG_PROFIT_REPLAY, .left = 10000};
        for (int k = 0; k < LAUNCHES; k++)
            ag_profit_gained(&g, cases[i].ns[k % 2], 1);
        assert_true(ag_profit_defers(&g) == cases[i].stays);
        int visits = 0;
        for (; !ag_profit_defers(&g); visits++)
            ag_profit_visit(&g, 200000, false, 1, 100000);
        rig_at_least(visits, cases[i].stays ? 0 : 1024);
        rig_at_most(visits, cases[i].stays ? 0 : 1024);
    }
}

/* A few slow launches behind a long time in which replay has won every trial: the time without
 * graphs is as short as after any other change of the answer. */
static void test_one_op_that_was_slow_once(void **state)
{
    (void)state;
    struct ag_profit g = {0};
    for (int i = 0; i < 100000; i++)
        ag_profit_visit(&g, ag_profit_defers(&g) && i > 7 ? 9000 : 10000,
                        ag_profit_defers(&g) && i > 7, 1, 5000);
    assert_int_equal(g.interval, AG_PROFIT_LONGEST_INTERVAL);
    while (g.mode != AG_PROFIT_REPLAY)
        ag_profit_visit(&g, 10000, ag_profit_defers(&g), 1, 5000);
    for (int i = 0; i < AG_PROFIT_SAMPLES; i++)
        ag_profit_visit(&g, 30000, true, 1, 5000);
    for (int k = 0; k < AG_PROFIT_LAUNCHES; k++)
        ag_profit_gained(&g, -2500, 1);
    assert_false(ag_profit_defers(&g));
    int visits = 0;
    for (; !ag_profit_defers(&g); visits++)
        ag_profit_visit(&g, 10000, false, 1, 5000);
    assert_int_equal(visits, AG_PROFIT_FIRST_INTERVAL);
    for (; visits < 2 * AG_PROFIT_FIRST_INTERVAL; visits++)
        ag_profit_visit(&g, ag_profit_defers(&g) ? 9000 : 10000, ag_profit_defers(&g), 1, 5000);
    assert_true(ag_profit_defers(&g));
}

/* Nor are graphs kept that spare a hundredth of a visit. */
static void test_one_op_of_a_slow_host(void **state)
{
    (void)state;
    for (int slow = 0; slow < 2; slow++) {
        struct ag_profit g = {.mode = AG_PROFIT_REPLAY, .left = 10000};
        for (int i = 0; i < AG_PROFIT_SAMPLES; i++)
            ag_profit_visit(&g, slow ? 140000 : 10000, true, 1, slow ? 130000 : 5000);
        for (int k = 0; k < 1000; k++)
            ag_profit_gained(&g, 1400, 1);
        assert_true(ag_profit_defers(&g) == !slow);
    }
}

/* What the visits have shown stands. */
static void test_one_op_that_wins(void **state)
{
    (void)state;
    struct ag_profit g = {.mode = AG_PROFIT_REPLAY, .left = 100000};
    for (int i = 0; i < AG_PROFIT_SAMPLES; i++) {
        g.eager.ns[g.eager.count++] = 200000;
        ag_profit_visit(&g, 160000, true, 1, 5000);
    }
    for (int k = 0; k < 1000; k++)
        ag_profit_gained(&g, -100, 1);
    assert_true(ag_profit_defers(&g));
}

/* Where a sequence is longer, longer chunks may be tried yet. */
static void test_short_sequences(void **state)
{
    (void)state;
    for (uint32_t len = 1; len <= 8; len++) {
        struct rig *r = rig_open(NULL);
        struct ag_sequence b = {.len = len,
                                .plan = {.longest = 1, .num_chunks = len},
                                .profit = {.mode = AG_PROFIT_REPLAY, .left = 10000}};
        for (int k = 0; k < 1000; k++)
            ag_policy_gained(&r->engine.policy, &b, -100);
        assert_true(ag_profit_defers(&b.profit) == (len > 3));
        rig_close(r);
    }
}

/* The early look ends with the fourth eager visit if that many are not far faster than replay, and
 * goes on for eight if they are. */
static void test_early_look_ends(void **state)
{
    (void)state;
    for (int faster = 0; faster < 2; faster++) {
        struct ag_profit g = {0};
        int eager = 0;
        for (int i = 0; i < 100; i++) {
            bool replayed = ag_profit_defers(&g);
            eager += !replayed;
            ag_profit_visit(&g,
                            replayed ? 300000
                            : faster ? 200000
                                     : 310000,
                            replayed, LONGEST, 50000);
            if (faster && eager == 8)
                break;
        }
        assert_int_equal(eager, faster ? 8 : 4);
        assert_int_equal(g.early, faster ? AG_EARLY_REPLAY : AG_EARLY_NONE);
    }
}

/* Where graphs win they are used, and looking costs next to nothing. */
static void test_replay_wins(void **state)
{
    (void)state;
    for (int noisy = 0; noisy < 2; noisy++) {
        struct times t = {.eager = 300000, .noise = noisy * 0.1, .replay = {100000}};
        struct ag_profit cold = {0}, measured = {0};
        rig_at_most(play(&cold, 2000, &t).slower, 2.0);
        rig_at_most(play(&cold, 100000, &t).slower, 0.1);
        for (int i = 0; i < 8; i++) /* eager visits before there were graphs: no trial is needed */
            ag_profit_visit(&measured, 300000, false, LONGEST, 0);
        rig_at_least(play(&measured, 500, &t).replayed, 100);
        assert_int_equal(measured.most, 0);
    }
}

/* Where they lose at every cut, the sequence goes eager. */
static void test_replay_loses(void **state)
{
    (void)state;
    for (int run = 0; run < 40; run++) { /* in one of ten samples something else takes five times */
        int noisy = run > 0;
        struct times t = {.eager = 100000, .noise = noisy * 0.1, .replay = {130000}};
        struct ag_profit g = {0};
        struct seen first = play(&g, 4000, &t);
        rig_at_most(first.recuts, 6);
        rig_at_most(play(&g, 10000, &t).replayed, 5);
        rig_at_most(play(&g, 100000, &t).slower, 0.5);
    }
}

/* No difference: replay stays, uncut. */
static void test_even(void **state)
{
    (void)state;
    struct times t = {.eager = 100000, .replay = {100000}};
    struct ag_profit g = {0};
    struct seen seen = play(&g, 10000, &t);
    rig_at_least(seen.replayed, 99);
    assert_int_equal(seen.recuts, 0);
}

/* Long chunks let the GPU wait: a shorter cut is found before graphs are given up. Measured with a
 * host that issues an op of 5 us every 5 us: chunks of 20 are 28 % slower than eager, of 4 faster.
 */
static void test_shorter_cut(void **state)
{
    (void)state;
    for (int noisy = 0; noisy < 2; noisy++) {
        struct times t = {
            .eager = 100000, .noise = noisy * 0.05, .replay = {128000, 110000, 87000}};
        struct ag_profit g = {0};
        play(&g, 3000, &t);
        assert_int_equal(g.most, LONGEST / 4);
        rig_at_most(play(&g, 30000, &t).slower, 1);
    }
}

/* Nothing is latched: what changes sides is found again, in either direction. */
static void test_changes_sides(void **state)
{
    (void)state;
    struct times loses = {.eager = 100000, .noise = 0.05, .replay = {150000}};
    struct times wins = {.eager = 100000, .noise = 0.05, .replay = {50000}};
    double losing = 0, winning = 0, lost = 0;
    enum { RUNS = 20 }; /* a trial may fall anywhere, and be decided by outliers now and then */
    for (int run = 0; run < RUNS; run++) {
        struct ag_profit g = {0};
        play(&g, 5000, &loses);
        losing += play(&g, 20000, &loses).replayed / RUNS;
        play(&g, 70000, &wins);
        winning += play(&g, 20000, &wins).replayed / RUNS;
        play(&g, 70000, &loses);
        lost += play(&g, 20000, &loses).replayed / RUNS;
    }
    rig_at_most(losing, 1);
    rig_at_least(winning, 99);
    rig_at_most(lost, 1);
}

/* A machine that slows down by a third over time: both modes do. */
static void test_drift(void **state)
{
    (void)state;
    struct ag_profit g = {0};
    double replayed = 0;
    for (int i = 0; i < 100; i++) {
        double slow = 1 + i / 300.0;
        struct times t = {.eager = 100000 * slow, .noise = 0.05, .replay = {80000 * slow}};
        replayed += play(&g, 300, &t).replayed / 100;
    }
    rig_at_least(replayed, 99);
}

/* In the policy: steps that are slower with graphs go eager, and come back when that changes. */
static void test_in_policy(void **state)
{
    (void)state;
    for (int sync = 0; sync < 2; sync++) {
        struct ag_policy_config config;
        ag_policy_defaults(&config);
        config.profit = true;
        struct rig *r = rig_open(&config);
        for (int phase = 0; phase < 3; phase++) {
            for (int step = 0; step < 30000; step++) {
                if (step == 29000)
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

/* In the policy: chunks as planned are slower than eager ones, chunks of a quarter are faster. */
static void test_cut_in_policy(void **state)
{
    (void)state;
    for (int sync = 0; sync < 2; sync++) {
        struct ag_policy_config config;
        ag_policy_defaults(&config);
        config.profit = true;
        struct rig *r = rig_open(&config);
        for (int step = 0; step < 4000; step++) {
            if (step == 3000)
                rig_mark(r);
            uint64_t replayed = r->replayed, launches = r->launches;
            for (uint32_t i = 0; i < 96; i++)
                rig_op(r, rig_key(1, i));
            if (r->launches > launches) { /* the GPU waits while a chunk fills */
                uint64_t each = (r->replayed - replayed) / (r->launches - launches);
                r->now += each > 7 ? 400000 : 0;
            }
            if (sync)
                rig_sync(r);
        }
        rig_at_least(rig_replayed(r), 98);
        rig_at_most(rig_ops_per_launch(r), 7);
        rig_at_least(rig_ops_per_launch(r), 3);
        rig_close(r);
    }
}

/* Steps of `ops` kernels and a sync on a GPU that takes `kernel` ns for each, three times that in
 * the first 12 steps. Mean time of the steps from `from` to `to`, in ns. */
static double steps_take(const struct ag_policy_config *config, uint32_t ops, uint32_t gap,
                         uint32_t kernel, int from, int to)
{
    struct rig *r = rig_open(config);
    uint64_t idle_at = 0, began = 0;
    r->gap = gap;
    r->build_delay = 2 * ops;
    for (int step = 0; step < to; step++) {
        if (step == from)
            began = r->now;
        for (uint32_t i = 0; i < ops; i++) {
            uint64_t work = rig_op(r, rig_key(1, i)).ops * kernel * (step < 12 ? 3 : 1);
            if (work)
                idle_at = (idle_at > r->now ? idle_at : r->now) + work;
        }
        r->now = idle_at > r->now ? idle_at : r->now;
        rig_sync(r);
    }
    double took = (double)(r->now - began) / (to - from);
    rig_close(r);
    return took;
}

/* A host that is so slow that every chunk keeps it waiting, and a GPU whose clock rises at first,
 * so that all visits with graphs are faster than those before. */
static void test_rising_clock(void **state)
{
    (void)state;
    static const uint32_t ops[] = {5, 20};
    struct ag_policy_config config, eager;
    ag_policy_defaults(&config);
    config.profit = true;
    eager = config;
    eager.min_repeats = 1000000;
    for (int i = 0; i < 2; i++) {
        double bound = steps_take(&eager, ops[i], 50000, 50000, 80, 112);
        rig_at_most(steps_take(&config, ops[i], 50000, 50000, 80, 112) / bound, 1.001);
        rig_at_most(steps_take(&config, ops[i], 50000, 50000, 80, 1000) / bound, 1.01);
        bound = steps_take(&eager, ops[i], 50000, 1000, 80, 1000); /* where graphs win they stay */
        rig_at_most(steps_take(&config, ops[i], 50000, 1000, 80, 1000) / bound, 0.99);
    }
}

static enum ag_profit_mode mode_of(const struct rig *r)
{
    const struct ag_sequence *b = r->engine.policy.state->sequence;
    return b ? b->profit.mode : AG_PROFIT_NEW;
}

/* While the check tries eager submission, the steps begin to differ near their ends, or a loop is
 * joined in the middle each time. Then no visit is whole, and none can be measured. The trial still
 * ends, and the ops that do repeat are replayed again. */
static void test_trial_without_visits(void **state)
{
    (void)state;
    for (int sync = 0; sync < 2; sync++) {
        struct rig *r = rig_open(NULL);
        uint64_t other = 0;
        r->gap = 50000;
        for (int step = 0; step < 200 && mode_of(r) != AG_PROFIT_TRIES_EAGER; step++) {
            for (uint32_t i = 0; i < 100; i++)
                rig_op(r, rig_key(1, i));
            if (sync)
                rig_sync(r);
        }
        assert_int_equal(mode_of(r), AG_PROFIT_TRIES_EAGER);
        for (int step = 0; step < 128; step++) {
            if (step == 64)
                rig_mark(r);
            for (uint32_t i = 0; i < 100; i++)
                rig_op(r, i == 90 ? rig_key(2, other++) : rig_key(1, i));
            if (sync)
                rig_sync(r);
        }
        rig_at_least(rig_replayed(r), 60);
        rig_close(r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_op),
        cmocka_unit_test(test_short_sequences),
        cmocka_unit_test(test_one_op_of_a_slow_host),
        cmocka_unit_test(test_one_op_that_wins),
        cmocka_unit_test(test_one_op_that_was_slow_once),
        cmocka_unit_test(test_early_look_ends),
        cmocka_unit_test(test_replay_wins),
        cmocka_unit_test(test_replay_loses),
        cmocka_unit_test(test_even),
        cmocka_unit_test(test_shorter_cut),
        cmocka_unit_test(test_changes_sides),
        cmocka_unit_test(test_drift),
        cmocka_unit_test(test_in_policy),
        cmocka_unit_test(test_cut_in_policy),
        cmocka_unit_test(test_slow_host),
        cmocka_unit_test(test_rising_clock),
        cmocka_unit_test(test_trial_without_visits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
