/* test_builds.c - builds that fail, are declined or late; breaks; forgetting; graphs dropped. */
#include "rig.h"

static void steps(struct rig *r, uint32_t n, uint32_t len)
{
    for (uint32_t step = 0; step < n; step++) {
        for (uint32_t i = 0; i < len; i++)
            rig_op(r, rig_key(len, i));
        rig_sync(r);
    }
}

static void loop(struct rig *r, uint32_t n, uint32_t len)
{
    for (uint32_t i = 0; i < n * len; i++)
        rig_op(r, rig_key(len, i % len));
}

/* Failed builds are tried again, ever more rarely, and succeed in the end. */
static void test_failed_builds(void **state)
{
    (void)state;
    struct rig *r = rig_open(NULL);
    r->fail_percent = 100;
    steps(r, 3000, 20);
    assert_int_equal(r->graphs_built, 0);
    assert_int_equal(r->replayed, 0);
    r->fail_percent = 0;
    steps(r, 5000, 20);
    assert_true(r->graphs_built > 0);
    rig_mark(r);
    steps(r, 100, 20);
    rig_at_least(rig_replayed(r), 99);
    rig_close(r);
}

static void test_some_builds_fail(void **state)
{
    (void)state;
    struct rig *r = rig_open(NULL);
    r->fail_percent = 30;
    r->decline_percent = 30;
    r->build_delay = 7;
    steps(r, 1000, 200);
    loop(r, 2000, 15);
    rig_mark(r);
    steps(r, 400, 200);
    rig_at_least(rig_replayed(r), 90);
    rig_close(r);
}

/* Graphs that cannot be launched any more are given up and built again later; in a loop of one
 * chunk the next turn has begun by then. */
static void test_launches_fail(void **state)
{
    (void)state;
    for (uint32_t kind = 0; kind < 3; kind++) {
        struct rig *r = rig_open(NULL);
        steps(r, 20, 30);
        loop(r, 200, 10);
        r->launch_fail_percent = kind == 2 ? 100 : 20;
        for (int i = 0; i < 100; i++) {
            if (kind != 1)
                steps(r, 20, 30);
            if (kind != 0)
                loop(r, 20, 10);
        }
        assert_true(r->covered + r->flushed > 0);
        r->launch_fail_percent = 0;
        steps(r, 5000, 30);
        loop(r, 5000, 10);
        rig_mark(r);
        loop(r, 100, 10);
        steps(r, 100, 30);
        rig_at_least(rig_replayed(r), 98);
        rig_close(r);
    }
}

/* The answer for a chunk comes from another thread: it may change the state and nothing else. */
static void test_answer_writes_the_state_only(void **state)
{
    (void)state;
    struct ag_sequence sequence = {.visits = 5};
    struct ag_chunk chunk = {.sequence = &sequence, .count = 4, .state = AG_CHUNK_BUILDING}, before;
    for (int ok = 0; ok < 2; ok++) {
        memcpy(&before, &chunk, sizeof(chunk));
        ag_policy_built(&chunk, ok);
        assert_int_equal(chunk.state, ok ? AG_CHUNK_READY : AG_CHUNK_FAILED);
        before.state = chunk.state;
        assert_memory_equal(&before, &chunk, sizeof(chunk));
    }
}

/* The watchdog strikes now and then. */
static void test_breaks(void **state)
{
    (void)state;
    for (int sync = 0; sync < 2; sync++) {
        struct rig *r = rig_open(NULL);
        uint64_t seed = 8;
        for (uint32_t step = 0; step < 3000; step++) {
            if (step == 100)
                rig_mark(r);
            for (uint32_t i = 0; i < 100; i++) {
                rig_op(r, rig_key(1, i));
                if (rig_random(&seed) % 500 == 0)
                    rig_break(r);
            }
            if (sync)
                rig_sync(r);
        }
        rig_at_least(rig_replayed(r), 90);
        rig_close(r);
    }
}

/* Told to look away, be it within a chunk's recording or after one, it takes the sequence up again
 * in the step that follows. */
static void test_rests(void **state)
{
    (void)state;
    for (int sync = 0; sync < 2; sync++) {
        struct rig *r = rig_open(NULL);
        uint64_t seed = 9;
        for (uint32_t step = 0; step < 2000; step++) {
            bool rests = step % 20 == 19;
            if (step == 100)
                rig_mark(r);
            for (uint32_t i = 0; i < 100; i++) {
                rig_op(r, rig_key(1, i));
                if (rests && !ag_policy_deferred(&r->engine.policy) && !r->engine.policy.dormant &&
                    rig_random(&seed) % 10 == 0)
                    rig_rest(r, 30);
            }
            if (sync)
                rig_sync(r);
        }
        rig_at_least((double)r->dormant, 600);
        rig_at_least(rig_replayed(r), 90);
        rig_at_most(rig_flushed(r), 1);
        rig_close(r);
    }
}

