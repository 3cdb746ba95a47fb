/* test_tune.c - longer chunks where the host is slow: a host and a GPU of which both speeds are
 * known. */
#include "rig.h"
#include "policy/internal.h"

enum { STEP = 52, LAUNCH_NS = 3000, SYNC_NS = 8000, STEPS_AT_A_SPEED = 50 };

struct machine {
    uint64_t host, gpu; /* ns an op */
    double noise;       /* of the host */
    double slow;        /* by which the host is slower at times; 0: it is not */
    bool is_slow;
    uint64_t gpu_free; /* when the GPU has done what it was given */
    uint64_t seed;
};

/* One step of `len` ops and a sync: a graph launch costs the host LAUNCH_NS beside what the rig
 * takes for it, and gives the GPU its ops; an eager launch costs the same. Returns the time it
 * took. */
static uint64_t step(struct rig *r, struct machine *m, uint64_t family, uint32_t len)
{
    uint64_t began = r->now;
    double factor = 1 + m->noise * ((double)(rig_random(&m->seed) % 2001) / 1000 - 1);
    if (m->slow > 0 && rig_random(&m->seed) % STEPS_AT_A_SPEED == 0)
        m->is_slow = !m->is_slow;
    double speed = m->is_slow ? m->slow : 1;
    uint64_t launch_ns = (uint64_t)(speed * LAUNCH_NS);
    r->gap = (uint64_t)((double)m->host * factor * speed);
    for (uint32_t i = 0; i < len; i++) {
        struct rig_given given = rig_op(r, rig_key(family, i));
        r->now += (given.graphs ? 1 : given.ops) * launch_ns;
        if (given.ops)
            m->gpu_free = (m->gpu_free > r->now ? m->gpu_free : r->now) + given.ops * m->gpu;
    }
    rig_sync(r);
    r->now = (m->gpu_free > r->now ? m->gpu_free : r->now) + SYNC_NS;
    return r->now - began;
}

static double mean(struct rig *r, struct machine *m, uint32_t steps)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < steps; i++)
        total += step(r, m, 1, STEP);
    return (double)total / steps;
}

/* The host is far slower than the GPU: fewer launches, and the last chunk stays short. */
static void test_slow_host(void **state)
{
    (void)state;
    for (int noisy = 0; noisy < 2; noisy++) {
        struct rig *r = rig_open(NULL);
        struct machine m = {.host = 10000, .gpu = 2000, .noise = noisy * 0.02, .seed = 7};
        mean(r, &m, 12);
        rig_mark(r);
        double before = mean(r, &m, 10);
        rig_at_most(rig_ops_per_launch(r), 5);
        mean(r, &m, 500);
        rig_mark(r);
        double after = mean(r, &m, 100);
        rig_at_least(rig_ops_per_launch(r), 8);
        rig_at_most(after / before, 0.97);
        rig_close(r);
    }
}

/* Ops of a launch after so many steps of a program whose steps differ by 15 % each way. */
static double settled(uint64_t host, uint64_t gpu, double slow, uint64_t seed, uint32_t steps)
{
    enum { LONG_STEP = 109 };
    struct rig *r = rig_open(NULL);
    struct machine m = {.host = host, .gpu = gpu, .noise = 0.15, .slow = slow, .seed = seed};
    for (uint32_t i = 0; i < steps + 100; i++) {
        if (i == steps)
            rig_mark(r);
        step(r, &m, 1, LONG_STEP);
    }
    double ops = rig_ops_per_launch(r);
    rig_close(r);
    return ops;
}

/* What longer chunks gain is less than two steps differ by, and is found in most processes; what
 * they lose is not taken for a gain. */
static void test_noise(void **state)
{
    (void)state;
    int longer = 0, wrong = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        longer += settled(11000, 3000, 0, seed, 300) >= 8;
        wrong += settled(5000, 9000, 0, seed, 2000) >= 8;
    }
    rig_at_least(longer, 19);
    rig_at_most(wrong, 0);
}

