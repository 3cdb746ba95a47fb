/* test_weigh.c - a stream that is tied to others, with and without graphs, on a clock of the
 * test's own. */
#include "tests/unit/unit.h"
#include "capture/core/weigh.h"
#include "capture/settings/options.h"
#include "capture/tracking/count.h"
#include "capture/tracking/dormancy.h"
#include "capture/tracking/stream.h"
#include "policy/submit.h"
#include "tests/policy/made.h"
#include <time.h>

static uint64_t now_ns;

int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    (void)clock;
    *t = (struct timespec){(time_t)(now_ns / 1000000000), (long)(now_ns % 1000000000)};
    return 0;
}

static void becomes(struct ag_engine *e, bool on)
{
    (void)e;
    (void)on;
}

static void broken(struct ag_engine *e, const char *what)
{
    (void)e;
    fail_msg("%s", what);
}

static const struct ag_engine_world world = {.deferring = becomes, .broken = broken};

struct play {
    uint64_t graph_ns, eager_ns; /* of an op */
    uint32_t ops_a_tie;
    int64_t gain_ns;    /* that the library knows of */
    uint64_t handed_ns; /* of an op if the submitter launches it; 0: it is not asked */
};

/* Every other op is one that a dormant stream does not count: a copy to the host, or one of a
 * branch. */
static enum { NONE, COPIES, OF_BRANCHES } others;

/* The GPU keeps each graph waiting. */
static bool behind;

static struct ag_stream *make(void)
{
    struct ag_policy_config config;
    struct ag_stream *s = aligned_alloc(_Alignof(struct ag_stream), sizeof(*s));
    memset(s, 0, sizeof(*s));
    ag_policy_defaults(&config);
    assert_false(ag_engine_open(&s->engine, &config, &(struct ag_policy_hooks){0}, &world));
    ag_engine_not_replayed(&s->engine, 1); /* so the count of replayed ops is not 0 */
    ag_options.profit = 1;
    now_ns = 5000000000;
    return s;
}

static void drop(struct ag_stream *s)
{
    ag_engine_free(&s->engine);
    free(s);
}

/* The stream goes on for so long. Returns the share of its ops that passed unseen. */
static double play(struct ag_stream *s, const struct play *how, double seconds)
{
    uint64_t end = now_ns + (uint64_t)(seconds * 1e9), ops = 0, dormant = 0;
    struct ag_policy *policy = ag_engine_policy(&s->engine);
    for (; now_ns < end; ops++) {
        bool is_other = others && ops % 2;
        if (ag_dormant_is_active(&s->dormant) && (is_other || ag_dormant_step(&s->dormant))) {
            dormant++;
            now_ns += how->eager_ns;
            continue;
        }
        ag_stream_leaves_dormant(s);
        made_op(policy);
        s->only_awake += is_other && others == COPIES;
        s->of_branches += is_other && others == OF_BRANCHES;
        bool hands =
            how->handed_ns && ag_submit_is_wanted(&s->pairs, policy, s->without.tries, now_ns);
        now_ns += hands ? how->handed_ns : how->graph_ns;
        s->doubt.gain_ns += how->gain_ns;
        if (behind)
            s->ahead.waited_at = ag_stream_ops(s);
        if (ag_policy_counts(policy)->ops % how->ops_a_tie == 0)
            s->ties++;
        ag_weigh_look(s);
    }
    return (double)dormant / (double)ops;
}