/* A break in every chunk: the sequence cools down, deferral is not insisted on. */
static void test_constant_breaks(void **state)
{
    (void)state;
    struct rig *r = rig_open(NULL);
    steps(r, 10, 40);
    rig_mark(r);
    for (uint32_t step = 0; step < 3000; step++) {
        for (uint32_t i = 0; i < 40; i++) {
            rig_op(r, rig_key(40, i));
            if (i % 3 == 1)
                rig_break(r);
        }
        rig_sync(r);
    }
    rig_at_most(rig_flushed(r), 30);
    rig_mark(r);
    steps(r, 200, 40);
    rig_mark(r);
    steps(r, 200, 40);
    rig_at_least(rig_replayed(r), 99); /* and taken up again */
    rig_close(r);
}

/* Keys change their meaning. */
static void test_forget(void **state)
{
    (void)state;
    struct rig *r = rig_open(NULL);
    for (int i = 0; i < 5; i++) {
        steps(r, 20, 30);
        loop(r, 100, 12);
        rig_mark(r);
        loop(r, 50, 12);
        rig_at_least(rig_replayed(r), 95);
        rig_invalidate(r);
        uint64_t replayed = r->replayed;
        for (int k = 0; k < 12; k++)
            rig_op(r, rig_key(12, k));
        rig_sync(r);
        assert_int_equal(r->replayed, replayed);
    }
    rig_close(r);
}

/* The caller takes graphs back under memory pressure, at any moment. */
static void test_drop_graphs(void **state)
{
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        struct rig *r = rig_open(NULL);
        uint64_t seed = 11, dropped = 0, refused = 0;
        r->build_delay = 5;
        for (uint32_t step = 0; step < 3000; step++) {
            uint32_t signature = kind ? 0 : rig_random(&seed) % 4;
            for (uint32_t i = 0; i < 30 + signature; i++) {
                rig_op(r, rig_key(signature, i));
                if (rig_random(&seed) % 100 == 0) {
                    struct ag_sequence *b = ag_policy_victim(&r->engine.policy);
                    if (b && ag_policy_drop_graphs(&r->engine.policy, b)) {
                        assert_true(b->last_use > 0);
                        assert_int_equal(b->plan.num_chunks, 0);
                        dropped++;
                    } else {
                        refused++;
                    }
                }
            }
            if (!kind)
                rig_sync(r);
        }
        assert_true(kind || dropped > 100);
        assert_true(kind == 0 || refused > 0);
        rig_mark(r);
        for (uint32_t step = 0; step < 100; step++) {
            for (uint32_t i = 0; i < 30; i++)
                rig_op(r, rig_key(0, i));
            if (!kind)
                rig_sync(r);
        }
        rig_at_least(rig_replayed(r), 80);
        rig_close(r);
    }
}

/* A stream that does one thing again and again stops, or ends: its graphs can make room for those
 * of others. While an op of the sequence has come they cannot. */
static void test_victim_expected(void **state)
{
    (void)state;
    struct rig *r = rig_open(NULL);
    for (uint32_t step = 0; step < 40; step++) {
        for (uint32_t i = 0; i < 20; i++)
            rig_op(r, rig_key(0, i));
        rig_sync(r);
    }
    assert_true(r->graphs_live > 0);
    rig_op(r, rig_key(0, 0));
    assert_null(ag_policy_victim(&r->engine.policy));
    for (uint32_t i = 1; i < 20; i++)
        rig_op(r, rig_key(0, i));
    rig_sync(r);
    struct ag_sequence *b = ag_policy_victim(&r->engine.policy);
    assert_non_null(b);
    assert_true(ag_policy_drop_graphs(&r->engine.policy, b));
    assert_int_equal(r->graphs_live, 0);
    assert_null(ag_policy_victim(&r->engine.policy));
    rig_close(r);
}

