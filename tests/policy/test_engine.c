/*
 * test_engine.c - the engine's states: every change that may be, every one that may not, and what
 * becomes of deferred ops where something does not hold. The first tests give an engine verdicts of
 * their own; the last ones play streams by the rig (rig.h), which checks order and arguments.
 */
#include "rig.h"
#include <stddef.h>
#include <stdio.h>

enum { MOST = 256, OPS = 3 };

static struct {
    struct ag_engine engine;
    uint64_t submitted[MOST]; /* what the arguments said */
    uint32_t count, mistakes, launches, builds, tells;
    bool deferring, flushing, graph_fails;
    uint64_t recorded; /* ops so far */
} it;
static bool no_memory;

void *__real_realloc(void *p, size_t bytes);
void *__wrap_realloc(void *p, size_t bytes);
void *__wrap_realloc(void *p, size_t bytes)
{
    return no_memory ? NULL : __real_realloc(p, bytes);
}

static void submit(struct ag_engine *e, ag_key key, const uint8_t *bytes)
{
    assert_ptr_equal(e, &it.engine);
    assert_true(it.flushing);
    memcpy(&it.submitted[it.count], bytes, sizeof(uint64_t));
    assert_int_equal(key, it.submitted[it.count] + 1);
    it.count++;
}

static bool launch(struct ag_engine *e, struct ag_chunk *chunk, const uint8_t *bytes,
                   uint64_t began)
{
    (void)e;
    assert_false(it.flushing);
    assert_int_equal(began, 7);
    if (it.graph_fails)
        return false;
    for (uint32_t i = 0; i < chunk->count; i++)
        memcpy(&it.submitted[it.count++], bytes + i * sizeof(uint64_t), sizeof(uint64_t));
    it.launches++;
    return true;
}

static bool cover(struct ag_engine *e, struct ag_chunk *chunk, const uint8_t *bytes)
{
    return launch(e, chunk, bytes, 7);
}

static void launched(struct ag_engine *e, struct ag_chunk *chunk, uint64_t began)
{
    (void)chunk;
    assert_int_equal(began, 7);
    assert_false(it.deferring);
    assert_int_equal(e->num_recorded, 0);
}

static void flush_begins(struct ag_engine *e, enum ag_engine_why why)
{
    (void)e;
    (void)why;
    assert_false(it.flushing);
    it.flushing = true;
}

static void flush_ends(struct ag_engine *e, uint32_t ops, uint32_t covered)
{
    (void)e;
    assert_true(it.flushing && ops > 0 && covered == 0);
    it.flushing = false;
}

static void build(struct ag_engine *e, struct ag_chunk *chunk)
{
    assert_int_equal(e->num_recorded, chunk->count);
    it.builds++;
}

static void deferring(struct ag_engine *e, bool on)
{
    (void)e;
    assert_int_not_equal(on, it.deferring);
    it.deferring = on;
    it.tells++;
}

static void broken(struct ag_engine *e, const char *what)
{
    (void)e;
    assert_non_null(what);
    it.mistakes++;
}

static const struct ag_engine_world world = {submit,     launch, launched,  cover,  flush_begins,
                                             flush_ends, build,  deferring, broken, 1};

static void start(void)
{
    struct ag_policy_config config;
    memset(&it, 0, sizeof(it));
    ag_policy_defaults(&config);
    assert_int_equal(ag_engine_open(&it.engine, &config, NULL, &world), 0);
}

/* The n-th op has key n + 1 and the argument n. Returns whether it was recorded. */
static bool record(enum ag_do what, bool fresh, struct ag_chunk *done)
{
    struct ag_verdict v = {.what = what, .fresh = fresh, .done = done};
    uint64_t op = it.recorded++;
    uint8_t *room = ag_engine_record(&it.engine, op + 1, sizeof(op), &v);
    if (!room)
        return false;
    memcpy(room, &op, sizeof(op));
    ag_engine_recorded(&it.engine, &v, 7);
    return true;
}

static void record_some(enum ag_do what)
{
    for (int i = 0; i < OPS; i++)
        assert_true(record(what, i == 0, NULL));
}

