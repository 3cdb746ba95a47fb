/* test_replay.c - a launch beside the builder's answers. */
#include "tests/unit/unit.h"
#include "capture/graphs/replay.h"
#include "driver/entries.h"
#include <pthread.h>

static CUresult CUDAAPI launch(CUgraphExec exec, CUstream stream)
{
    (void)exec;
    (void)stream;
    return CUDA_SUCCESS;
}

static _Atomic bool over;

/* Requests that come to nothing: the budget is used up, or the build fails. */
static void *answers(void *graphs)
{
    struct ag_graphs *g = graphs;
    while (!atomic_load(&over)) {
        atomic_store(&g->incoming, AG_REQUESTED);
        atomic_store(&g->incoming, NULL);
    }
    return NULL;
}

static void nothing_is_taken_in_that_was_not_built(void **state)
{
    static struct ag_stream stream;
    static uint8_t bytes[8];
    struct ag_variant first = {.bytes = bytes};
    struct ag_graphs g = {.num_variants = 1, .variants = {&first}, .num_bytes = sizeof(bytes)};
    pthread_t thread;
    (void)state;
    ag_real[AG_SYM_cuGraphLaunch] = (void *)launch;
    assert_int_equal(pthread_create(&thread, NULL, answers, &g), 0);
    for (int i = 0; i < 1000000 && g.num_variants == 1; i++)
        assert_true(ag_graphs_launch(&stream, &g, bytes));
    atomic_store(&over, true);
    pthread_join(thread, NULL);
    assert_int_equal(g.num_variants, 1);

    struct ag_variant second = {.bytes = bytes};
    atomic_store(&g.incoming, &second);
    assert_true(ag_graphs_launch(&stream, &g, bytes));
    assert_int_equal(g.num_variants, 2);
    assert_ptr_equal(g.variants[1], &second);
    assert_null(atomic_load(&g.incoming));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_taken_in_that_was_not_built),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
