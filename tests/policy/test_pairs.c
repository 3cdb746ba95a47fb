/* test_pairs.c - which of two ways is faster: with even, noisy and drifting clocks, and pauses. */
#include "rig.h"
#include "policy/pairs.h"

struct play {
    double gain;  /* speed of the second way, of the first */
    double noise; /* of an op */
    double drift; /* the machine goes at up to so much of its speed, slowly up and down */
    int pause;    /* one op in so many takes 100 ms; 0: none */
};

/* Ops of 20 us for so many seconds. Returns the share of them that went the second way. */
static double play(struct ag_pairs *p, const struct play *how, double seconds)
{
    static uint64_t seed = 3;
    uint64_t ops = 0, second = 0;
    double now = 1e9, end = now + seconds * 1e9;
    while (now < end) {
        bool way = ag_pairs_choose(p, (uint64_t)now, ops);
        double ns = 20000 / (way ? how->gain : 1);
        ns *= 1 + how->noise * ((double)(rig_random(&seed) % 2001) / 1000 - 1);
        ns *= 1 + how->drift * (0.5 + 0.5 * ((int)(now / 3e8) % 2));
        if (how->pause && rig_random(&seed) % (uint32_t)how->pause == 0)
            ns += 1e8;
        now += ns;
        ops++;
        second += way;
    }
    return (double)second / (double)ops;
}

static void test_choice(void **state)
{
    (void)state;
    static const struct {
        double gain;
        bool second;
    } cases[] = {{1.10, true}, {1.05, true}, {1.0, false}, {1.01, false}, {0.9, false}};
    static const struct play how[] = {
        {.noise = 0}, {.noise = 0.5}, {.noise = 0.3, .drift = 0.6}, {.noise = 0.3, .pause = 5000}};
    for (size_t h = 0; h < sizeof how / sizeof *how; h++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            struct ag_pairs p = {0};
            struct play one = how[h];
            one.gain = cases[i].gain;
            double share = play(&p, &one, 30);
            if (cases[i].second)
                rig_at_least(share, 0.85);
            else
                rig_at_most(share, 0.12);
        }
}

/* No answer is final: a way that begins to win is found, and one that begins to lose is left. */
static void test_changes(void **state)
{
    (void)state;
    struct ag_pairs p = {0};
    play(&p, &(struct play){.gain = 1.2, .noise = 0.2}, 10);
    assert_true(p.second);
    struct ag_pairs later = p;
    later.next_ns = 1;
    play(&later, &(struct play){.gain = 0.8, .noise = 0.2}, 1.5);
    assert_false(later.second);
    assert_int_equal(later.interval_ns, 2000000000);
}

/* Goes on until a comparison begins, 1 ms and `ops` a step. */
static uint64_t goes_on(struct ag_pairs *p, uint64_t now, uint64_t ops)
{
    for (; !p->tries; now += 1000000)
        ag_pairs_choose(p, now, ops += 20);
    return now;
}

/* How long a comparison takes in which the second way is so fast, of the first, ns. */
static uint64_t takes(double gain)
{
    struct ag_pairs p = {0};
    uint64_t now = goes_on(&p, 1000000000, 0), began = now;
    double ops = 1e6;
    for (; p.tries; now += 100000) {
        bool second = ag_pairs_choose(&p, now, (uint64_t)ops);
        ops += second ? 20 * gain : 20;
    }
    return now - began;
}

/* A comparison ends when its answer is known. */
static void test_ends_early(void **state)
{
    (void)state;
    rig_at_most((double)takes(0.8), 7 * 16e6); /* three pairs */
    rig_at_most((double)takes(1.02), 7 * 16e6);
    rig_at_least((double)takes(1.2), 9 * 16e6); /* five */
    rig_at_most((double)takes(1.2), 11 * 16e6);
}

static void test_first_way_until_compared(void **state)
{
    (void)state;
    struct ag_pairs p = {0};
    for (uint64_t now = 500000000; !p.tries; now += 1000000)
        if (ag_pairs_choose(&p, now, now / 10000))
            assert_true(p.tries);
    play(&p, &(struct play){.gain = 1.2}, 3);
    rig_at_least(p.trials, 1);
    assert_true(p.second);
}

/* One way may be so slow that a span of it has hardly an op. */
static void test_far_slower(void **state)
{
    (void)state;
    static const double gains[] = {4, 40, 4000};
    for (size_t i = 0; i < sizeof gains / sizeof *gains; i++) {
        struct ag_pairs p = {0};
        uint64_t now = goes_on(&p, 1000000000, 0);
        double ops = 1e6;
        for (; p.tries; now += 100000)
            ops += ag_pairs_choose(&p, now, (uint64_t)ops) ? 4 : 4 / gains[i];
        assert_int_equal(p.trials, 1);
        assert_true(p.second);
    }
}

/* The program comes by at the end of each step alone, and a step of the first way may take
 * longer than some spans. */
static void test_long_steps(void **state)
{
    (void)state;
    static const double steps_ms[] = {20, 50, 90, 150};
    uint64_t seed = 5;
    for (size_t i = 0; i < sizeof steps_ms / sizeof *steps_ms; i++) {
        struct ag_pairs p = {0};
        double now = 1e9;
        for (uint64_t ops = 0; !p.trials && now < 12e9; ops += 80) /* half as long on average */
            now += ag_pairs_choose(&p, (uint64_t)now, ops)
                       ? 1.1e6
                       : (double)(rig_random(&seed) % 1001) / 1000 * steps_ms[i] * 1e6;
        assert_int_equal(p.trials, 1);
        assert_true(p.second);
    }
}