/* A stream ends, and later another one goes on with its engine. */
static void test_parked(void **state)
{
    (void)state;
    struct rig *r = rig_open(NULL);
    for (uint32_t step = 0; step < 200; step++) {
        for (uint32_t i = 0; i < 20; i++)
            rig_op(r, rig_key(0, i));
        rig_sync(r);
        if (step % 10 < 9)
            continue;
        assert_true(ag_engine_park(&r->engine));
        assert_int_equal(ag_engine_state(&r->engine), AG_ENGINE_CLOSED);
        if (step == 99) /* meanwhile what it knows becomes invalid */
            ag_engine_invalidate(&r->engine);
        assert_int_equal(r->graphs_live > 0, step != 99);
        ag_engine_reopen(&r->engine);
        if (step == 49)
            rig_mark(r);
    }
    rig_at_least(rig_replayed(r), 90);
    rig_close(r);
}

static void drop_it(void *policy, struct ag_sequence *sequence)
{
    assert_true(ag_policy_drop_graphs(policy, sequence));
    assert_int_equal(sequence->plan.num_chunks, 0);
}

/* At the beginning of a segment all can go, the sequence that is expected next included. */
static void test_drop_expected(void **state)
{
    (void)state;
    struct rig *r = rig_open(NULL);
    for (int round = 0; round < 3; round++) {
        for (uint32_t step = 0; step < 50; step++) {
            for (uint32_t i = 0; i < 30; i++)
                rig_op(r, rig_key(0, i));
            rig_sync(r);
        }
        rig_mark(r);
        for (uint32_t i = 0; i < 30; i++)
            rig_op(r, rig_key(0, i));
        rig_sync(r);
        rig_at_least(rig_replayed(r), 80);
        ag_policy_each(&r->engine.policy, drop_it, &r->engine.policy);
    }
    rig_close(r);
}

static uint32_t counted;
static void count_sequence(void *context, struct ag_sequence *sequence)
{
    assert_ptr_equal(context, &counted);
    assert_true(sequence->len > 0);
    counted++;
}

static void test_each(void **state)
{
    (void)state;
    struct rig *r = rig_open(NULL);
    steps(r, 3, 5);
    steps(r, 3, 6);
    counted = 0;
    ag_policy_each(&r->engine.policy, count_sequence, &counted);
    assert_int_equal(counted, 2);
    rig_close(r);
}

/* Chunks of a fixed length, as asked for. */
static void test_fixed_chunk(void **state)
{
    (void)state;
    static const uint32_t lengths[] = {1, 4, 16, 64};
    for (int i = 0; i < 4; i++) {
        struct ag_policy_config config;
        ag_policy_defaults(&config);
        config.fixed_chunk = lengths[i];
        struct rig *r = rig_open(&config);
        steps(r, 5, 128);
        rig_mark(r);
        steps(r, 50, 128);
        rig_at_least(rig_replayed(r), 99);
        assert_int_equal((int)rig_ops_per_launch(r), (int)lengths[i]);
        rig_close(r);
    }
}

/* Graphs that the ops [from, to) of a step of 12 in chunks of four launch, and those of these ops
 * that are submitted by themselves. */
static struct rig_given part(struct rig *r, uint32_t from, uint32_t to)
{
    struct rig_given all = {0};
    for (uint32_t i = from; i < to; i++) {
        struct rig_given given = rig_op(r, rig_key(1, i));
        all.graphs += given.graphs;
        all.ops += given.graphs ? 0 : given.ops;
    }
    return all;
}

/* A chunk behind another one of the same visit is looked at as well as the first: whether it rests,
 * and whether its graph is still there when its last op has come. */
static void test_later_chunks(void **state)
{
    (void)state;
    struct ag_policy_config config;
    ag_policy_defaults(&config);
    config.fixed_chunk = 4;
    config.profit = 0;
    struct rig *r = rig_open(&config);
    for (int step = 0; step < 20; step++) {
        part(r, 0, 12);
        rig_sync(r);
    }
    for (int which = 0; which < 3; which++) {
        part(r, 0, 6);
        struct ag_chunk *chunks = r->engine.policy.state->sequence->plan.chunks;
        assert_int_equal(r->engine.policy.state->sequence->plan.num_chunks, 3);
        if (which == 1)
            atomic_store(&chunks[1].state, AG_CHUNK_FAILED);
        if (which == 2)
            chunks[2].cold_until = UINT64_MAX;
        struct rig_given second = part(r, 6, 8), third = part(r, 8, 12);
        assert_int_equal(second.graphs, which != 1);
        assert_int_equal(second.ops, which == 1 ? 4 : 0);
        assert_int_equal(third.graphs, which != 2);
        assert_int_equal(third.ops, which == 2 ? 4 : 0);
        atomic_store(&chunks[1].state, AG_CHUNK_READY);
        chunks[2].cold_until = 0;
        rig_sync(r);
    }
    rig_close(r);
}