static void bring_to(enum ag_engine_state state)
{
    start();
    if (state == AG_ENGINE_CLOSED)
        ag_engine_close(&it.engine);
    else if (state == AG_ENGINE_RECORDING)
        record_some(AG_DO_RECORD);
    else if (state == AG_ENGINE_DEFERRING)
        record_some(AG_DO_DEFER);
    else if (state == AG_ENGINE_DORMANT)
        ag_engine_rest(&it.engine, 100);
    else if (state == AG_ENGINE_BYPASSED)
        ag_engine_bypass(&it.engine);
    assert_int_equal(it.engine.state, state);
    assert_int_equal(it.deferring, state == AG_ENGINE_DEFERRING);
    assert_int_equal(it.mistakes, 0);
    assert_int_equal(it.count, 0);
}

static void is_in_order(uint32_t count)
{
    assert_int_equal(it.count, count);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(it.submitted[i], i);
}

/* A mistake was found once: `ops` ops were submitted, and all that come later pass by. */
static void is_given_up(uint32_t ops)
{
    assert_int_equal(it.mistakes, 1);
    is_in_order(ops);
    assert_false(it.deferring);
    assert_int_equal(it.engine.state, AG_ENGINE_BYPASSED);
    assert_false(record(AG_DO_DEFER, true, NULL));
    assert_false(record(AG_DO_RECORD, true, NULL));
    assert_false(record(AG_DO_EAGER, false, NULL));
    struct ag_verdict v = {.what = AG_DO_DEFER};
    ag_engine_op(&it.engine, 5, 5, &v);
    assert_int_equal(v.what, AG_DO_EAGER);
    assert_int_equal(ag_engine_expected(&it.engine), 0);
    ag_engine_sync_point(&it.engine, 5);
    ag_engine_break(&it.engine);
    is_in_order(ops);
    assert_int_equal(it.mistakes, 1);
    ag_engine_free(&it.engine);
}

static const char changes[AG_NUM_ENGINE_STATES][AG_NUM_ENGINE_STATES + 1] = {
    /* to CLOSED, EAGER, RECORDING, DEFERRING, DORMANT, BYPASSED */
    [AG_ENGINE_CLOSED] = ".x....",    [AG_ENGINE_EAGER] = "x.xxxx",
    [AG_ENGINE_RECORDING] = ".x....", [AG_ENGINE_DEFERRING] = ".xx...",
    [AG_ENGINE_DORMANT] = "xx...x",   [AG_ENGINE_BYPASSED] = "x.....",
};

static void test_every_change_of_state(void **state)
{
    (void)state;
    for (unsigned int from = 0; from < AG_NUM_ENGINE_STATES; from++)
        for (unsigned int to = 0; to < AG_NUM_ENGINE_STATES; to++) {
            bool holds = to == AG_ENGINE_RECORDING || to == AG_ENGINE_DEFERRING;
            bool held = from == AG_ENGINE_RECORDING || from == AG_ENGINE_DEFERRING;
            bring_to(from);
            if (changes[from][to] == 'x') {
                it.engine.num_recorded = holds; /* the other condition, which has a test below */
                assert_true(ag_engine_enter(&it.engine, to));
                assert_int_equal(it.engine.state, to);
                assert_int_equal(it.deferring, to == AG_ENGINE_DEFERRING);
                assert_int_equal(it.mistakes, 0);
                is_in_order(0);
                ag_engine_free(&it.engine);
                continue;
            }
            if (!held && holds)
                it.engine.num_recorded = 1;
            if (from == AG_ENGINE_RECORDING && !holds)
                it.engine.num_recorded = 0;
            assert_false(ag_engine_enter(&it.engine, to));
            if (from == AG_ENGINE_CLOSED) { /* it stays so */
                assert_int_equal(it.mistakes, 1);
                assert_int_equal(it.engine.state, AG_ENGINE_CLOSED);
                ag_engine_free(&it.engine);
                continue;
            }
            is_given_up(from == AG_ENGINE_DEFERRING ? OPS : 0);
        }
}

static void test_counts_that_do_not_fit(void **state)
{
    (void)state;
    bring_to(AG_ENGINE_EAGER);
    assert_false(ag_engine_enter(&it.engine, AG_ENGINE_DEFERRING)); /* with nothing recorded */
    is_given_up(0);
    bring_to(AG_ENGINE_EAGER);
    assert_false(ag_engine_enter(&it.engine, AG_ENGINE_RECORDING));
    is_given_up(0);
    bring_to(AG_ENGINE_DEFERRING);
    assert_false(ag_engine_enter(&it.engine, AG_ENGINE_EAGER)); /* and they were not submitted */
    is_given_up(OPS);
}

