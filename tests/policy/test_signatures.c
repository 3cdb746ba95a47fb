/* test_signatures.c - several signatures of step in turn, steps that begin alike, steps with a few
 * odd ops.
 */
#include "rig.h"

enum { MOST_SIGNATURES = 8, SEEDS = 4 };

/* `signatures` steps of different length and content in random order, with `common` ops in common;
 * graphs are built a few times for each signature at most. */
static void alternating(uint64_t seed, uint32_t signatures, uint32_t common, uint32_t shortest,
                        bool sync)
{
    struct rig *r = rig_open(NULL);
    uint32_t steps = 4000;
    for (uint32_t step = 0; step < steps; step++) {
        if (step == steps / 10)
            rig_mark(r);
        uint32_t signature = rig_random(&seed) % signatures;
        for (uint32_t i = 0; i < common; i++)
            rig_op(r, rig_key(100, i));
        for (uint32_t i = 0; i < shortest + 7 * signature; i++)
            rig_op(r, rig_key(signature, i));
        if (sync)
            rig_sync(r);
    }
    double replayed = rig_replayed(r), built = (double)rig_built(r);
    if (replayed < 95 || built > (sync ? 30.0 : 10.0) * signatures)
        fail_msg(
            "%u signatures from %u on, %u common, sync %d: replayed %.2f, flushed %.2f, built %.0f",
            signatures, shortest, common, sync, replayed, rig_flushed(r), built);
    rig_close(r);
}

static void test_alternating(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        for (uint32_t signatures = 2; signatures <= MOST_SIGNATURES; signatures++) {
            alternating(seed, signatures, 0, 20, true);
            alternating(seed, signatures, 10, 20, true);
        }
}

/* Without a sync point many signatures in random order take long to be told apart. */
static void test_alternating_without_sync(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        for (uint32_t signatures = 2; signatures <= 4; signatures++) {
            alternating(seed, signatures, 0, 20, false);
            alternating(seed, signatures, 0, 10, false);
            alternating(seed, signatures, 10, 20, false);
        }
    for (uint32_t signatures = 5; signatures <= MOST_SIGNATURES; signatures++) {
        alternating(signatures, signatures, 0, 20, false);
        alternating(signatures, signatures, 0, 10, false);
        alternating(signatures, signatures, 10, 20, false);
    }
}

/* Signatures that take turns in a fixed order. */
static void test_round_robin(void **state)
{
    (void)state;
    struct rig *r = rig_open(NULL);
    for (uint32_t step = 0; step < 2000; step++) {
        if (step == 60)
            rig_mark(r);
        for (uint32_t i = 0; i < 15 + step % 5; i++)
            rig_op(r, rig_key(step % 5, i));
        rig_sync(r);
    }
    rig_at_least(rig_replayed(r), 99);
    rig_at_most(rig_flushed(r), 0);
    rig_at_most(rig_built(r), 0);
    rig_close(r);
}

/* An engine: a step is 14 short segments, most of which begin alike and part later; now and then
 * (every 16th step) one of another kind. */
static void test_engine(void **state)
{
    (void)state;
    struct rig *r = rig_open(NULL);
    for (uint32_t step = 0; step < 1500; step++) {
        if (step == 30)
            rig_mark(r);
        for (uint32_t subsegment = 0; subsegment < 14; subsegment++) {
            uint32_t kind = subsegment % 5 + (step % 16 == 15 && subsegment == 7 ? 1 : 0);
            for (uint32_t i = 0; i < 4 + kind; i++)
                rig_op(r, rig_key(200, i)); /* alike */
            for (uint32_t i = 0; i < 3 + kind; i++)
                rig_op(r, rig_key(kind, i));
            rig_sync(r);
        }
    }
    rig_at_least(rig_replayed(r), 95);
    rig_at_most(rig_flushed(r), 0.5);
    assert_true(r->graphs_shared > 0); /* what begins alike has one graph */
    rig_close(r);
}

