/* test_expect.c - a stream whose numbers contradict each other submits what it holds, and nothing
 * is deferred in it again. */
#include "tests/unit/unit.h"
#include "capture/graphs/budget.h"
#include "driver/call.h"
#include "capture/tracking/count.h"
#include "capture/core/flush.h"
#include "capture/tracking/signature.h"
#include "capture/tracking/stream.h"
#include "driver/entries.h"
#include "policy/policy.h"

static CUdeviceptr copied[8];
static unsigned int copies;
static int home;

static CUresult CUDAAPI get_current(CUcontext *ctx)
{
    *ctx = (CUcontext)(void *)&home;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI copy(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
    (void)src;
    (void)bytes;
    (void)stream;
    copied[copies++ % 8] = dst;
    return CUDA_SUCCESS;
}

static struct ag_signature signature = {.kind = AG_OP_COPY, .width = 8, .recorded_bytes = 16};
static struct ag_context context;

/* Three copies deferred, as their launches leave them. */
static struct ag_stream *make(void)
{
    struct ag_policy_config config;
    struct ag_stream *s = calloc(1, sizeof(*s));
    ag_policy_defaults(&config);
    assert_false(ag_policy_open(&s->policy, &config, &ag_graphs_policy_hooks));
    ag_real[AG_SYM_cuCtxGetCurrent] = (void *)get_current;
    ag_real[AG_SYM_cuMemcpyDtoDAsync_v2] = (void *)copy;
    context.handle = (CUcontext)(void *)&home;
    s->context = &context;
    s->blocking = true;
    s->recorded = calloc(4, sizeof(*s->recorded));
    s->bytes = calloc(4, 16);
    for (uint32_t i = 0; i < 3; i++) {
        uint64_t dst = 100 + i;
        memcpy(s->bytes + 16 * i, &dst, sizeof(dst));
        s->recorded[i] = (struct ag_recorded){&signature, 16 * i};
    }
    s->num_recorded = s->num_deferred = 3;
    s->num_bytes = 48;
    atomic_store(&s->deferring, 1);
    atomic_store(&context.blocking_deferring, 1);
    copies = 0;
    return s;
}

static void drop(struct ag_stream *s)
{
    ag_policy_close(&s->policy);
    free(s->recorded);
    free(s->bytes);
    free(s);
}

static void is_submitted_and_eager(const struct ag_stream *s, uint64_t mistakes_before)
{
    assert_int_equal(copies, 3);
    for (unsigned int i = 0; i < 3; i++)
        assert_int_equal(copied[i], 100 + i);
    assert_true(s->not_understood);
    assert_false(s->deferring);
    assert_int_equal(s->num_recorded, 0);
    assert_int_equal(s->num_deferred, 0);
    assert_int_equal(context.blocking_deferring, 0);
    assert_int_equal(ag_counts[AG_COUNT_UNEXPECTED], mistakes_before + 1);
}

static void what_holds_changes_nothing(void **state)
{
    (void)state;
    struct ag_stream *s = make();
    ag_flush(s, 3);
    assert_int_equal(copies, 3);
    assert_false(s->not_understood);
    assert_int_equal(ag_counts[AG_COUNT_UNEXPECTED], 0);
    drop(s);
}

/* The policy knows of fewer ops than the stream holds: none may be lost, or come twice. */
static void a_flush_of_too_few(void **state)
{
    (void)state;
    uint64_t before = ag_counts[AG_COUNT_UNEXPECTED];
    struct ag_stream *s = make();
    ag_flush(s, 2);
    is_submitted_and_eager(s, before);
    drop(s);
}

static void a_sync_point_that_knows_of_none(void **state)
{
    (void)state;
    uint64_t before = ag_counts[AG_COUNT_UNEXPECTED];
    struct ag_stream *s = make();
    ag_stream_end_segment(s);
    is_submitted_and_eager(s, before);
    drop(s);
}

/* More than is there: the arguments of the fourth would be anything. */
static void more_deferred_than_recorded(void **state)
{
    (void)state;
    uint64_t before = ag_counts[AG_COUNT_UNEXPECTED];
    struct ag_stream *s = make();
    s->num_deferred = 4;
    ag_flush(s, 4);
    is_submitted_and_eager(s, before);
    drop(s);
}

static void deferral_in_a_stream_that_goes(void **state)
{
    (void)state;
    uint64_t before = ag_counts[AG_COUNT_UNEXPECTED];
    struct ag_stream *s = make();
    s->life = AG_STREAM_CLOSING;
    atomic_store(&s->deferring, 0);
    atomic_store(&context.blocking_deferring, 0);
    ag_deferring_begins(s);
    is_submitted_and_eager(s, before);
    drop(s);
}

static void a_counter_below_nothing(void **state)
{
    (void)state;
    uint64_t before = ag_counts[AG_COUNT_UNEXPECTED];
    struct ag_stream *s = make();
    atomic_store(&context.blocking_deferring, 0);
    ag_flush(s, 3);
    is_submitted_and_eager(s, before);
    drop(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_holds_changes_nothing),
        cmocka_unit_test(a_flush_of_too_few),
        cmocka_unit_test(a_sync_point_that_knows_of_none),
        cmocka_unit_test(more_deferred_than_recorded),
        cmocka_unit_test(deferral_in_a_stream_that_goes),
        cmocka_unit_test(a_counter_below_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
