/* test_budget.c - graphs that were dropped are destroyed, except those that the submitter still has
 * to launch. */
#include "tests/unit/unit.h"
#include "capture/graphs/budget.h"
#include "capture/settings/options.h"
#include "driver/entries.h"
#include "policy/policy.h"

static int home;

static CUresult CUDAAPI get_current(CUcontext *ctx)
{
    *ctx = (CUcontext)(void *)&home;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI exchange_mode(CUstreamCaptureMode *mode)
{
    (void)mode;
    return CUDA_SUCCESS;
}

static struct ag_context context;

static struct ag_graphs *dropped(uint32_t handed)
{
    struct ag_chunk chunk = {0};
    struct ag_graphs *g = calloc(1, sizeof(*g));
    g->context = &context;
    g->chunks = 1;
    atomic_store(&g->handed, handed);
    ag_chunk_set_user(&chunk, g);
    ag_graphs_discard(&chunk);
    assert_null(ag_chunk_user(&chunk));
    return g;
}

/* Whichever came first, the others do not wait for it. */
static void those_in_a_ring_stay(void **state)
{
    (void)state;
    ag_real[AG_SYM_cuCtxGetCurrent] = (void *)get_current;
    ag_real[AG_SYM_cuThreadExchangeStreamCaptureMode] = (void *)exchange_mode;
    context.handle = (CUcontext)(void *)&home;
    for (int place = 0; place < 3; place++) {
        struct ag_graphs *handed = NULL;
        for (int i = 0; i < 3; i++) {
            struct ag_graphs *g = dropped(i == place ? 2 : 0);
            handed = i == place ? g : handed;
        }
        assert_int_equal(ag_graphs_dropped(), 3);
        assert_int_equal(ag_graphs_collect(UINT32_MAX), 2);
        assert_int_equal(ag_graphs_collect(UINT32_MAX), 0);
        assert_int_equal(ag_graphs_dropped(), 1);
        atomic_fetch_add(&handed->done, 1); /* in the ring once more */
        assert_int_equal(ag_graphs_collect(1), 0);
        atomic_fetch_add(&handed->done, 1);
        assert_int_equal(ag_graphs_collect(1), 1);
        assert_int_equal(ag_graphs_dropped(), 0);
    }
}

/* The submitter launches graphs that were dropped after it was given them. It asks for no variant
 * of them: they may be destroyed before the builder comes to that. */
static void none_asks_for_more_of_what_was_dropped(void **state)
{
    (void)state;
    struct ag_graphs *g = dropped(1);
    assert_false(ag_graphs_requested(g));
    assert_null(atomic_load(&g->incoming));
    atomic_store(&g->handed, 0);
    assert_int_equal(ag_graphs_collect(UINT32_MAX), 1);

    struct ag_graphs used = {.chunks = 1};
    assert_true(ag_graphs_requested(&used));
    assert_ptr_equal(atomic_load(&used.incoming), AG_REQUESTED);
}

/* Kernels may have arguments of 32 KiB, of which the library keeps several sets. */
static void arguments_count(void **state)
{
    enum { BYTES = 1 << 20 };
    (void)state;
    assert_int_equal(ag_budget_used(), 0);
    struct ag_graphs *g = calloc(1, sizeof(*g));
    struct ag_chunk chunk = {0};
    g->context = &context;
    g->chunks = 1;
    g->count = 32;
    g->num_bytes = BYTES;
    g->num_variants = 1; /* not there: nothing is asked of it */
    ag_chunk_set_user(&chunk, g);
    ag_budget_take(g);
    assert_true(ag_budget_used() >= 2 * BYTES);
    uint64_t before = ag_budget_used();
    ag_options.memory_mb = (uint32_t)(before / BYTES) + 2;
    assert_null(ag_budget_new_history(g));
    assert_int_equal(ag_budget_used(), before);
    ag_options.memory_mb = 256;
    g->history = ag_budget_new_history(g);
    assert_non_null(g->history);
    assert_true(ag_budget_used() >= before + 2 * BYTES);
    ag_graphs_discard(&chunk);
    assert_int_equal(ag_graphs_collect(UINT32_MAX), 1);
    assert_int_equal(ag_budget_used(), 0);
}

/* Graphs that would not fit by themselves make no room, for which others would go in vain. */
static void what_cannot_fit_evicts_nothing(void **state)
{
    (void)state;
    ag_options.memory_mb = 1;
    struct ag_graphs small = {.count = 1}, large = {.count = 1, .num_bytes = 1 << 20};
    dropped(0);
    assert_true(ag_budget_room(&small, true, 0));
    assert_false(ag_budget_room(&large, true, 0));
    assert_int_equal(ag_graphs_dropped(), 1);
    assert_int_equal(ag_graphs_collect(UINT32_MAX), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(those_in_a_ring_stay),
        cmocka_unit_test(none_asks_for_more_of_what_was_dropped),
        cmocka_unit_test(arguments_count),
        cmocka_unit_test(what_cannot_fit_evicts_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
