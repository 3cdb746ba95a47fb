/* test_far.c - programs that are far ahead of the GPU, and wait for it behind a graph. */
#include "rig.h"

enum { QUEUE = 1021 }; /* of the driver: a graph takes one place, as a launch does */

struct gpu {
    uint64_t kernel_ns, free; /* when it has done all that was submitted */
    uint64_t ends[QUEUE];     /* of what was submitted last */
    uint64_t submitted;       /* graphs and launches */
};

static void takes(struct rig *r, const struct ag_chunk *chunk)
{
    struct gpu *gpu = r->world;
    uint64_t *end = &gpu->ends[gpu->submitted++ % QUEUE];
    r->now = (*end > r->now ? *end : r->now) + r->launch_ns; /* there is a place by then */
    gpu->free =
        (gpu->free > r->now ? gpu->free : r->now) + (chunk ? chunk->count : 1) * gpu->kernel_ns;
    *end = gpu->free;
}

/* Behind a graph the program goes on once the GPU has fewer ops to do. */
static uint64_t wait_for(struct rig *r, const struct gpu *gpu)
{
    uint64_t ahead = AG_AHEAD_MOST * gpu->kernel_ns, ns = 0;
    if (gpu->free > r->now + ahead)
        ns = gpu->free - r->now - ahead;
    r->now += ns;
    return ns;
}

struct seen {
    double ops_a_launch, replayed; /* in the last third */
    uint64_t waits;                /* in all */
};

static struct seen play(uint64_t kernel_ns, uint32_t turn)
{
    enum { OPS = 60000 };
    struct rig *r = rig_open(NULL);
    struct gpu gpu = {.kernel_ns = kernel_ns};
    struct seen seen = {0};
    r->launch = takes;
    r->world = &gpu;
    r->gap = 100;
    for (uint32_t i = 0; i < OPS; i++) {
        if (i == OPS / 3 * 2)
            rig_mark(r);
        struct rig_given given = rig_op(r, rig_key(1, i % turn));
        uint64_t ns = given.graphs ? wait_for(r, &gpu) : 0;
        if (ns) {
            seen.waits++;
            ag_policy_waited(ag_engine_policy(&r->engine), ns, r->now);
        }
    }
    seen.ops_a_launch = rig_ops_per_launch(r);
    seen.replayed = rig_replayed(r);
    rig_close(r);
    return seen;
}

/* How long launches are made to wait says nothing of how fast the host is, so as many ops go by
 * each graph, and waits are no reason to launch one by one. */
static void test_far_is_no_slow_host(void **state)
{
    (void)state;
    for (uint64_t kernel_ns = 1000; kernel_ns <= 16000; kernel_ns *= 4)
        for (uint32_t turn = 1; turn <= 1200; turn += 1 + turn / 2) {
            struct seen seen = play(kernel_ns, turn);
            rig_at_least((double)seen.waits, 500);
            rig_at_least(seen.ops_a_launch, 38);
            rig_at_least(seen.replayed, 97);
        }
}

/* A trial of eager turns first fills the driver's queue, so it has few waits and the graphs' turns
 * have many. That does not make the graphs slow. */
static void test_far_is_no_slow_graphs(void **state)
{
    (void)state;
    for (uint64_t kernel_ns = 4000; kernel_ns <= 16000; kernel_ns *= 2)
        rig_at_least(play(kernel_ns, 40).ops_a_launch, 38);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_far_is_no_slow_host),
        cmocka_unit_test(test_far_is_no_slow_graphs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
