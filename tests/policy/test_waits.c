/* test_waits.c - steps with several waits for the GPU, behind segments that are others. */
#include "rig.h"

/* What a launch takes the host is the rig's; when the kernel or graph begins behind it, and what
 * lies between two of them, as an H200 takes. */
enum { STARTS_NS = 2500, BEHIND_GRAPH_NS = 1200, BEHIND_KERNEL_NS = 300 };

struct gpu {
    uint64_t kernel_ns, free; /* when it has done all that was submitted */
};

static void does(struct gpu *gpu, uint64_t now, uint64_t ops, bool graph)
{
    uint64_t starts = gpu->free + (graph ? BEHIND_GRAPH_NS : BEHIND_KERNEL_NS);
    gpu->free = (starts > now + STARTS_NS ? starts : now + STARTS_NS) + ops * gpu->kernel_ns;
}

static void takes(struct rig *r, const struct ag_chunk *chunk)
{
    r->now += chunk ? 2000 : 2500;
    does(r->world, r->now, chunk ? chunk->count : 1, chunk);
}

/* The segments of a step, in ops; 0: no more. */
struct step {
    uint32_t segments[4];
};

/* Nanoseconds an op in the second half. `with`: the policy looks, else all is eager. `returns`: it
 * hears when waits end. */
static double play(const struct step *step, uint64_t kernel_ns, uint64_t gap, bool with,
                   bool returns)
{
    enum { STEPS = 8000 };
    struct rig *r = rig_open(NULL);
    struct gpu gpu = {.kernel_ns = kernel_ns};
    uint64_t began = 0, ops = 0;
    r->launch = takes;
    r->world = &gpu;
    r->gap = gap;
    for (uint32_t n = 0; n < STEPS; n++) {
        if (n == STEPS / 2) {
            began = r->now;
            ops = 0;
        }
        for (uint32_t i = 0; i < 4 && step->segments[i]; i++) {
            for (uint32_t k = 0; k < step->segments[i]; k++, ops++) {
                if (with) {
                    rig_op(r, rig_key(1 + i, k));
                } else {
                    r->now += gap;
                    takes(r, NULL);
                }
            }
            if (with)
                rig_sync(r);
            if (gpu.free > r->now)
                r->now = gpu.free;
            if (with && returns)
                ag_engine_returned(&r->engine, r->now);
        }
    }
    double ns = (double)(r->now - began) / (double)ops;
    rig_close(r);
    return ns;
}

static const struct step steps[] = {{{60}},    {{60, 1}},     {{10, 60}}, {{20, 5}},
                                    {{3, 17}}, {{20, 20, 1}}, {{5, 11}},  {{4, 8, 30, 1}}};
enum { NUM_STEPS = sizeof steps / sizeof *steps };

/* A long chunk of one segment keeps the program waiting behind it. That time is not the next
 * segment's: else ever longer chunks of the first one seem better. */
static void test_a_wait_belongs_to_what_it_waits_for(void **state)
{
    static const uint64_t paces[][2] = {{5000, 3000}, {20000, 10000}, {10000, 5000}};
    (void)state;
    for (uint32_t i = 0; i < NUM_STEPS; i++)
        for (uint32_t k = 0; k < 3; k++) {
            double eager = play(&steps[i], paces[k][0], paces[k][1], false, false);
            double with = play(&steps[i], paces[k][0], paces[k][1], true, true);
            if (with > 1.04 * eager)
                fail_msg("step %u, kernels of %u ns: %.0f ns an op, eagerly %.0f", i,
                         (unsigned int)paces[k][0], with, eager);
        }
}

/* Where the host is the limit, a step of two segments is as fast as one. */
static void test_a_step_of_two_segments(void **state)
{
    (void)state;
    double one = play(&steps[0], 2000, 1000, true, true);
    double two = play(&steps[1], 2000, 1000, true, true);
    rig_at_least(one / two, 0.95);
}

/* Who does not hear of the end of waits replays as well. */
static void test_without_being_told(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < NUM_STEPS; i++) {
        double eager = play(&steps[i], 1000, 100, false, false);
        rig_at_least(eager / play(&steps[i], 1000, 100, true, false), 1.5);
    }
}

/* No plan may promise a graph that another one has taken over. */
static void every_ready_chunk_has_a_graph(const struct rig *r)
{
    const struct ag_policy_state *s = r->engine.policy.state;
    for (const struct ag_sequence *e = s->by_id; e; e = e->hh.next)
        for (uint32_t k = 0; k < e->plan.num_chunks; k++)
            if (ag_chunk_state(&e->plan.chunks[k]) == AG_CHUNK_READY)
                assert_non_null(e->plan.chunks[k].user);
}

/* A segment that comes twice running and then another one. The host's pace changes, so the plan
 * does where the sync point ends the visit. When the wait ends it must not change once more. */
static void test_a_wait_that_ends_behind_a_new_plan(void **state)
{
    (void)state;
    for (uint32_t change = 20; change < 60; change++)
        for (uint32_t len = 22; len < 30; len++) {
            struct rig *r = rig_open(NULL);
            r->gap = 700;
            for (uint32_t n = 0; n < change + 25; n++) {
                r->gap = n < change ? 700 : 2500;
                for (uint32_t i = 0; i < 3; i++) {
                    for (uint32_t k = 0; k < (i < 2 ? len : 3); k++)
                        rig_op(r, rig_key(1 + i / 2, k));
                    rig_sync(r);
                    r->now += 20000;
                    if (i < 2)
                        ag_engine_returned(&r->engine, r->now);
                    every_ready_chunk_has_a_graph(r);
                }
            }
            rig_close(r);
        }
}

/* Ops are held back by a plan that is to be cut elsewhere, when another thread's wait ends. */
static void test_a_wait_that_ends_in_the_middle(void **state)
{
    enum { OPS = 24, CUT = 3, STEPS = 26 };
    (void)state;
    struct rig *r = rig_open(NULL);
    r->gap = 1000;
    for (uint32_t n = 0; n < STEPS; n++) {
        for (uint32_t k = 0; k < OPS; k++) {
            r->build_delay = k >= 4 ? 1u << 30 : 0;
            rig_op(r, rig_key(1, k));
            if (k + 1 == CUT && n >= STEPS - 6 && n % 2 == 0)
                rig_pause(r);
            if (k + 1 == CUT && n + 1 == STEPS) {
                assert_int_equal(ag_engine_deferred(&r->engine), CUT);
                rig_drain(r); /* what was being built can be taken now */
                ag_engine_returned(&r->engine, r->now);
                assert_int_equal(ag_policy_deferred(&r->engine.policy), CUT);
            }
        }
        rig_sync(r);
    }
    rig_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_wait_belongs_to_what_it_waits_for),
        cmocka_unit_test(test_a_step_of_two_segments),
        cmocka_unit_test(test_without_being_told),
        cmocka_unit_test(test_a_wait_that_ends_behind_a_new_plan),
        cmocka_unit_test(test_a_wait_that_ends_in_the_middle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
