/* test_cuts.c - what a cut (pause.c) changes in a plan, what it leaves, and what goes with a plan.
 */
#include "rig.h"
#include <time.h>

/* Waits for the watchdog, if anything is deferred, and `ns` more. */
static bool pause_for(struct rig *r, uint64_t ns)
{
    bool waits = ag_engine_deferred(&r->engine) > 0;
    if (waits)
        rig_pause(r);
    r->now += ns;
    return waits;
}

/* Turns of `ops` ops until the program has paused `pauses` times behind op `at`, where it stops. */
static void until_paused(struct rig *r, uint32_t ops, uint32_t at, uint32_t pauses)
{
    for (uint32_t i = 0; pauses; i++) {
        rig_op(r, rig_key(1, i % ops));
        if (i % ops == at)
            pauses -= pause_for(r, 0);
    }
}

/* The budget gives back the graphs of a plan that a cut has just made. None comes again. */
static void test_dropped_behind_a_cut(void **state)
{
    (void)state;
    struct rig *r = rig_open(NULL);
    r->gap = 20000;
    until_paused(r, 20, 9, 3);
    rig_op(r, rig_key(2, 0)); /* the stream leaves the loop for an op */
    struct ag_sequence *b = ag_policy_victim(&r->engine.policy);
    assert_non_null(b);
    assert_true(ag_policy_drop_graphs(&r->engine.policy, b));
    assert_int_equal(r->graphs_live, 0);
    for (uint32_t i = 10; i < 200; i++)
        rig_op(r, rig_key(1, i % 20));
    rig_close(r);
}

static void drop_all(void *policy, struct ag_sequence *sequence)
{
    ag_policy_drop_graphs(policy, sequence);
}

/* A cut goes at a sync point, at which all graphs are given back as well. */
static void test_dropped_at_a_sync(void **state)
{
    (void)state;
    for (int profit = 0; profit < 2; profit++) {
        struct ag_policy_config config;
        ag_policy_defaults(&config);
        config.profit = profit;
        struct rig *r = rig_open(&config);
        bool dropped = false;
        r->gap = 3000;
        for (uint32_t step = 0; step < 600; step++) {
            for (uint32_t i = 0; i < 60; i++) {
                rig_op(r, rig_key(1, i));
                if (step < 30 && i == 37)
                    pause_for(r, 0);
            }
            rig_sync(r);
            if (step <= 100 || dropped || !r->engine.policy.state->retired.chunks)
                continue;
            dropped = true;
            ag_policy_each(&r->engine.policy, drop_all, &r->engine.policy);
            assert_int_equal(r->graphs_live, 0);
        }
        assert_true(dropped);
        rig_close(r);
    }
}

/* A loop is cut, and left at once for another one with chunks as long. */
static void test_others_take_nothing(void **state)
{
    (void)state;
    struct rig *r = rig_open(NULL);
    r->gap = 20000;
    until_paused(r, 40, 9, 3);
    for (uint32_t i = 0; i < 800; i++)
        rig_op(r, rig_key(2, i % 44));
    rig_close(r);
}

/* A loop runs for some turns, and is left at the same place again and again: at a sync, or for an
 * op that is none of its. That place is no place of each turn, so the loop's chunks stay long. */
static void test_loops_are_left(void **state)
{
    static const uint32_t periods[] = {1, 2, 5, 20};
    (void)state;
    for (uint32_t i = 0; i < 4; i++)
        for (uint32_t more = 0; more < 2 && more < periods[i]; more++)
            for (int sync = 0; sync < 2; sync++) {
                struct rig *r = rig_open(NULL);
                r->gap = 3000;
                for (uint32_t run = 0; run < 120; run++) {
                    if (run == 60)
                        rig_mark(r);
                    for (uint32_t op = 0; op < 600 / periods[i] * periods[i] + 3 * more; op++)
                        rig_op(r, rig_key(1, op % periods[i]));
                    if (sync)
                        rig_sync(r);
                    else
                        rig_op(r, rig_key(2, 0));
                }
                rig_at_least(rig_ops_per_launch(r), 3.3);
                rig_close(r);
            }
}