/* A step of 500 ops of which in each later step only a part comes, from the middle of a chunk to
 * the end of another, between ops in random order: the stream does not go dormant for those. */
static void test_middle_alone(void **state)
{
    (void)state;
    struct ag_policy_config config;
    ag_policy_defaults(&config);
    config.fixed_chunk = 4;
    struct rig *r = rig_open(&config);
    uint64_t seed = 7;
    steps(r, 60, 500);
    rig_mark(r);
    for (int step = 0; step < 4000; step++) {
        for (uint32_t i = 0; i < 16 + 194; i++)
            rig_op(r, i < 8 || i >= 8 + 194 ? rig_key(2, rig_random(&seed) % 64)
                                            : rig_key(500, i - 8 + 10));
        rig_sync(r);
    }
    assert_int_equal(r->dormant, 0);
    rig_at_least(rig_replayed(r), 85);
    rig_close(r);
}

/* A step of `len` ops, of which the first six are those of any other such step. */
static void begun_alike(struct rig *r, uint32_t len)
{
    for (uint32_t i = 0; i < len; i++)
        rig_op(r, rig_key(i < 6 ? 1 : len, i));
    rig_sync(r);
}

/* Steps of 66 ops are expected, and some have 90, which must go eagerly: by the profitability
 * check, or because the program measures. They turn out to be those in the middle of a chunk that
 * both have. That chunk may go as a graph, the next ones may not. */
static void test_entered_inside_a_chunk(void **state)
{
    (void)state;
    for (int measured = 0; measured < 2; measured++) {
        struct ag_policy_config config;
        ag_policy_defaults(&config);
        config.fixed_chunk = 4;
        config.profit = true;
        struct rig *r = rig_open(&config);
        struct ag_policy_state *s = r->engine.policy.state;
        for (int step = 0; step < 400; step++)
            begun_alike(r, step % 4 == 3 || (step > 40 && step < 60) ? 90 : 66);
        r->now += 2 * AG_MEASURE_LONGEST_NS;
        struct ag_sequence *longer = NULL;
        for (struct ag_sequence *b = s->by_id; b; b = b->hh.next) {
            b->first_seen_ns = 1;
            longer = b->len == 90 ? b : longer;
        }
        assert_non_null(longer);
        uint64_t seed = 3, ops = 0, replayed = 0;
        for (int step = 0; step < 400; step++) {
            bool comes = rig_random(&seed) % 4 == 0;
            const struct ag_sequence *expected = s->sequence;
            if (comes && measured) {
                longer->first_seen_ns = r->now;
                r->engine.policy.measured = 256;
            } else if (comes) {
                longer->profit.mode = AG_PROFIT_EAGER;
                longer->profit.left = longer->profit.patience = 100000;
            }
            uint64_t before = r->replayed;
            begun_alike(r, comes ? 90 : 66);
            if (comes && expected && expected != longer) {
                ops += 90;
                replayed += r->replayed - before;
            }
        }
        rig_at_least((double)ops, 90 * 40);
        rig_at_most(100.0 * (double)replayed / (double)ops, 20);
        rig_close(r);
    }
}

/* The thresholds of the configuration. */
static void test_thresholds(void **state)
{
    (void)state;
    struct ag_policy_config config;
    ag_policy_defaults(&config);
    config.min_repeats = 10;
    config.min_ops = 5;
    struct rig *r = rig_open(&config);
    steps(r, 9, 20);
    assert_int_equal(r->graphs_built, 0);
    steps(r, 2, 20);
    assert_true(r->graphs_built > 0);
    rig_mark(r);
    steps(r, 100, 4);
    assert_int_equal(rig_built(r), 0);
    rig_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_failed_builds),
        cmocka_unit_test(test_some_builds_fail),
        cmocka_unit_test(test_breaks),
        cmocka_unit_test(test_rests),
        cmocka_unit_test(test_constant_breaks),
        cmocka_unit_test(test_forget),
        cmocka_unit_test(test_drop_graphs),
        cmocka_unit_test(test_victim_expected),
        cmocka_unit_test(test_parked),
        cmocka_unit_test(test_drop_expected),
        cmocka_unit_test(test_each),
        cmocka_unit_test(test_launches_fail),
        cmocka_unit_test(test_answer_writes_the_state_only),
        cmocka_unit_test(test_fixed_chunk),
        cmocka_unit_test(test_later_chunks),
        cmocka_unit_test(test_middle_alone),
        cmocka_unit_test(test_entered_inside_a_chunk),
        cmocka_unit_test(test_thresholds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