/* Nobody may do these while ops are deferred. The policy knows of none of them. */
static void test_what_loses_deferred_ops(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        struct ag_chunk chunk = {.count = OPS + 2};
        uint32_t ops = OPS;
        bring_to(AG_ENGINE_DEFERRING);
        if (i == 0)
            ag_engine_sync_point(&it.engine, 1);
        else if (i == 1)
            ag_engine_break(&it.engine);
        else if (i == 2)
            ag_engine_invalidate(&it.engine);
        else if (i == 3)
            assert_false(record(AG_DO_EAGER, false, NULL));
        else if (i == 4)
            assert_false(record(AG_DO_RECORD, false, &chunk));
        else if (i == 5)
            assert_false(record(AG_DO_DEFER, true, NULL)); /* of another chunk */
        else if (i == 6)
            ops += record(AG_DO_DEFER, false, &chunk); /* the last of a longer one */
        else
            ops += record(AG_DO_DEFER, false, &(struct ag_chunk){.count = OPS});
        is_given_up(ops);
        assert_int_equal(it.launches + it.builds, 0);
    }
    bring_to(AG_ENGINE_DEFERRING);
    ag_engine_close(&it.engine);
    assert_int_equal(it.engine.state, AG_ENGINE_CLOSED);
    assert_int_equal(it.mistakes, 1);
    is_in_order(OPS);
    ag_engine_free(&it.engine);
}

/* The policy wants ops flushed that have been submitted: none may come twice. */
static void test_what_submits_twice(void **state)
{
    (void)state;
    bring_to(AG_ENGINE_RECORDING);
    ag_engine_act(&it.engine, &(struct ag_verdict){.flush = OPS});
    is_given_up(0);
}

static void test_a_chunk_to_build_that_was_not_recorded(void **state)
{
    (void)state;
    struct ag_chunk chunk = {.count = OPS + 2, .state = AG_CHUNK_BUILDING};
    bring_to(AG_ENGINE_RECORDING);
    assert_true(record(AG_DO_RECORD, false, &chunk));
    assert_int_equal(chunk.state, AG_CHUNK_NEW);
    assert_int_equal(it.builds, 0);
    is_given_up(0);
}

static void test_a_chunk_of_one_op_is_not_told(void **state)
{
    (void)state;
    struct ag_chunk chunk = {.count = 1};
    start();
    assert_true(record(AG_DO_DEFER, true, &chunk));
    assert_int_equal(it.launches, 1);
    assert_int_equal(it.tells, 0);
    assert_true(record(AG_DO_RECORD, true, &chunk));
    assert_int_equal(it.builds, 1);
    it.graph_fails = true;
    it.recorded = 1;
    assert_true(record(AG_DO_DEFER, true, &chunk));
    is_in_order(2);
    assert_int_equal(it.engine.state, AG_ENGINE_EAGER);
    assert_int_equal(it.engine.counts.replayed, 1);
    assert_int_equal(it.engine.counts.flushed, 1);
    assert_int_equal(it.engine.counts.eager, 1);
    ag_engine_free(&it.engine);
}

static void test_no_memory(void **state)
{
    (void)state;
    struct ag_chunk chunk = {.count = OPS, .state = AG_CHUNK_BUILDING};
    start();
    no_memory = true;
    assert_false(record(AG_DO_RECORD, true, &chunk));
    assert_int_equal(chunk.state, AG_CHUNK_NEW);
    no_memory = false;
    assert_int_equal(it.engine.state, AG_ENGINE_EAGER);
    it.recorded = 0;
    uint32_t ops = 0;
    for (bool fits = true; fits; ops += fits) { /* until it would have to grow */
        no_memory = ops > 0;
        fits = record(AG_DO_DEFER, ops == 0, NULL);
    }
    no_memory = false;
    assert_true(ops > 1);
    is_in_order(ops);
    assert_int_equal(it.mistakes, 0);
    assert_int_equal(it.engine.state, AG_ENGINE_EAGER);
    ag_engine_free(&it.engine);
}

/* ---- whole streams ------------------------------------------------------------------------ */