/* A step with a sync, polled behind op 17: a short chunk follows, as at the beginning; three pauses
 * make the cut, which then counts for as many runs as a first one. */
static void test_behind_a_cut(void **state)
{
    (void)state;
    struct rig *r = rig_open(NULL);
    uint32_t begin = 0, pauses = 0;
    for (uint32_t step = 0; step < 60; step++) {
        for (uint32_t i = 0; i < 60; i++) {
            rig_op(r, rig_key(1, i));
            if (i == 16)
                pauses += pause_for(r, 10000);
        }
        rig_sync(r);
    }
    const struct ag_sequence *b = r->engine.policy.state->sequence;
    assert_non_null(b);
    assert_int_equal(pauses, 3);
    assert_int_equal(b->num_cuts, 1);
    assert_in_range(b->cuts[0].left, 4096 - 60, 4096);
    for (uint32_t i = 0; i < b->plan.num_chunks; i++) {
        const struct ag_chunk *chunk = &b->plan.chunks[i];
        assert_false(chunk->first < 17 && chunk->first + chunk->count > 17);
        begin += ag_policy_awaited(&r->engine.policy, chunk);
        assert_int_equal(ag_chunk_behind(chunk), b->plan.num_chunks - 1 - i);
        if (chunk->first == 17)
            rig_at_most(chunk->count, 4);
    }
    assert_int_equal(begin, 2); /* the first one, and the one behind the cut */
    rig_close(r);
}

/* Segments of three turns, polled within, once or in each turn; then the same ops as a loop that
 * nobody polls: the unit in which places count has become shorter. */
static void test_shorter_unit(void **state)
{
    (void)state;
    for (uint32_t polls = 1; polls <= 3; polls += 2) {
        struct rig *r = rig_open(NULL);
        for (uint32_t step = 0; step < 20000; step++) {
            if (step == 15000)
                rig_mark(r);
            for (uint32_t i = 0; i < 60; i++) {
                rig_op(r, rig_key(1, i % 20));
                if (step < 100 && (polls == 1 ? i == 29 : i % 20 == 9))
                    pause_for(r, 10000);
            }
            if (step < 100)
                rig_sync(r);
        }
        rig_at_least(rig_ops_per_launch(r), 50);
        rig_close(r);
    }
}

/* Steps that begin alike take the plan of each other. When nobody polls there any more, the cut
 * goes from all of them. */
static void test_goes_from_all(void **state)
{
    (void)state;
    struct rig *r = rig_open(NULL);
    for (uint32_t step = 0; step < 30000; step++) {
        for (uint32_t i = 0; i < 60; i++) {
            rig_op(r, rig_key(i < 40 ? 1 : 2 + step % 4, i));
            if (step < 200 && i == 16)
                pause_for(r, 10000);
        }
        rig_sync(r);
    }
    uint32_t steps = 0;
    for (struct ag_sequence *e = r->engine.policy.state->by_id; e; e = e->hh.next) {
        steps += e->len == 60;
        for (uint32_t i = 0; i < e->plan.num_chunks; i++)
            assert_int_not_equal(e->plan.chunks[i].first, 17);
        assert_false(ag_has_cuts(e));
    }
    assert_int_equal(steps, 4);
    rig_close(r);
}

/* A short loop is polled for a while, and then no more, on a host that is slower by then: all its
 * chunks lie behind a cut, so its pace is not known. */
static void test_slower_than_known(void **state)
{
    (void)state;
    for (uint32_t ops = 1; ops <= 4; ops++) {
        struct rig *r = rig_open(NULL);
        r->gap = 100;
        for (uint32_t step = 0; step < 60000; step++) {
            if (step == 3000)
                r->gap = 400;
            if (step == 50000)
                rig_mark(r);
            for (uint32_t i = 0; i < ops; i++)
                rig_op(r, rig_key(1, i));
            if (step >= 2000 && step < 3000)
                pause_for(r, 10000);
        }
        rig_at_least(rig_ops_per_launch(r), 30);
        rig_close(r);
    }
}

/* Thirty sequences begin alike and wait in there. One is cut, the others take its plan, and know
 * that the wait is not the pace. */