/* A long step with odd ops in one place. */
static void odd_ops(uint32_t place, uint32_t odd, bool sync)
{
    enum { LEN = 1000 };
    struct rig *r = rig_open(NULL);
    uint64_t seed = place + odd;
    for (int step = 0; step < 60; step++) {
        if (step == 10)
            rig_mark(r);
        for (uint32_t i = 0; i < LEN; i++) {
            if (i == place)
                for (uint32_t k = 0; k < odd; k++)
                    rig_op(r, rig_random(&seed) | 1);
            rig_op(r, rig_key(1, i));
        }
        if (sync)
            rig_sync(r);
    }
    double replayed = rig_replayed(r);
    double possible = 100.0 * LEN / (LEN + odd);
    if (replayed < possible - 7 || rig_built(r) > 200)
        fail_msg("%u odd ops at %u, sync %d: replayed %.2f of %.2f, flushed %.2f, built %.0f", odd,
                 place, sync, replayed, possible, rig_flushed(r), (double)rig_built(r));
    rig_close(r);
}

static void test_odd_ops(void **state)
{
    static const uint32_t places[] = {0, 1, 5, 250, 500, 900, 999};
    (void)state;
    for (int sync = 0; sync < 2; sync++)
        for (int i = 0; i < 7; i++)
            for (uint32_t odd = 1; odd <= 9; odd += 4)
                odd_ops(places[i], odd, sync);
}

/* A short step in which one op is new each time, as a grid that grows. */
static void test_new_op_in_short_step(void **state)
{
    static const uint32_t lengths[] = {6, 12, 20, 30, 60};
    (void)state;
    for (int i = 0; i < 5; i++)
        for (uint32_t place = 0; place < lengths[i]; place += lengths[i] / 3) {
            struct rig *r = rig_open(NULL);
            r->tells_new = true;
            uint64_t seed = place + lengths[i];
            for (int step = 0; step < 1500; step++) {
                if (step == 500)
                    rig_mark(r);
                for (uint32_t k = 0; k < lengths[i]; k++)
                    rig_op(r, k == place ? rig_random(&seed) | 1 : rig_key(1, k));
                rig_sync(r);
            }
            double replayed = rig_replayed(r);
            double possible = 100.0 - 100.0 / lengths[i];
            if (replayed < possible - 4)
                fail_msg("%u ops, the new one at %u: replayed %.2f of %.2f", lengths[i], place,
                         replayed, possible);
            rig_close(r);
        }
}

/* A step with one op more at its end, whenever the data want it. */
static void test_optional_end(void **state)
{
    (void)state;
    struct rig *r = rig_open(NULL);
    uint64_t seed = 5;
    for (int step = 0; step < 2000; step++) {
        if (step == 500)
            rig_mark(r);
        uint32_t n = 20 + rig_random(&seed) % 2;
        for (uint32_t i = 0; i < n; i++)
            rig_op(r, rig_key(1, i));
        rig_sync(r);
    }
    rig_at_least(rig_replayed(r), 97);
    rig_close(r);
}

/* An op that is there in some steps only. */
static void test_optional_op(void **state)
{
    (void)state;
    struct rig *r = rig_open(NULL);
    uint64_t seed = 2;
    for (int step = 0; step < 500; step++) {
        if (step == 30)
            rig_mark(r);
        bool extra = rig_random(&seed) % 3 == 0;
        for (uint32_t i = 0; i < 200; i++) {
            if (i == 80 && extra)
                rig_op(r, 5);
            rig_op(r, rig_key(1, i));
        }
        rig_sync(r);
    }
    rig_at_least(rig_replayed(r), 95);
    rig_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alternating),
        cmocka_unit_test(test_alternating_without_sync),
        cmocka_unit_test(test_round_robin),
        cmocka_unit_test(test_engine),
        cmocka_unit_test(test_odd_ops),
        cmocka_unit_test(test_optional_op),
        cmocka_unit_test(test_new_op_in_short_step),
        cmocka_unit_test(test_optional_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
