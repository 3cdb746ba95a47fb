/* test_memory.c - little device memory, that graphs take too; launches refused now and then. */
#include "tests/simdriver/simprog.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <unistd.h>

enum { NODES = 1000, NODE_BYTES = 2800, MEMORY = 4 << 20 };

static CUcontext context;
static CUfunction hash;
static CUstream stream;
static CUdeviceptr x;

static size_t available(void)
{
    size_t bytes, total;
    CHECK(cuMemGetInfo_v2(&bytes, &total));
    assert_int_equal(total, MEMORY);
    return bytes;
}

static CUgraph record(void)
{
    CUgraph g;
    CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    for (uint64_t k = 0; k < NODES; k++)
        CHECK(ag_prog_hash(hash, stream, x, k));
    CHECK(cuStreamEndCapture(stream, &g));
    return g;
}

static void graphs_take_memory(void **state)
{
    (void)state;
    CUgraph g = record();
    CUgraphExec first, second;
    CUdeviceptr rest, more;
    size_t before = available();
    CHECK(cuGraphInstantiateWithFlags(&first, g, 0));
    assert_int_equal(available(), before - NODES * NODE_BYTES);
    EXPECT(cuGraphInstantiateWithFlags(&second, g, 0), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT(cuMemAlloc_v2(&rest, before), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(cuMemAlloc_v2(&rest, available()));
    assert_int_equal(available(), 0);
    EXPECT(cuMemAlloc_v2(&more, 1), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT(cuMemAllocAsync(&more, 1, stream), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(cuGraphExecUpdate_v2(first, g, &(CUgraphExecUpdateResultInfo){0}));
    CHECK(cuGraphLaunch(first, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuGraphExecDestroy(first));
    assert_int_equal(available(), NODES * NODE_BYTES);
    CHECK(cuMemAlloc_v2(&more, NODES * NODE_BYTES));
    EXPECT(cuGraphInstantiateWithFlags(&first, g, 0), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(cuMemFree_v2(more));
    CHECK(cuMemFree_v2(rest));
    CHECK(cuGraphDestroy(g));
    assert_int_equal(available(), before);
}

static void a_context_gives_back_what_its_graphs_took(void **state)
{
    (void)state;
    CUcontext other;
    CUgraph g = record();
    CUgraphExec exec;
    size_t before = available();
    CHECK(cuCtxCreate_v2(&other, 0, 0));
    CHECK(cuGraphInstantiateWithFlags(&exec, g, 0));
    assert_int_equal(available(), before - NODES * NODE_BYTES);
    CHECK(cuCtxDestroy_v2(other));
    CHECK(cuCtxSetCurrent(context));
    assert_int_equal(available(), before);
    CHECK(cuGraphExecDestroy(exec));
    assert_int_equal(available(), before);
    CHECK(cuGraphDestroy(g));
}

static void each_device_has_its_own(void **state)
{
    (void)state;
    CUcontext other;
    CUdeviceptr all;
    void *host;
    size_t before = available();
    CHECK(cuMemAlloc_v2(&all, before));
    CHECK(cuMemHostAlloc(&host, MEMORY / 2, 0)); /* the host's */
    assert_int_equal(available(), 0);
    CHECK(cuDevicePrimaryCtxRetain(&other, 1));
    CHECK(cuCtxSetCurrent(other));
    assert_int_equal(available(), MEMORY);
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuDevicePrimaryCtxRelease_v2(1));
    CHECK(cuMemFreeHost(host));
    CHECK(cuMemFree_v2(all));
    assert_int_equal(available(), before);
}

/* SIMCUDA_FAIL: the third and fourth launch of this kind. */
static void a_launch_is_refused_and_a_later_one_is_not(void **state)
{
    (void)state;
    const CUresult expected[] = {CUDA_SUCCESS, CUDA_SUCCESS, CUDA_ERROR_OUT_OF_MEMORY,
                                 CUDA_ERROR_OUT_OF_MEMORY, CUDA_SUCCESS};
    CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, stream, NULL, 0};
    CHECK(cuMemsetD8Async(x, 0, 8, stream));
    for (uint64_t k = 0; k < 5; k++)
        EXPECT(cuLaunchKernelEx(&config, hash, (void *[]){&x, &k}, NULL), expected[k]);
    CHECK(cuStreamSynchronize(stream));
    assert_int_equal(ag_prog_read64(x), (0 * 31 + 1) * 31 + 4);
}

static int start(void **state)
{
    (void)state;
    context = ag_prog_start();
    hash = ag_prog_function(ag_prog_module(), "hash");
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    x = ag_prog_alloc(8);
    CHECK(cuCtxSynchronize());
    return 0;
}

int main(int argc, char **argv)
{
    (void)argc;
    if (!getenv("SIMCUDA_NODE_BYTES")) { /* the driver reads it when it is loaded */
        setenv("SIMCUDA_MEMORY_MB", "4", 1);
        setenv("SIMCUDA_NODE_BYTES", "2800", 1);
        setenv("SIMCUDA_FAIL", "cuLaunchKernelEx:3-4=2", 1);
        execv(argv[0], argv);
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(graphs_take_memory),
        cmocka_unit_test(a_context_gives_back_what_its_graphs_took),
        cmocka_unit_test(each_device_has_its_own),
        cmocka_unit_test(a_launch_is_refused_and_a_later_one_is_not),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
