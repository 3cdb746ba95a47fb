/* test_newer.c - a driver with entry points that cuda.h does not have yet. */
#include "tests/simdriver/simprog.h"
#include "tests/simdriver/newer.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <unistd.h>

enum { NODES = 5 };
static const char *const names[] = {
    "cuStreamBeginRecaptureToGraph",
    "cuStreamBeginCaptureToCig",
    "cuStreamEndCaptureToCig",
    "cuFutureBeginCapture",
    "cuFutureLaunch",
    "cuFutureNothing",
};
enum { NAMES = sizeof names / sizeof *names };

static CUfunction hash;
static CUstream stream;
static CUdeviceptr x;

static void *ask(const char *name, cuuint64_t flags, CUresult expected)
{
    void *p = NULL;
    EXPECT(cuGetProcAddress_v2(name, &p, 13030, flags, NULL), expected);
    REQUIRE((p != NULL) == (expected == CUDA_SUCCESS));
    return p;
}

static void the_getter_answers_them(void **state)
{
    (void)state;
    for (int i = 0; i < NAMES; i++)
        ask(names[i], 0, CUDA_SUCCESS);
    assert_ptr_equal(ask("cuStreamBeginRecaptureToGraph", 0, CUDA_SUCCESS),
                     (void *)cuStreamBeginRecaptureToGraph);
    assert_ptr_equal(ask("cuStreamBeginRecaptureToGraph",
                         CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, CUDA_SUCCESS),
                     (void *)cuStreamBeginRecaptureToGraph_ptsz);
    assert_int_equal(cuSimFail("cuFutureNothing", 1, CUDA_ERROR_UNKNOWN), 0);
    EXPECT(cuFutureNothing(), CUDA_ERROR_UNKNOWN);
    CHECK(cuFutureNothing());
}

static void record(uint64_t first)
{
    for (uint64_t k = first; k < first + NODES; k++)
        CHECK(ag_prog_hash(hash, stream, x, k));
}

static uint64_t after(uint64_t first)
{
    uint64_t value = 0;
    for (uint64_t k = first; k < first + NODES; k++)
        value = value * 31 + k;
    return value;
}

static uint64_t launched(CUgraph g)
{
    CUgraphExec e;
    CHECK(cuMemsetD8Async(x, 0, 8, stream));
    CHECK(cuGraphInstantiateWithFlags(&e, g, 0));
    CHECK(cuGraphLaunch(e, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuGraphExecDestroy(e));
    return ag_prog_read64(x);
}

static void a_recapture_replaces_parameters(void **state)
{
    (void)state;
    CUgraph g, same;
    size_t count;
    CHECK(cuStreamBeginRecaptureToGraph(stream, CU_STREAM_CAPTURE_MODE_RELAXED, NULL, NULL, NULL));
    record(1);
    CHECK(cuStreamEndCapture(stream, &g));
    assert_int_equal(launched(g), after(1));
    CHECK(cuStreamBeginRecaptureToGraph(stream, CU_STREAM_CAPTURE_MODE_RELAXED, g, NULL, NULL));
    CUstreamCaptureStatus status;
    CHECK(cuStreamIsCapturing(stream, &status));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    record(9);
    CHECK(cuStreamEndCapture(stream, &same));
    assert_ptr_equal(same, g);
    CHECK(cuGraphGetNodes(g, NULL, &count));
    assert_int_equal(count, NODES);
    assert_int_equal(launched(g), after(9));
    CHECK(cuGraphDestroy(g));
}

static void a_recapture_that_differs_fails(void **state)
{
    (void)state;
    CUgraph g, none;
    CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    record(1);
    CHECK(cuStreamEndCapture(stream, &g));
    CHECK(cuStreamBeginRecaptureToGraph(stream, CU_STREAM_CAPTURE_MODE_RELAXED, g, NULL, NULL));
    EXPECT(cuMemsetD8Async(x, 0, 8, stream), CUSIM_ERROR_GRAPH_RECAPTURE_FAILURE);
    EXPECT(cuStreamEndCapture(stream, &none), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    CHECK(cuStreamBeginRecaptureToGraph(stream, CU_STREAM_CAPTURE_MODE_RELAXED, g, NULL, NULL));
    CHECK(ag_prog_hash(hash, stream, x, 1)); /* and nothing more */
    EXPECT(cuStreamEndCapture(stream, &none), CUSIM_ERROR_GRAPH_RECAPTURE_FAILURE);
    assert_null(none);
    CHECK(cuGraphDestroy(g));
}

static void captured_for_another_api(void **state)
{
    (void)state;
    CUstreamCaptureStatus status;
    CHECK(cuMemsetD8Async(x, 0, 8, stream));
    CHECK(cuStreamBeginCaptureToCig(stream, NULL));
    record(1);
    CHECK(cuStreamEndCaptureToCig(stream));
    EXPECT(cuStreamEndCaptureToCig(stream), CUDA_ERROR_ILLEGAL_STATE);
    CHECK(cuStreamIsCapturing(stream, &status));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_NONE);
    CHECK(cuStreamSynchronize(stream));
    assert_int_equal(ag_prog_read64(x), 0);
}

static void an_unknown_call_launches(void **state)
{
    (void)state;
    CHECK(cuMemsetD8Async(x, 0, 8, stream));
    for (uint64_t k = 1; k < 1 + NODES; k++)
        CHECK(cuFutureLaunch(hash, stream, (void *[]){&x, &k}));
    CHECK(cuStreamSynchronize(stream));
    assert_int_equal(ag_prog_read64(x), after(1));
}

static int start(void **state)
{
    (void)state;
    ag_prog_start();
    hash = ag_prog_function(ag_prog_module(), "hash");
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    x = ag_prog_alloc(8);
    CHECK(cuCtxSynchronize());
    return 0;
}

int main(int argc, char **argv)
{
    (void)argc;
    if (!getenv("SIMCUDA_VERSION")) {   /* the driver reads it when it is loaded */
        for (int i = 0; i < NAMES; i++) /* a driver of 13.0 does not know them */
            ask(names[i], 0, CUDA_ERROR_NOT_FOUND);
        setenv("SIMCUDA_VERSION", "13030", 1);
        execv(argv[0], argv);
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_getter_answers_them),
        cmocka_unit_test(a_recapture_replaces_parameters),
        cmocka_unit_test(a_recapture_that_differs_fails),
        cmocka_unit_test(captured_for_another_api),
        cmocka_unit_test(an_unknown_call_launches),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