/* A processor that is slower by far more than any cut gains, for some steps now and then. */
static void test_two_speeds(void **state)
{
    (void)state;
    int longer = 0, wrong = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        longer += settled(8500, 4000, 1.6, seed, 300) >= 8;
        wrong += settled(5000, 9000, 1.6, seed, 300) >= 8;
    }
    rig_at_least(longer, 36);
    rig_at_most(wrong, 3);
}

/* A step that is one chunk tells how fast the host is: it was taken for a fast one at first. */
static void test_one_chunk(void **state)
{
    (void)state;
    struct rig *r = rig_open(NULL);
    struct machine m = {.host = 3000, .gpu = 5000, .seed = 7};
    for (int i = 0; i < 12; i++) {
        r->engine.policy.state->gap = 200;
        if (i == 8)
            rig_mark(r);
        step(r, &m, 1, 5);
    }
    rig_at_least(rig_ops_per_launch(r), 5);
    for (int i = 0; i < 400; i++)
        step(r, &m, 1, 5);
    rig_mark(r);
    for (int i = 0; i < 100; i++)
        step(r, &m, 1, 5);
    rig_at_most(rig_ops_per_launch(r), 3);
    rig_close(r);
}

/* The GPU is the limit: whatever is tried, the sequence ends with the cut that it began with. */
static void test_slow_gpu(void **state)
{
    (void)state;
    struct rig *r = rig_open(NULL);
    struct machine m = {.host = 5000, .gpu = 9000, .noise = 0.02, .seed = 7};
    mean(r, &m, 12);
    rig_mark(r);
    double before = mean(r, &m, 10), cut = rig_ops_per_launch(r);
    mean(r, &m, 500);
    rig_mark(r);
    rig_at_most(mean(r, &m, 100) / before, 1.01);
    rig_at_most(rig_ops_per_launch(r), cut * 1.05);
    rig_close(r);
}

/* Kernels that take five times as long as the host: the GPU would wait for a long first chunk. The
 * trial that shows that takes the program next to nothing. */
static void test_far_slower(void **state)
{
    (void)state;
    struct rig *r = rig_open(NULL);
    struct machine m = {.host = 10000, .gpu = 50000, .noise = 0.02, .seed = 7};
    uint64_t learning = 0, later = 0;
    for (uint32_t i = 0; i < 400; i++) {
        uint64_t ns = step(r, &m, 1, 20);
        learning += i < 200 ? ns : 0;
        later += i < 200 ? 0 : ns;
    }
    rig_at_most((double)learning / (double)later, 1.009);
    rig_close(r);
}

/* A loop that ends every thousand ops: the rest of a longer chunk goes one by one then, which costs
 * less than shorter ones in all turns. */
static void test_loop_that_ends(void **state)
{
    (void)state;
    for (uint32_t period = 1; period <= 20; period *= 5) {
        struct rig *r = rig_open(NULL);
        r->gap = 3000;
        for (uint32_t i = 0; i < 80000; i++) {
            if (i == 40000)
                rig_mark(r);
            rig_op(r, rig_key(1, i % period));
            if (i % 1000 == 999)
                rig_sync(r);
        }
        rig_at_least(rig_ops_per_launch(r), 8);
        rig_close(r);
    }
}

/* Sequences that begin alike keep the same cut: turning from one to the other flushes nothing. */
static void test_alike(void **state)
{
    (void)state;
    struct rig *r = rig_open(NULL);
    struct machine m = {.host = 10000, .gpu = 2000, .seed = 7};
    for (int i = 0; i < 400; i++)
        step(r, &m, 1, i % 2 ? STEP : STEP / 2);
    rig_mark(r);
    for (int i = 0; i < 100; i++)
        step(r, &m, 1, i % 2 ? STEP : STEP / 2);
    rig_at_least(rig_replayed(r), 97);
    rig_close(r);
}

