/* test_submit.c - who makes the launches: for which streams the submitter is wanted, what goes into
 * a ring, and when the submitter is woken, looks, naps and sleeps. */
#include "rig.h"
#include "policy/internal.h"
#include "policy/submit.h"

enum { MS = 1000000 };
static const struct ag_submit_offer chunk = {0}, single = {.single = true},
                                    alone = {.by_itself = true}, many = {.wakes = true};

static void put(struct ag_ring *r, bool is_single, uint32_t n)
{
    while (n--)
        if (is_single && ag_ring_op_room(r, 0))
            ag_ring_put_op(r, 1);
        else
            assert_true(!is_single && ag_ring_put(r, r, 2, (uint8_t[1]){0}, 0));
}

static void test_streams_that_may_gain(void **state)
{
    (void)state;
    struct rig *r = rig_open(NULL);
    struct ag_policy *policy = ag_engine_policy(&r->engine);
    struct ag_pairs p = {.second = true};
    policy->state->gap = AG_SLOW_HOST_NS - 1;
    assert_false(ag_submit_may_gain(&p, policy, true));
    policy->state->gap = AG_SLOW_HOST_NS;
    assert_true(ag_submit_may_gain(&p, policy, true));
    assert_false(ag_submit_may_gain(&p, policy, false));
    assert_true(p.second);
    p.tries = true; /* a comparison goes on, whatever the host's pace */
    ag_policy_launched_by(policy, false, true);
    policy->state->gap = 0;
    assert_true(ag_submit_may_gain(&p, policy, true));
    assert_true(p.tries && policy->state->compares);
    policy->state->gap = AG_SLOW_HOST_NS;
    assert_false(ag_submit_may_gain(&p, policy, false));
    assert_false(p.tries || policy->state->compares);
    rig_close(r);
    assert_true(ag_submit_gains_by_ops(AG_SUBMIT_SPIN_NS - 1));
    assert_false(ag_submit_gains_by_ops(AG_SUBMIT_SPIN_NS));
}

/* While nothing may be compared, the last answer holds, and a comparison under way has none. */
static void test_comparison(void **state)
{
    (void)state;
    struct rig *r = rig_open(NULL);
    struct ag_policy *policy = ag_engine_policy(&r->engine);
    struct ag_pairs p = {.second = true, .last = true, .next_ns = 1000 * MS};
    assert_true(ag_submit_is_wanted(&p, policy, true, 1000 * MS));
    assert_false(p.tries);
    assert_true(policy->state->by_submitter && !policy->state->compares);
    ag_submit_is_wanted(&p, policy, false, 1000 * MS);
    assert_true(p.tries);
    assert_true(policy->state->by_submitter && policy->state->compares);
    p.second = true;
    p.last = false;
    assert_false(ag_submit_is_wanted(&p, policy, true, 1000 * MS));
    assert_true(p.tries && !policy->state->by_submitter);
    assert_false(policy->state->compares); /* who knows when it goes on */
    rig_close(r);
}

static void test_far_ahead(void **state)
{
    (void)state;
    assert_false(ag_submit_is_far_ahead(1, AG_AHEAD_MOST - 2));
    assert_true(ag_submit_is_far_ahead(1, AG_AHEAD_MOST - 1));
    assert_false(ag_submit_is_far_ahead(0, 2 * AG_AHEAD_MOST)); /* nothing to wait for */
}

static void test_offers(void **state)
{
    (void)state;
    struct ag_submit_offer o = ag_submit_chunk(true, 0, false);
    assert_true(o.by_itself && !o.single && !o.wakes);
    assert_false(ag_submit_chunk(false, 0, false).by_itself);
    assert_false(ag_submit_chunk(true, 1, false).by_itself);
    assert_false(ag_submit_chunk(true, AG_SUBMIT_WORTH_WAKING - 1, false).wakes);
    assert_true(ag_submit_chunk(false, AG_SUBMIT_WORTH_WAKING, false).wakes);
    assert_true(ag_submit_chunk(false, 1, true).wakes); /* what is compared must take part */
    assert_false(ag_submit_chunk(false, 0, true).wakes);
    assert_true(ag_submit_last_comes(1));
    assert_false(ag_submit_last_comes(0) || ag_submit_last_comes(2));
}

static void test_an_idle_submitter_takes(void **state)
{
    (void)state;
    static const struct {
        struct ag_submit_offer offer;
        bool asleep, naps; /* taken then. Awake, it takes anything */
    } cases[] = {{{0}, false, true},
                 {{.single = true}, false, true},
                 {{.by_itself = true}, false, false},
                 {{.wakes = true}, true, true}};
    struct ag_ring r = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ag_submit_offer o = cases[i].offer;
        assert_int_equal(ag_submit_takes(&r, o, AG_SUBMITTER_ASLEEP, true), cases[i].asleep);
        assert_int_equal(ag_submit_takes(&r, o, AG_SUBMITTER_NAPS, true), cases[i].naps);
        assert_true(ag_submit_takes(&r, o, AG_SUBMITTER_AWAKE, true));
        for (int now = AG_SUBMITTER_ABSENT; now <= AG_SUBMITTER_AWAKE; now++)
            assert_true(ag_submit_takes(&r, o, now, false)); /* nothing is chosen */
    }
}

/* Behind what nobody is at, nothing more is put in: the submitter has no processor, or is at
 * another stream. */
