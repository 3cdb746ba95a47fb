/* test_capture.c - stream capture: what is taken in, what is refused, what breaks it. */
#include "tests/simdriver/simprog.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <pthread.h>

static CUmodule module;
static CUfunction hash;
static CUcontext context;
static CUdeviceptr x;
static CUstream s, other;

static uint64_t launched(CUgraph graph)
{
    CUgraphExec exec;
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    CHECK(cuMemsetD8_v2(x, 0, 8));
    CHECK(cuCtxSynchronize());
    CHECK(cuGraphLaunch(exec, s));
    CHECK(cuStreamSynchronize(s));
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));
    return ag_prog_read64(x);
}

static void begin(CUstreamCaptureMode mode)
{
    CHECK(cuStreamBeginCapture_v2(s, mode));
}

static void end_with(CUresult expected)
{
    CUgraph g;
    EXPECT(cuStreamEndCapture(s, &g), expected);
    assert_null(g);
    CHECK(cuStreamQuery(s)); /* usable again */
}

static void captured_work_runs_at_launch_only(void **state)
{
    (void)state;
    CUgraph g;
    CUstreamCaptureStatus status;
    cuuint64_t id;
    const CUgraphNode *tips;
    size_t n, nodes = 0;
    CHECK(cuMemsetD8_v2(x, 0, 8));
    CHECK(cuCtxSynchronize());
    begin(CU_STREAM_CAPTURE_MODE_RELAXED);
    EXPECT(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_ERROR_ILLEGAL_STATE);
    CHECK(ag_prog_hash(hash, s, x, 1));
    CHECK(cuStreamGetCaptureInfo_v2(s, &status, &id, &g, &tips, &n));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    assert_int_equal(n, 1);
    CUgraphNode first = tips[0];
    CHECK(ag_prog_hash(hash, s, x, 2));
    CHECK(cuStreamGetCaptureInfo_v2(s, &status, &id, &g, &tips, &n));
    assert_int_equal(n, 1);
    assert_ptr_not_equal(tips[0], first);
    CUgraphNode before;
    CHECK(cuGraphNodeGetDependencies(tips[0], &before, &n));
    assert_ptr_equal(before, first);
    CHECK(cuStreamEndCapture(s, &g));
    CHECK(cuStreamIsCapturing(s, &status));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_NONE);
    CHECK(cuGraphGetNodes(g, NULL, &nodes));
    assert_int_equal(nodes, 2);
    assert_int_equal(ag_prog_read64(x), 0);
    assert_int_equal(launched(g), 1 * 31 + 2);
    CUgraph none;
    EXPECT(cuStreamEndCapture(s, &none), CUDA_ERROR_ILLEGAL_STATE);
}