/* A sequence with long chunks that the stream begins to leave half way goes back to short ones. */
static void test_left_half_way(void **state)
{
    (void)state;
    struct rig *r = rig_open(NULL);
    struct machine m = {.host = 10000, .gpu = 2000, .seed = 7};
    mean(r, &m, 500);
    rig_mark(r);
    mean(r, &m, 10);
    rig_at_least(rig_ops_per_launch(r), 8);
    for (int i = 0; i < 600; i++) {
        if (i == 200)
            rig_mark(r);
        step(r, &m, 1, rig_random(&m.seed) % 2 ? STEP : STEP - 9);
    }
    rig_at_most(rig_ops_per_launch(r), 5.5); /* a cut where it is left, and long chunks no more */
    rig_at_least(rig_replayed(r), 96);
    rig_close(r);
}

/* A few slow kernels between two syncs: the GPU is not to wait for any of them. */
static void test_short_sequence(void **state)
{
    (void)state;
    for (int slow = 0; slow < 2; slow++) {
        struct rig *r = rig_open(NULL);
        struct machine m = {.host = 3000, .gpu = slow ? 9000 : 1000, .noise = 0.02, .seed = 7};
        double before = 0, after = 0;
        for (int i = 0; i < 30; i++)
            before = (double)step(r, &m, 1, 5);
        for (int i = 0; i < 300; i++)
            after = (double)step(r, &m, 1, 5);
        rig_mark(r);
        for (int i = 0; i < 100; i++)
            step(r, &m, 1, 5);
        if (slow) {
            rig_at_most(after / before, 0.93);
            rig_at_most(rig_ops_per_launch(r), 1.7);
        } else {
            rig_at_most(after / before, 1.05);
            rig_at_least(rig_ops_per_launch(r), 2);
        }
        rig_close(r);
    }
}

/* Behind a slow host only the kernels of the last chunk keep the program waiting: that chunk gets
 * short, if they take long enough. */
static void test_short_end(void **state)
{
    (void)state;
    for (int slow = 0; slow < 2; slow++) {
        struct rig *r = rig_open(NULL);
        struct machine m = {.host = 10000, .gpu = slow ? 9000 : 500, .noise = 0.02, .seed = 7};
        double before = 0, after = 0;
        for (int i = 0; i < 30; i++)
            before = (double)step(r, &m, 1, 20);
        for (int i = 0; i < 800; i++)
            after = (double)step(r, &m, 1, 20);
        const struct ag_sequence *b = r->engine.policy.state->sequence;
        assert_non_null(b);
        if (slow)
            assert_int_equal(b->plan.chunks[b->plan.num_chunks - 1].count, 1);
        else
            rig_at_least(b->plan.chunks[b->plan.num_chunks - 1].count, 3);
        rig_at_most(after / before, slow ? 0.97 : 1.01);
        rig_close(r);
    }
}

/* Chunks that get shorter towards the end are no more than that takes. */
static void test_few_ends(void **state)
{
    (void)state;
    static const uint32_t lens[] = {2, 3, 5, 6, 7}, launches[] = {2, 2, 3, 3, 3};
    for (size_t i = 0; i < sizeof lens / sizeof *lens; i++) {
        struct rig *r = rig_open(NULL);
        struct machine m = {.host = 10000, .gpu = 5000, .noise = 0.02, .seed = 7};
        for (int k = 0; k < 800; k++)
            step(r, &m, 1, lens[i]);
        const struct ag_sequence *b = r->engine.policy.state->sequence;
        assert_non_null(b);
        assert_int_equal(b->plan.num_chunks, launches[i]);
        assert_int_equal(b->plan.chunks[b->plan.num_chunks - 1].count, 1);
        rig_close(r);
    }
}