static void test_alike(void **state)
{
    (void)state;
    struct rig *r = rig_open(NULL);
    uint64_t seed = 11;
    uint32_t waits = 0;
    r->gap = 100;
    for (uint32_t step = 0; step < 6000; step++) {
        uint32_t body = (uint32_t)(rig_random(&seed) % 30);
        for (uint32_t i = 0; i < 20; i++) {
            rig_op(r, rig_key(1, i));
            if (i == 9)
                waits += pause_for(r, 10000);
        }
        for (uint32_t i = 0; i < 8; i++)
            rig_op(r, rig_key(10 + body, i));
        rig_sync(r);
        if (step > 3000)
            assert_in_range(ag_policy_gap(&r->engine.policy), 50, 200);
    }
    rig_at_most(waits, 30);
    rig_close(r);
}

/* A long step that is polled now and then only: the cut comes and goes, and each time only the
 * chunks at the place get new graphs. */
static void test_comes_and_goes(void **state)
{
    (void)state;
    enum { EACH = 534, TIMES = 40 };
    struct rig *r = rig_open(NULL);
    r->gap = 20000;
    for (uint32_t step = 0; step < TIMES * EACH; step++) {
        if (step == TIMES / 2 * EACH)
            rig_mark(r);
        for (uint32_t i = 0; i < 600; i++) {
            rig_op(r, rig_key(1, i));
            if (i == 21 && step % EACH < 4)
                pause_for(r, 10000);
        }
        rig_sync(r);
    }
    rig_at_most((double)rig_built(r), 10 * TIMES / 2);
    rig_close(r);
}

/* A loop that has been cut, and is so no more, is not cut at all where the host is fast. */
static void test_cut_no_more(void **state)
{
    (void)state;
    struct rig *r = rig_open(NULL);
    uint32_t pauses = 0;
    r->gap = 220;
    for (uint32_t turn = 0; turn < 60000; turn++) {
        if (turn == 50000)
            rig_mark(r);
        for (uint32_t i = 0; i < 20; i++) {
            rig_op(r, rig_key(1, i));
            if (i == 7 && turn > 50 && pauses < 3)
                pauses += pause_for(r, 0);
        }
    }
    assert_int_equal(pauses, 3);
    rig_at_least(rig_ops_per_launch(r), 59);
    rig_close(r);
}

static double processor_ns(void)
{
    struct timespec t;
    assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t), 0);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Of an op of a step of `ops`, with another op in between in one place of ten, each time elsewhere:
 * in the end the step has a cut in nearly every place. The fastest of a few times. */
static double with_cuts(uint32_t ops)
{
    struct rig *r = rig_open(NULL);
    double best = 1e18;
    uint64_t seed = 1;
    for (uint32_t window = 0; window < 6; window++) {
        double began = processor_ns();
        for (uint32_t step = 0; step < 16000 / ops; step++) {
            for (uint32_t i = 0; i < ops; i++) {
                if (rig_random(&seed) % 10 == 0)
                    rig_op(r, rig_key(2, 0));
                rig_op(r, rig_key(1, i));
            }
            rig_sync(r);
        }
        double took = (processor_ns() - began) / 16000;
        if (window >= 2 && took < best)
            best = took;
    }
    rig_close(r);
    return best;
}

/* An op takes no longer in a sequence of many cuts: with the 640 of this one 14 times as long as
 * with 40, before they were kept in order. */
static void test_many_cuts(void **state)
{
    (void)state;
    double few = with_cuts(40), many = with_cuts(640);
    rig_at_most(many / few, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dropped_behind_a_cut),
        cmocka_unit_test(test_dropped_at_a_sync),
        cmocka_unit_test(test_others_take_nothing),
        cmocka_unit_test(test_loops_are_left),
        cmocka_unit_test(test_behind_a_cut),
        cmocka_unit_test(test_shorter_unit),
        cmocka_unit_test(test_goes_from_all),
        cmocka_unit_test(test_slower_than_known),
        cmocka_unit_test(test_alike),
        cmocka_unit_test(test_comes_and_goes),
        cmocka_unit_test(test_cut_no_more),
        cmocka_unit_test(test_many_cuts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