/* A comparison without an answer ends, and the last answer holds. */
static void test_no_answer(void **state)
{
    (void)state;
    struct ag_pairs p = {0};
    play(&p, &(struct play){.gain = 1.2, .noise = 0.2}, 3);
    assert_true(p.second);
    uint32_t trials = p.trials;
    uint64_t ops = 1000000, now = p.next_ns, tried = 0;
    for (uint64_t end = now + 10000000000; now < end; now += 1000000, ops++) { /* too few to say */
        ag_pairs_choose(&p, now, ops);
        tried += p.tries;
        if (!p.tries)
            assert_true(p.second);
    }
    assert_int_equal(p.trials, trials);
    rig_at_least((double)tried, 2 * 47);
    rig_at_most((double)tried, 3 * 49); /* ever more rarely, three spans each */
    p = (struct ag_pairs){.second = true, .last = true};
    now = goes_on(&p, now, ops);
    uint64_t began = now;
    for (; p.tries; now += 100000) { /* a pause in every second span, but for the first two */
        ops += 10;
        if (now > began + 40000000 && now % 32000000 == 0)
            now += 60000000;
        ag_pairs_choose(&p, now, ops);
    }
    assert_int_equal(p.trials, 0);
    assert_true(p.second);
    rig_at_least((double)(now - began), 1e9);
    rig_at_most((double)(now - began), 1.1e9);
    now = goes_on(&p, p.next_ns, ops) + 100000000000; /* a pause longer than any rest */
    ag_pairs_choose(&p, now, ops);
    assert_false(p.tries);
    now += 512000000 - now % 256000000 + 200000000; /* nor does one begin late */
    p.next_ns = now - 200000000;
    ag_pairs_choose(&p, now, ops);
    assert_false(p.tries);
    assert_true(p.next_ns > now && p.next_ns % 256000000 == 0);
    now = goes_on(&p, p.next_ns, ops);
    ag_pairs_abort(&p); /* given up from outside */
    assert_false(p.tries);
    assert_true(ag_pairs_choose(&p, now, ops));
    assert_false(p.tries);
    now = goes_on(&p, now, ops);
    assert_int_equal((now - 1000000) / 256000000, (now - 2000000) / 256000000 + 1);
}

/* Goes on through a comparison, 1 ms a step, in which the spans of even numbers go twice as fast.
 * Where time jumps, nobody asks: the 10 ms from the second on of a span, so that too little of it
 * counts, or the last two of one and four more spans. Returns how many comparisons had an answer,
 * of the first one alone.
 */
static uint32_t compares(bool jumps_in_odd, uint64_t from_ms, uint64_t to_ms)
{
    struct ag_pairs p = {0};
    uint64_t now = goes_on(&p, 1000000000, 0), ops = 1000000;
    while (p.tries) {
        bool odd = now / AG_PAIRS_SPAN_NS % 2;
        uint64_t ms = now % AG_PAIRS_SPAN_NS / 1000000;
        now += odd == jumps_in_odd && ms == from_ms ? (to_ms - from_ms) * 1000000 : 1000000;
        ag_pairs_choose(&p, now, ops += odd ? 100 : 200);
    }
    return p.trials;
}

/* Only spans of both ways that follow each other make a pair, and none with a pause in it. */
static void test_pairs_of_neighbours(void **state)
{
    (void)state;
    assert_int_equal(compares(false, 1, 2), 1);
    assert_int_equal(compares(false, 1, 11), 0);
    assert_int_equal(compares(true, 14, 80), 0);
}

/* Comparing again and again costs less and less. */
static void test_rarely(void **state)
{
    (void)state;
    struct ag_pairs p = {0};
    play(&p, &(struct play){.gain = 0.5, .noise = 0.1}, 120);
    assert_false(p.last);
    rig_at_least(p.trials, 4);
    rig_at_most(p.trials, 7);
}

/* Two processes that began at different times go the same way at the same time. */
static void test_ranks(void **state)
{
    (void)state;
    struct ag_pairs ranks[2] = {{0}};
    uint64_t differ = 0, both = 0, ops = 0;
    for (uint64_t now = 5000000000; now < 40000000000; now += 20000, ops++) {
        bool late = now > 5100000000, way[2] = {ag_pairs_choose(&ranks[0], now, ops), false};
        if (!late)
            continue;
        way[1] = ag_pairs_choose(&ranks[1], now + 7000, ops + 9);
        if (ranks[0].tries && ranks[1].tries) {
            both++;
            differ += way[0] != way[1];
        }
    }
    assert_int_equal(ranks[0].trials, ranks[1].trials);
    rig_at_least(ranks[0].trials, 3);
    rig_at_least((double)both, 3 * 0.09e9 / 20000); /* nearly all the time that they compare */
    rig_at_most((double)differ / (double)both, 0.001);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_choice),
        cmocka_unit_test(test_changes),
        cmocka_unit_test(test_pairs_of_neighbours),
        cmocka_unit_test(test_rarely),
        cmocka_unit_test(test_first_way_until_compared),
        cmocka_unit_test(test_far_slower),
        cmocka_unit_test(test_long_steps),
        cmocka_unit_test(test_no_answer),
        cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_ends_early),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