/* A loop without sync points, of a slow host: fewer launches, unless the GPU is the limit. */
static void test_loop(void **state)
{
    (void)state;
    for (int gpu_bound = 0; gpu_bound < 2; gpu_bound++) {
        struct rig *r = rig_open(NULL);
        uint64_t gpu = gpu_bound ? 9000 : 2000, gpu_free = 0;
        r->gap = 3000;
        for (uint32_t i = 0; i < 40000; i++) {
            if (i == 30000)
                rig_mark(r);
            struct rig_given given = rig_op(r, rig_key(1, i % 5));
            r->now += (given.graphs ? 1 : given.ops) * LAUNCH_NS;
            gpu_free = (gpu_free > r->now ? gpu_free : r->now) + given.ops * gpu;
            if (gpu_free > r->now + 1000000) /* the launch queue is full */
                r->now = gpu_free - 1000000;
        }
        rig_at_least(rig_replayed(r), 99);
        if (gpu_bound)
            rig_at_most(rig_ops_per_launch(r), 8);
        else
            rig_at_least(rig_ops_per_launch(r), 10);
        rig_close(r);
    }
}

/* What may happen while two cuts of a sequence are compared: its graphs are dropped, fail or are
 * built late, the stream leaves it half way or breaks off, the host's pace changes, all is
 * forgotten. */
static void test_disturbed(void **state)
{
    uint32_t while_two[6] = {0};
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct rig *r = rig_open(NULL);
        struct machine m = {.host = 10000, .gpu = 2000, .noise = 0.02, .seed = seed};
        r->build_delay =
            (uint32_t[]){0, 200, 40000}[seed % 3]; /* the last: no trial has its graphs in time */
        for (int i = 0; i < 3000; i++) {
            const struct ag_sequence *b = r->engine.policy.state->sequence;
            bool two = b && b->aside.num_chunks;
            uint64_t dice = rig_random(&m.seed) % 600;
            struct ag_sequence *victim;
            r->fail_percent = dice < 30 ? 50 : 0;
            r->launch_fail_percent = dice >= 595 ? 10 : 0;
            while_two[0] += two && dice >= 595;
            step(r, &m, 1 + (uint64_t)i % 2, dice >= 590 && dice < 595 ? STEP / 2 : STEP);
            if (dice == 100 && (victim = ag_policy_victim(&r->engine.policy))) {
                while_two[1] += victim->aside.num_chunks > 0;
                ag_policy_drop_graphs(&r->engine.policy, victim);
            } else if (dice == 101 || dice == 102) {
                m.host = m.host == 10000 ? 2500 : 10000;
                while_two[2] += two;
            } else if (dice == 103) {
                for (uint32_t k = 0; k < STEP / 3; k++)
                    rig_op(r, rig_key(1 + (uint64_t)i % 2, k));
                rig_break(r);
                while_two[3] += two;
            } else if (dice == 104) {
                rig_invalidate(r);
                while_two[4] += two;
            } else if (dice == 105) {
                step(r, &m, 3, STEP / 2); /* and then something else */
                while_two[5] += two;
            }
        }
        rig_close(r);
    }
    for (size_t i = 0; i < sizeof(while_two) / sizeof(*while_two); i++)
        rig_at_least(while_two[i], 1);
}

/* A trial is over before its graphs are there: those that are being built are neither dropped for
 * room nor for the cut that has won, but then they are. */
static void test_built_late(void **state)
{
    (void)state;
    struct rig *r = rig_open(NULL);
    struct machine m = {.host = 10000, .gpu = 2000, .seed = 7};
    const struct ag_sequence *b = NULL;
    for (int i = 0; i < 200 && (!b || b->tune.mode != AG_TUNE_TRIES); i++) {
        step(r, &m, 1, STEP);
        b = r->engine.policy.state->sequence;
    }
    assert_non_null(b);
    assert_int_equal(b->tune.mode, AG_TUNE_TRIES);
    r->build_delay = 1000000;
    for (int i = 0; i < 600 && b->tune.mode == AG_TUNE_TRIES; i++)
        step(r, &m, 1, STEP);
    step(r, &m, 1, STEP);
    assert_int_not_equal(b->tune.mode, AG_TUNE_TRIES);
    assert_true(b->plan.num_chunks && b->aside.num_chunks);
    for (int i = 0; i < 3; i++)
        step(r, &m, 2, STEP);
    assert_ptr_not_equal(r->engine.policy.state->sequence, b);
    assert_null(ag_policy_victim(&r->engine.policy));
    rig_drain(r);
    for (int i = 0; i < 3; i++)
        step(r, &m, 1, STEP);
    assert_int_equal(b->aside.num_chunks, 0);
    rig_mark(r);
    mean(r, &m, 10);
    rig_at_least(rig_replayed(r), 97);
    rig_at_most(rig_ops_per_launch(r), 5);
    rig_close(r);
}

