/* test_blocking.c - CUDA_LAUNCH_BLOCKING=1: a launch returns when its work has finished. */
#include "tests/simdriver/simprog.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <unistd.h>

enum { ROUNDS = 200, BURST = 4 };

static CUfunction hash, trap;
static CUstream stream;

static uint64_t *managed(CUdeviceptr *x)
{
    CHECK(cuMemAllocManaged(x, 8, CU_MEM_ATTACH_GLOBAL));
    *(uint64_t *)*x = 0;
    return (uint64_t *)*x;
}

static void the_host_sees_what_a_launch_wrote(void **state)
{
    (void)state;
    CUdeviceptr x;
    const uint64_t *seen = managed(&x);
    uint64_t expected = 0;
    CUstream streams[] = {stream, NULL, CU_STREAM_PER_THREAD};
    for (uint64_t k = 0; k < ROUNDS; k++) {
        CHECK(ag_prog_hash(hash, streams[k % 3], x, k));
        expected = expected * 31 + k;
        assert_int_equal(__atomic_load_n(seen, __ATOMIC_SEQ_CST), expected);
        CHECK(cuStreamQuery(streams[k % 3]));
    }
    CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, stream, NULL, 0};
    CHECK(cuLaunchKernelEx(&config, hash, (void *[]){&x, &(uint64_t){7}}, NULL));
    expected = expected * 31 + 7;
    assert_int_equal(__atomic_load_n(seen, __ATOMIC_SEQ_CST), expected);
    CHECK(cuMemFree_v2(x));
}

static void so_it_does_with_graphs(void **state)
{
    (void)state;
    CUgraph g;
    CUgraphExec exec;
    CUdeviceptr x;
    const uint64_t *seen = managed(&x);
    uint64_t expected = 0;
    CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    for (uint64_t k = 0; k < BURST; k++)
        CHECK(ag_prog_hash(hash, stream, x, k)); /* recorded, and nothing to wait for */
    CHECK(cuStreamEndCapture(stream, &g));
    assert_int_equal(*seen, 0);
    CHECK(cuGraphInstantiateWithFlags(&exec, g, 0));
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(cuGraphLaunch(exec, stream));
        for (uint64_t k = 0; k < BURST; k++)
            expected = expected * 31 + k;
        assert_int_equal(__atomic_load_n(seen, __ATOMIC_SEQ_CST), expected);
    }
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(g));
    CHECK(cuMemFree_v2(x));
}

/* Last: the context is lost. */
static void the_launch_that_fails_says_so(void **state)
{
    (void)state;
    CUdeviceptr x = ag_prog_alloc(8);
    CHECK(cuCtxSynchronize());
    CHECK(ag_prog_hash(hash, stream, x, 1));
    EXPECT(ag_prog_launch(trap, stream, (void *[]){&(int){CUDA_ERROR_LAUNCH_FAILED}}),
           CUDA_ERROR_LAUNCH_FAILED);
    EXPECT(ag_prog_hash(hash, stream, x, 2), CUDA_ERROR_LAUNCH_FAILED);
}

static int start(void **state)
{
    (void)state;
    ag_prog_start();
    CUmodule module = ag_prog_module();
    hash = ag_prog_function(module, "hash");
    trap = ag_prog_function(module, "trap");
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return 0;
}

int main(int argc, char **argv)
{
    (void)argc;
    if (!getenv("CUDA_LAUNCH_BLOCKING")) { /* the driver reads it when it is loaded */
        setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
        execv(argv[0], argv);
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_host_sees_what_a_launch_wrote),
        cmocka_unit_test(so_it_does_with_graphs),
        cmocka_unit_test(the_launch_that_fails_says_so),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
