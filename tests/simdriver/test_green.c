/* test_green.c - green contexts: their streams, what they share, and what ends them. */
#include "tests/simdriver/simprog.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static CUcontext home;
static CUfunction hash, spin;
static CUdeviceptr x;

static CUgreenCtx make(CUdevice device)
{
    CUdevResource all, part[2];
    CUdevResourceDesc desc;
    CUgreenCtx green;
    unsigned int groups = 2;
    CHECK(cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM));
    CHECK(cuDevSmResourceSplitByCount(part, &groups, &all, NULL, 0, 20));
    assert_int_equal(groups, 2);
    assert_int_equal(part[0].sm.smCount, 24);
    CHECK(cuDevResourceGenerateDesc(&desc, part, 1));
    EXPECT(cuGreenCtxCreate(&green, desc, device, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK(cuGreenCtxCreate(&green, desc, device, CU_GREEN_CTX_DEFAULT_STREAM));
    CHECK(cuGreenCtxGetDevResource(green, &all, CU_DEV_RESOURCE_TYPE_SM));
    assert_int_equal(all.sm.smCount, 24);
    return green;
}

static void its_streams_share_what_the_primary_has(void **state)
{
    (void)state;
    CUgreenCtx green = make(0), found;
    CUcontext as_context, ctx;
    CUstream s, own;
    CUevent e;
    EXPECT(cuGreenCtxStreamCreate(&s, green, CU_STREAM_DEFAULT, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK(cuGreenCtxStreamCreate(&s, green, CU_STREAM_NON_BLOCKING, 0));
    CHECK(cuStreamGetGreenCtx(s, &found));
    assert_ptr_equal(found, green);
    CHECK(cuStreamGetCtx_v2(s, &ctx, &found));
    assert_ptr_equal(ctx, home);
    assert_ptr_equal(found, green);
    CHECK(cuEventCreate(&e, 0));
    CHECK(cuMemsetD8_v2(x, 0, 8));
    CHECK(cuCtxSynchronize());
    CHECK(ag_prog_hash(hash, s, x, 5));
    CHECK(cuEventRecord(e, s));
    CHECK(cuEventSynchronize(e));
    CHECK(cuCtxFromGreenCtx(&as_context, green));
    assert_ptr_not_equal(as_context, home);
    CHECK(cuCtxSetCurrent(as_context));
    CHECK(cuStreamCreate(&own, CU_STREAM_DEFAULT));
    CHECK(cuStreamGetGreenCtx(own, &found));
    assert_ptr_equal(found, green);
    CHECK(cuStreamGetGreenCtx(NULL, &found));
    assert_ptr_equal(found, green);
    CHECK(ag_prog_hash(hash, own, x, 6)); /* the green context's default stream waits for it */
    CHECK(ag_prog_hash(hash, NULL, x, 7));
    CHECK(cuStreamSynchronize(NULL));
    EXPECT(cuCtxDestroy_v2(as_context), CUDA_ERROR_INVALID_CONTEXT);
    CHECK(cuStreamDestroy_v2(own));
    CHECK(cuCtxSetCurrent(home));
    CHECK(cuStreamGetGreenCtx(NULL, &found));
    assert_null(found);
    assert_int_equal(ag_prog_read64(x), (5 * 31 + 6) * 31 + 7);
    CHECK(cuStreamDestroy_v2(s));
    CHECK(cuEventDestroy_v2(e));
    CHECK(cuGreenCtxDestroy(green));
    EXPECT(cuGreenCtxDestroy(green), CUDA_ERROR_INVALID_CONTEXT);
}

static void the_primary_waits_for_it(void **state)
{
    (void)state;
    CUgreenCtx green = make(0);
    CUstream s;
    CHECK(cuMemsetD8_v2(x, 0, 8));
    CHECK(cuGreenCtxStreamCreate(&s, green, CU_STREAM_NON_BLOCKING, 0));
    for (int i = 0; i < 20; i++)
        CHECK(ag_prog_launch(spin, s, (void *[]){&(int){500}}));
    CHECK(cuCtxSynchronize());
    CHECK(cuStreamQuery(s));
    CHECK(cuStreamDestroy_v2(s));
    CHECK(cuGreenCtxDestroy(green));
}

static void streams_that_are_left_answer_that_it_is_gone(void **state)
{
    (void)state;
    CUgreenCtx green = make(0);
    CUcontext as_context;
    CUstream s;
    CUdeviceptr p;
    CHECK(cuGreenCtxStreamCreate(&s, green, CU_STREAM_NON_BLOCKING, 0));
    CHECK(cuCtxFromGreenCtx(&as_context, green));
    CHECK(cuCtxSetCurrent(as_context));
    CHECK(cuMemAlloc_v2(&p, 8));
    CHECK(cuGreenCtxDestroy(green));
    EXPECT(cuStreamQuery(s), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    EXPECT(ag_prog_hash(hash, s, x, 1), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    EXPECT(cuStreamDestroy_v2(s), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    EXPECT(cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    CHECK(cuCtxSetCurrent(home));
    CHECK(cuMemFree_v2(p)); /* the primary context's */
}

static void it_holds_the_primary_context(void **state)
{
    (void)state;
    CUgreenCtx green = make(1);
    CUstream s;
    unsigned int flags;
    int active;
    CHECK(cuDevicePrimaryCtxGetState(1, &flags, &active));
    assert_int_equal(active, 1);
    CHECK(cuGreenCtxDestroy(green));
    CHECK(cuDevicePrimaryCtxGetState(1, &flags, &active));
    assert_int_equal(active, 0);
    green = make(1);
    CHECK(cuGreenCtxStreamCreate(&s, green, CU_STREAM_NON_BLOCKING, 0));
    CHECK(cuDevicePrimaryCtxReset_v2(1));
    EXPECT(cuStreamQuery(s), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    EXPECT(cuGreenCtxStreamCreate(&s, green, CU_STREAM_NON_BLOCKING, 0),
           CUDA_ERROR_CONTEXT_IS_DESTROYED);
    EXPECT(cuGreenCtxDestroy(green), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    EXPECT(cuDevicePrimaryCtxRelease_v2(1), CUDA_ERROR_INVALID_CONTEXT);
}

static int start(void **state)
{
    (void)state;
    home = ag_prog_start();
    CUmodule module = ag_prog_module();
    hash = ag_prog_function(module, "hash");
    spin = ag_prog_function(module, "spin_us");
    x = ag_prog_alloc(8);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(its_streams_share_what_the_primary_has),
        cmocka_unit_test(the_primary_waits_for_it),
        cmocka_unit_test(streams_that_are_left_answer_that_it_is_gone),
        cmocka_unit_test(it_holds_the_primary_context),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