static void events_bring_streams_in(void **state)
{
    (void)state;
    CUevent fork_event, join_event;
    CUgraph g;
    CHECK(cuEventCreate(&fork_event, 0));
    CHECK(cuEventCreate(&join_event, 0));
    begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
    CHECK(ag_prog_hash(hash, s, x, 1));
    CHECK(cuEventRecord(fork_event, s));
    CHECK(cuStreamWaitEvent(other, fork_event, 0));
    CHECK(ag_prog_hash(hash, other, x, 2));
    CHECK(cuEventRecord(join_event, other));
    CHECK(cuStreamWaitEvent(s, join_event, 0));
    CHECK(ag_prog_hash(hash, s, x, 3));
    EXPECT(cuEventQuery(join_event), CUDA_ERROR_CAPTURED_EVENT);
    CHECK(cuStreamEndCapture(s, &g));
    assert_int_equal(launched(g), (1 * 31 + 2) * 31 + 3);

    begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
    CHECK(cuEventRecord(fork_event, s));
    CHECK(cuStreamWaitEvent(other, fork_event, 0));
    CHECK(ag_prog_hash(hash, other, x, 2));
    EXPECT(cuStreamEndCapture(other, &g), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    end_with(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

    begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
    CHECK(cuEventRecord(fork_event, s));
    CHECK(cuStreamWaitEvent(other, fork_event, 0));
    CHECK(ag_prog_hash(hash, other, x, 2));
    end_with(CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    CHECK(cuEventDestroy_v2(fork_event));
    CHECK(cuEventDestroy_v2(join_event));
}

static void outside_events_are_isolated(void **state)
{
    (void)state;
    CUevent e;
    CHECK(cuEventCreate(&e, 0));
    CHECK(cuEventRecord(e, other));
    begin(CU_STREAM_CAPTURE_MODE_RELAXED);
    EXPECT(cuStreamWaitEvent(s, e, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    EXPECT(ag_prog_hash(hash, s, x, 1), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    end_with(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    CHECK(cuEventDestroy_v2(e));
}

static void synchronising_breaks_a_capture(void **state)
{
    (void)state;
    begin(CU_STREAM_CAPTURE_MODE_RELAXED);
    EXPECT(cuStreamSynchronize(s), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    end_with(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    begin(CU_STREAM_CAPTURE_MODE_RELAXED);
    EXPECT(cuStreamQuery(s), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    end_with(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

static void the_legacy_stream_and_captures(void **state)
{
    (void)state;
    CUstream blocking;
    CUgraph g;
    CHECK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    EXPECT(cuStreamBeginCapture_v2(NULL, CU_STREAM_CAPTURE_MODE_RELAXED),
           CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    /* A non-blocking stream's capture leaves it alone. */
    begin(CU_STREAM_CAPTURE_MODE_RELAXED);
    CHECK(ag_prog_hash(hash, NULL, x, 1));
    CHECK(ag_prog_hash(hash, s, x, 1));
    CHECK(cuStreamEndCapture(s, &g));
    CHECK(cuGraphDestroy(g));
    CHECK(cuStreamBeginCapture_v2(blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT(ag_prog_hash(hash, NULL, x, 1), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    EXPECT(cuStreamEndCapture(blocking, &g), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    CHECK(ag_prog_hash(hash, NULL, x, 1));
    CHECK(cuStreamDestroy_v2(blocking));
}

/* Runs cuMemAlloc in another thread with a mode of its own. */
struct attempt {
    CUstreamCaptureMode mode;
    CUresult result;
};
static void *attempt(void *argument)
{
    struct attempt *a = argument;
    CUdeviceptr p;
    CUstreamCaptureMode mode = a->mode;
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuThreadExchangeStreamCaptureMode(&mode));
    assert_int_equal(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
    a->result = cuMemAlloc_v2(&p, 8);
    return NULL;
}

static CUresult allocate_elsewhere(CUstreamCaptureMode mode)
{
    struct attempt a = {.mode = mode};
    pthread_t thread;
    pthread_create(&thread, NULL, attempt, &a);
    pthread_join(thread, NULL);
    return a.result;
}

static void modes_forbid_unsafe_calls(void **state)
{
    (void)state;
    CUdeviceptr p;
    CUgraph g;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
    CHECK(allocate_elsewhere(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    CHECK(cuThreadExchangeStreamCaptureMode(&mode));
    CHECK(cuMemAlloc_v2(&p, 8));
    CHECK(cuThreadExchangeStreamCaptureMode(&mode));
    assert_int_equal(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
    CHECK(ag_prog_hash(hash, s, x, 1));
    CHECK(cuStreamEndCapture(s, &g)); /* nothing of that broke it */
    CHECK(cuGraphDestroy(g));
    CHECK(cuMemFree_v2(p));

    begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
    EXPECT(allocate_elsewhere(CU_STREAM_CAPTURE_MODE_GLOBAL),
           CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    end_with(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

    begin(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    CHECK(allocate_elsewhere(CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT(cuMemAlloc_v2(&p, 8), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    end_with(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

    begin(CU_STREAM_CAPTURE_MODE_RELAXED);
    CHECK(cuMemAlloc_v2(&p, 8));
    CHECK(cuStreamEndCapture(s, &g));
    CHECK(cuGraphDestroy(g));
    CHECK(cuMemFree_v2(p));
}

static void *end_elsewhere(void *argument)
{
    CUgraph g;
    CHECK(cuCtxSetCurrent(context));
    *(CUresult *)argument = cuStreamEndCapture(s, &g);
    return NULL;
}

static void captures_end_in_their_thread(void **state)
{
    (void)state;
    CUgraph g;
    CUresult r = CUDA_SUCCESS;
    pthread_t thread;
    begin(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    pthread_create(&thread, NULL, end_elsewhere, &r);
    pthread_join(thread, NULL);
    assert_int_equal(r, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    CHECK(cuStreamEndCapture(s, &g));
    CHECK(cuGraphDestroy(g));
}

static void a_destroyed_stream_takes_its_capture_along(void **state)
{
    (void)state;
    CUstream t;
    CUdeviceptr p;
    CHECK(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamBeginCapture_v2(t, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CHECK(cuStreamDestroy_v2(t));
    CHECK(cuMemAlloc_v2(&p, 8));
    CHECK(cuMemFree_v2(p));
}

static int start(void **state)
{
    (void)state;
    context = ag_prog_start();
    module = ag_prog_module();
    hash = ag_prog_function(module, "hash");
    x = ag_prog_alloc(8);
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(captured_work_runs_at_launch_only),
        cmocka_unit_test(events_bring_streams_in),
        cmocka_unit_test(outside_events_are_isolated),
        cmocka_unit_test(synchronising_breaks_a_capture),
        cmocka_unit_test(the_legacy_stream_and_captures),
        cmocka_unit_test(modes_forbid_unsafe_calls),
        cmocka_unit_test(captures_end_in_their_thread),
        cmocka_unit_test(a_destroyed_stream_takes_its_capture_along),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