static double cut_after(struct rig *r, struct machine *m, uint32_t steps)
{
    mean(r, m, steps);
    rig_mark(r);
    mean(r, m, 4);
    return rig_ops_per_launch(r);
}

/* Longer chunks suit the program's thread. They go before the submitter is compared with it for the
 * first time, and whenever the answer changes; and while two are compared, no others are tried. */
static void test_who_launches(void **state)
{
    (void)state;
    struct rig *r = rig_open(NULL);
    struct ag_policy *p = &r->engine.policy;
    struct machine m = {.host = 10000, .gpu = 2000, .seed = 7};
    double before = cut_after(r, &m, 12);
    rig_at_least(cut_after(r, &m, 500), before * 2);
    ag_policy_launched_by(p, false, true);
    rig_at_most(cut_after(r, &m, 12), before);
    rig_at_most(cut_after(r, &m, 500), before);
    ag_policy_launched_by(p, false, false);
    rig_at_least(cut_after(r, &m, 500), before * 2);
    ag_policy_launched_by(p, false, true); /* compared again, with the same answer */
    rig_at_least(cut_after(r, &m, 12), before * 2);
    ag_policy_launched_by(p, true, false);
    rig_at_most(cut_after(r, &m, 12), before);
    rig_at_least(cut_after(r, &m, 500), before * 2);
    ag_policy_launched_by(p, false, false);
    rig_at_most(cut_after(r, &m, 12), before);
    rig_close(r);
}

/* A trial that a comparison interrupts has neither won nor lost: it comes again soon. */
static void test_put_off(void **state)
{
    (void)state;
    struct rig *r = rig_open(NULL);
    struct ag_policy *p = &r->engine.policy;
    struct machine m = {.host = 10000, .gpu = 2000, .seed = 7};
    ag_policy_launched_by(p, true, true);
    double before = cut_after(r, &m, 100);
    ag_policy_launched_by(p, true, false);
    const struct ag_sequence *b = p->state->sequence;
    assert_non_null(b);
    for (int i = 0; i < 100 && b->tune.mode != AG_TUNE_TRIES; i++)
        step(r, &m, 1, STEP);
    assert_int_equal(b->tune.mode, AG_TUNE_TRIES);
    mean(r, &m, 6);
    assert_int_not_equal(b->aside.num_chunks, 0);
    ag_policy_launched_by(p, true, true);
    rig_at_most(cut_after(r, &m, 6), before);
    assert_int_equal(b->aside.num_chunks, 0);
    ag_policy_launched_by(p, true, false);
    rig_at_least(cut_after(r, &m, 500), before * 2);
    rig_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_noise),          cmocka_unit_test(test_two_speeds),
        cmocka_unit_test(test_slow_host),      cmocka_unit_test(test_far_slower),
        cmocka_unit_test(test_loop_that_ends), cmocka_unit_test(test_one_chunk),
        cmocka_unit_test(test_slow_gpu),       cmocka_unit_test(test_alike),
        cmocka_unit_test(test_left_half_way),  cmocka_unit_test(test_short_sequence),
        cmocka_unit_test(test_loop),           cmocka_unit_test(test_disturbed),
        cmocka_unit_test(test_built_late),     cmocka_unit_test(test_short_end),
        cmocka_unit_test(test_few_ends),       cmocka_unit_test(test_who_launches),
        cmocka_unit_test(test_put_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
