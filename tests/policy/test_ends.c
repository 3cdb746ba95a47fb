/* test_ends.c - chunks end, and loops begin, where the world says that they should
 * (ag_policy_hooks.ends). */
#include "rig.h"

/* A step: one op alone, a fork of 19 ops, one op that joins. */
enum { STEP = 21 };

static uint32_t place_of(ag_key key)
{
    for (uint32_t i = 0; i < STEP; i++)
        if (key == rig_key(1, i))
            return i;
    return STEP;
}

static enum ag_ends ends_of_steps(void *context, const ag_key *keys, uint32_t n, uint8_t *ends)
{
    bool any = false;
    (void)context;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t place = place_of(keys[i]);
        ends[i] = place == STEP - 1 ? AG_BEST_END : place && place < STEP ? AG_NO_END : AG_GOOD_END;
        any |= place < STEP;
    }
    return any ? AG_OWN_ENDS : AG_ANY_ENDS;
}

static struct rig *open_rig(uint64_t gap)
{
    struct rig *r = rig_open(NULL);
    r->engine.policy.state->hooks.ends = ends_of_steps;
    r->gap = gap;
    return r;
}

static void steps(struct rig *r, uint32_t n)
{
    for (uint32_t step = 0; step < n; step++) {
        for (uint32_t i = 0; i < STEP; i++)
            rig_op(r, rig_key(1, i));
        rig_sync(r);
    }
}

struct seen {
    uint32_t cut, odd_begins, bad_ends, longest; /* sequences; chunks; ops */
};

static void look(void *context, struct ag_sequence *sequence)
{
    struct seen *seen = context;
    struct ag_sequence_facts facts = ag_sequence_facts(sequence);
    const ag_key *keys = facts.keys;
    uint32_t n = facts.num_chunks;
    seen->cut += n > 0;
    seen->odd_begins += facts.periodic && place_of(keys[0]) != 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct ag_chunk *chunk = ag_sequence_chunk(sequence, i);
        uint32_t end = ag_chunk_first(chunk) + ag_chunk_count(chunk),
                 place = place_of(keys[end - 1]);
        seen->bad_ends += end != facts.len && place && place < STEP - 1;
        if (seen->longest < ag_chunk_count(chunk))
            seen->longest = ag_chunk_count(chunk);
    }
}

static struct seen seen_in(struct rig *r)
{
    struct seen seen = {0};
    ag_policy_each(&r->engine.policy, look, &seen);
    return seen;
}

static void test_a_fast_host_waits_for_a_good_end(void **state)
{
    (void)state;
    struct rig *r = open_rig(100);
    steps(r, 200);
    struct seen seen = seen_in(r);
    assert_true(seen.cut > 0);
    assert_int_equal(seen.bad_ends, 0);
    rig_mark(r);
    steps(r, 200);
    rig_at_least(rig_replayed(r), 99);
    assert_int_equal(r->launches - r->mark_launches, 200); /* one graph a step */
    rig_close(r);
}

/* The GPU would wait for a chunk that took longer. */
static void test_a_slow_host_does_not(void **state)
{
    (void)state;
    struct rig *r = open_rig(3000);
    steps(r, 40);
    struct seen seen = seen_in(r);
    assert_true(seen.bad_ends > 0);
    assert_in_range(seen.longest, 1, 4);
    rig_close(r);
}

static void test_loops_begin_behind_a_best_end(void **state)
{
    (void)state;
    for (uint32_t phase = 0; phase < STEP; phase++) {
        struct rig *r = open_rig(100);
        for (uint32_t i = 0; i < 100 * STEP; i++)
            rig_op(r, rig_key(1, (i + phase) % STEP));
        struct seen seen = seen_in(r);
        assert_true(seen.cut > 0);
        assert_int_equal(seen.odd_begins, 0);
        assert_int_equal(seen.bad_ends, 0);
        rig_mark(r);
        for (uint32_t i = 0; i < 400 * STEP; i++)
            rig_op(r, rig_key(1, (i + phase) % STEP));
        rig_at_least(rig_replayed(r), 99);
        rig_close(r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_fast_host_waits_for_a_good_end),
        cmocka_unit_test(test_a_slow_host_does_not),
        cmocka_unit_test(test_loops_begin_behind_a_best_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