static void test_what_waits(void **state)
{
    (void)state;
    struct ag_ring r = {0};
    put(&r, true, AG_SUBMIT_MOST_SINGLES - 1);
    assert_true(ag_submit_takes(&r, chunk, AG_SUBMITTER_AWAKE, true));
    assert_true(ag_submit_takes(&r, single, AG_SUBMITTER_AWAKE, true));
    put(&r, true, 1);
    assert_false(ag_submit_takes(&r, single, AG_SUBMITTER_AWAKE, true));
    assert_false(ag_submit_takes(&r, many, AG_SUBMITTER_ASLEEP, false));
    assert_true(ag_submit_takes(&r, single, AG_SUBMITTER_NAPS, true)); /* it wakes up soon */
    assert_true(ag_ring_take_role(&r));                                /* somebody is at it */
    assert_true(ag_submit_takes(&r, single, AG_SUBMITTER_AWAKE, true));
    free(r.bytes);
    r = (struct ag_ring){0};
    put(&r, false, 1);
    assert_true(ag_submit_takes(&r, single, AG_SUBMITTER_AWAKE, true));
    assert_false(ag_submit_takes(&r, chunk, AG_SUBMITTER_AWAKE, true));
    assert_false(ag_submit_takes(&r, alone, AG_SUBMITTER_AWAKE, true));
    assert_true(ag_submit_takes(&r, chunk, AG_SUBMITTER_NAPS, true));
    assert_true(ag_ring_take_role(&r));
    assert_true(ag_submit_takes(&r, chunk, AG_SUBMITTER_AWAKE, true));
    free(r.bytes);
    assert_false(ag_submit_is_stuck(1000, 1000 + AG_SUBMIT_LONG_NS));
    assert_true(ag_submit_is_stuck(1000, 1001 + AG_SUBMIT_LONG_NS));
}

static void test_wake_up(void **state)
{
    (void)state;
    for (int is_single = 0; is_single < 2; is_single++) {
        struct ag_ring r = {0};
        put(&r, is_single, 1);
        assert_true(ag_submit_must_wake(&r, is_single, AG_SUBMITTER_ASLEEP));
        put(&r, is_single, (is_single ? AG_SUBMIT_MOST_SINGLES : AG_SUBMIT_MOST_WAIT) - 1);
        assert_false(ag_submit_must_wake(&r, is_single, AG_SUBMITTER_NAPS));
        put(&r, is_single, 1);
        assert_true(ag_submit_must_wake(&r, is_single, AG_SUBMITTER_NAPS));
        assert_false(ag_submit_must_wake(&r, is_single, AG_SUBMITTER_AWAKE));
        assert_false(ag_submit_must_wake(&r, is_single, AG_SUBMITTER_ABSENT));
        free(r.bytes);
    }
}

/* Chunks come, so far apart. Returns when the last one did. */
static uint64_t chunks_come(struct ag_submit_pace *p, uint64_t now, uint32_t n, uint64_t apart)
{
    while (n--)
        ag_submit_found(p, p->work + AG_WORK_OF_CHUNK, now += apart);
    return now;
}

static void test_how_long_it_looks(void **state)
{
    (void)state;
    struct ag_submit_pace p = {.last = MS};
    ag_submit_woken(&p, 2 * MS);
    assert_int_equal(ag_submit_until(&p, true), 2 * MS + AG_SUBMIT_BUSY_NS);
    uint64_t now = chunks_come(&p, 2 * MS, 50, AG_SUBMIT_SPIN_NS - 1000);
    assert_int_equal(ag_submit_until(&p, false), now + AG_SUBMIT_SPIN_NS);
    now = chunks_come(&p, now, 50, AG_SUBMIT_SPIN_NS + 1000); /* it looks once */
    assert_int_equal(ag_submit_until(&p, false), now);
    assert_int_equal(ag_submit_until(&p, true), now + AG_SUBMIT_BUSY_NS);
    chunks_come(&p, now, 1, 1000 * (uint64_t)MS); /* a long pause counts little */
    assert_in_range(p.apart, 1, 2 * AG_SUBMIT_SPIN_NS);
    /* as many single launches as make up for a chunk */
    now = p.last;
    for (int i = 0; i < 200; i++)
        ag_submit_found(&p, p.work + 1, now += 5000);
    assert_in_range(p.apart, AG_WORK_OF_CHUNK * 4900, AG_WORK_OF_CHUNK * 5000);
}

/* Naps stay short behind what came last, then grow, and then it sleeps. */
static void test_naps(void **state)
{
    (void)state;
    struct ag_submit_pace p = {.last = MS};
    ag_submit_woken(&p, MS);
    uint64_t now = MS, longest = 0;
    while (!ag_submit_sleeps(&p)) {
        longest = p.nap;
        now += p.nap;
        ag_submit_napped(&p, now);
        if (now <= MS + AG_SUBMIT_BUSY_NS)
            assert_int_equal(p.nap, AG_SUBMIT_NAP_NS);
        else
            assert_int_equal(p.nap, longest + longest / 2);
    }
    assert_true(longest < AG_SUBMIT_LONGEST_NAP_NS);
    assert_in_range(now - MS, AG_SUBMIT_BUSY_NS, 3 * AG_SUBMIT_BUSY_NS);
    ag_submit_woken(&p, now);
    assert_false(ag_submit_sleeps(&p));
    assert_int_equal(ag_submit_since(&p), now);
    p.nap = AG_SUBMIT_LONGEST_NAP_NS; /* what it finds, without having been woken */
    chunks_come(&p, now, 1, 5000);
    assert_int_equal(p.nap, AG_SUBMIT_NAP_NS);
    assert_int_equal(ag_submit_since(&p), now + 5000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_streams_that_may_gain),
        cmocka_unit_test(test_comparison),
        cmocka_unit_test(test_far_ahead),
        cmocka_unit_test(test_offers),
        cmocka_unit_test(test_an_idle_submitter_takes),
        cmocka_unit_test(test_what_waits),
        cmocka_unit_test(test_wake_up),
        cmocka_unit_test(test_how_long_it_looks),
        cmocka_unit_test(test_naps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