static void the_faster_way_is_taken(void **state)
{
    (void)state;
    static const struct {
        struct play how;
        bool eager;
    } cases[] = {
        {{6000, 3000, 10, 1000, 0}, true},       {{3200, 3000, 10, 1000, 0}, true},
        {{3000, 3000, 10, 1000, 0}, false},      {{3000, 6000, 10, 1000, 0}, false},
        {{6000, 3000, 100, 1000, 0}, true},      {{3200, 3000, UINT32_MAX, 400, 0}, true},
        {{3000, 3000, UINT32_MAX, 0, 0}, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ag_stream *s = make();
        uint64_t before = ag_counts[AG_COUNT_WEIGHED];
        play(s, &cases[i].how, 1);
        double share = play(s, &cases[i].how, 20);
        assert_true(cases[i].eager ? share > 0.9 : share < 0.1);
        assert_true(ag_counts[AG_COUNT_WEIGHED] > before);
        drop(s);
    }
}

/* Which way is the faster with graphs is known before they are compared with none. */
static void the_submitter_is_compared_first(void **state)
{
    (void)state;
    static const struct {
        struct play how;
        bool eager;
    } cases[] = {
        {{3200, 3000, 10, 1000, 2500}, false},
        {{3200, 3000, 10, 1000, 4000}, true},
        {{3200, 3000, 10, 1000, 3100}, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ag_stream *s = make();
        int ms = 0, known = 0;
        for (; ms < 2000 && !s->without.tries; ms++) {
            play(s, &cases[i].how, 0.001);
            known += !s->pairs.trials;
        }
        assert_int_equal(s->pairs.trials, 1);
        assert_in_range(ms - known, 0, AG_PAIRS_BEGINS * AG_PAIRS_SPAN_NS / 1000000 + 10);
        double share = play(s, &cases[i].how, 20);
        assert_true(cases[i].eager ? share > 0.9 : share < 0.1);
        drop(s);
    }
}

/* It may not be asked any more, as where there is no processor for it. */
static void a_submitter_that_is_not_asked_is_not_waited_for(void **state)
{
    (void)state;
    struct ag_stream *s = make();
    play(s, &(struct play){3200, 3000, 10, 1000, 2500}, 0.01);
    assert_true(s->pairs.next_ns && !s->pairs.tries);
    play(s, &(struct play){3200, 3000, 10, 1000, 0}, 2);
    assert_true(play(s, &(struct play){3200, 3000, 10, 1000, 0}, 20) > 0.9);
    drop(s);
}

static void both_ways_are_judged_by_what_both_count(void **state)
{
    (void)state;
    for (others = COPIES; others <= OF_BRANCHES; others++) {
        struct ag_stream *s = make();
        play(s, &(struct play){3200, 3000, 10, 1000, 0}, 1);
        assert_true(play(s, &(struct play){3200, 3000, 10, 1000, 0}, 20) > 0.9);
        drop(s);
        s = make();
        play(s, &(struct play){3000, 3000, 10, 1000, 0}, 1);
        assert_true(play(s, &(struct play){3000, 3000, 10, 1000, 0}, 20) < 0.1);
        drop(s);
    }
    others = NONE;
}

static void only_tied_streams_and_those_that_gain_little_are_compared(void **state)
{
    (void)state;
    struct ag_stream *s = make();
    assert_true(play(s, &(struct play){6000, 3000, 200, 600, 0}, 10) == 0);
    assert_true(play(s, &(struct play){6000, 3000, 200, 400, 0}, 10) > 0.5);
    drop(s);
    s = make();
    ag_options.profit = 0;
    assert_true(play(s, &(struct play){6000, 3000, 10, 0, 0}, 10) == 0);
    drop(s);
}

/* What its graphs spare the host does not matter then. It does some ops later. */
static void a_stream_whose_gpu_is_behind_gains_enough(void **state)
{
    (void)state;
    struct ag_stream *s = make();
    behind = true;
    assert_true(play(s, &(struct play){6000, 3000, UINT32_MAX, 400, 0}, 10) == 0);
    behind = false;
    assert_true(play(s, &(struct play){6000, 3000, UINT32_MAX, 400, 0}, 10) > 0.5);
    behind = true; /* ties count whatever the GPU does */
    assert_true(play(s, &(struct play){6000, 3000, 10, 1000, 0}, 10) > 0.5);
    behind = false;
    drop(s);
}

/* The submitter is not compared meanwhile, so a comparison may not stay under way for good. */
static void a_stream_that_is_tied_no_more_ends_its_comparison(void **state)
{
    (void)state;
    struct ag_stream *s = make();
    for (int ms = 0; ms < 2000 && !s->without.tries; ms++)
        play(s, &(struct play){6000, 3000, 10, 1000, 0}, 0.001);
    assert_true(s->without.tries);
    s->ties = 1;
    play(s, &(struct play){6000, 3000, 1000000, 1000, 0}, 0.1);
    assert_false(s->without.tries);
    assert_false(s->without.second);
    drop(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_faster_way_is_taken),
        cmocka_unit_test(the_submitter_is_compared_first),
        cmocka_unit_test(a_submitter_that_is_not_asked_is_not_waited_for),
        cmocka_unit_test(both_ways_are_judged_by_what_both_count),
        cmocka_unit_test(only_tied_streams_and_those_that_gain_little_are_compared),
        cmocka_unit_test(a_stream_whose_gpu_is_behind_gains_enough),
        cmocka_unit_test(a_stream_that_is_tied_no_more_ends_its_comparison),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