static void disturb(struct rig *r, uint64_t dice)
{
    struct ag_engine *e = &r->engine;
    struct ag_verdict v = {.what = dice % 2 ? AG_DO_EAGER : AG_DO_RECORD};
    switch (dice % 12) {
    case 0:
    case 1:
        rig_break(r);
        break;
    case 2:
        rig_invalidate(r);
        break;
    case 3:
        if (ag_engine_is_idle(e))
            rig_rest(r, 1 + (uint32_t)(dice >> 8) % 20);
        break;
    case 4: /* and open again */
        rig_sync(r);
        rig_drain(r);
        ag_engine_close(e);
        ag_engine_reopen(e);
        break;
    case 5:
        ag_policy_break(&e->policy); /* the engine is not told */
        rig_sync(r);
        break;
    case 6: /* never allowed */
        ag_engine_enter(e, ag_engine_deferred(e) ? AG_ENGINE_DORMANT : e->state);
        break;
    case 7: /* what another op would do */
        if (ag_engine_deferred(e))
            assert_null(ag_engine_record(e, 99, 8, &v));
        break;
    default:
        rig_sync(r);
    }
}

/* An op that only joins is one of those that are deferred, or their first. */
static void test_where_an_op_joins(void **state)
{
    (void)state;
    const ag_key keys[OPS] = {21, 22, 23};
    for (int in = 0; in < AG_NUM_ENGINE_STATES; in++) {
        bring_to((enum ag_engine_state)in);
        struct ag_engine *e = &it.engine;
        if (in == AG_ENGINE_EAGER) { /* there is room once something was recorded */
            record_some(AG_DO_RECORD);
            ag_engine_drop(e);
        }
        bool joins = in == AG_ENGINE_EAGER || in == AG_ENGINE_DEFERRING;
        uint32_t before = e->num_recorded;
        e->policy.next = keys;
        e->policy.stop = keys + OPS;
        e->policy.doing = AG_DO_DEFER;
        uint8_t *room = ag_engine_join(e, 8);
        assert_int_equal(room != NULL, joins);
        assert_int_equal(e->num_recorded, before + joins);
        assert_ptr_equal(e->policy.next, keys + joins);
        if (!room)
            continue;
        ag_engine_joined(e);
        assert_true(it.deferring && ag_engine_deferred(e) == before + 1);
        e->policy.doing = AG_DO_RECORD;
        assert_null(ag_engine_join(e, 8));
        e->policy.doing = AG_DO_DEFER;
        assert_non_null(ag_engine_join(e, 8));
        assert_null(ag_engine_join(e, 8)); /* the last one ends the chunk */
    }
}

static void test_order_whatever_happens(void **state)
{
    (void)state;
    uint64_t replayed = 0, mistakes = 0, bypassed = 0;
    for (uint64_t seed = 1; seed <= 3000; seed++) {
        struct rig *r = rig_open(NULL);
        uint64_t dice = seed;
        uint32_t period = 1 + (uint32_t)(rig_random(&dice) % 20);
        r->seed = seed;
        r->may_break = true;
        r->build_delay = (uint32_t)(rig_random(&dice) % 30);
        r->launch_fail_percent = seed % 3 ? 0 : 10;
        for (uint32_t i = 0; i < 600; i++) {
            rig_op(r, rig_random(&dice) % 60 ? rig_key(seed, i % period) : rig_key(99, i));
            if (i % period == period - 1 && seed % 2)
                rig_sync(r);
            if (i > 200 && rig_random(&dice) % 150 == 0)
                disturb(r, rig_random(&dice) >> 16);
            r->segment_known = false;
        }
        replayed += r->replayed;
        mistakes += r->mistakes;
        bypassed += r->engine.state == AG_ENGINE_BYPASSED;
        rig_close(r);
    }
    assert_true(replayed > 100000 && mistakes > 100 && bypassed > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_change_of_state),
        cmocka_unit_test(test_counts_that_do_not_fit),
        cmocka_unit_test(test_what_loses_deferred_ops),
        cmocka_unit_test(test_what_submits_twice),
        cmocka_unit_test(test_where_an_op_joins),
        cmocka_unit_test(test_a_chunk_to_build_that_was_not_recorded),
        cmocka_unit_test(test_a_chunk_of_one_op_is_not_told),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_order_whatever_happens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
