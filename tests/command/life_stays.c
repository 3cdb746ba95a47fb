/*
 * life_stays.c - cases of `life`: what stays when another context ends, or a stream, or when a call
 * that would end something fails. These are properties, waits and captures.
 */
#include "tests/command/life.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

/* ---- what outlives a context that does not end --------------------------------------------- */

int kept_property(int n)
{
    uint64_t before = cuSimCallCount("cuGraphLaunch");
    CUcontext ctx = ag_prog_start();
    struct work w = make_work(NULL);
    step(&w);
    set_property(w.stream);
    steps(&w, n);
    pair();
    steps(&w, n);
    cuSimFail("cuDevicePrimaryCtxReset_v2", 1, CUDA_ERROR_INVALID_DEVICE);
    EXPECT(cuDevicePrimaryCtxReset_v2(0), CUDA_ERROR_INVALID_DEVICE);
    steps(&w, n);
    EXPECT(cuCtxDestroy_v2(ctx), CUDA_ERROR_INVALID_CONTEXT); /* a primary one */
    steps(&w, n);
    CHECK(cuCtxSetCurrent(ctx));
    printf("graph launches of a stream with a property that graphs lack: %d\n",
           (int)(cuSimCallCount("cuGraphLaunch") - before));
    return print("property", is_right(&w));
}

/* Calls that would end the context fail: all goes on as before. */
int failing_ends(int n)
{
    CUcontext ctx = ag_prog_start();
    struct work w = make_work(NULL);
    for (int i = 0; i < 3; i++) {
        steps(&w, n);
        launches(&w, 0, STEP / 2);
        EXPECT(cuCtxDestroy_v2(ctx), CUDA_ERROR_INVALID_CONTEXT);
        CHECK(cuCtxSetCurrent(ctx));
        launches(&w, STEP / 2, STEP);
        cuSimFail("cuDevicePrimaryCtxReset_v2", 1, CUDA_ERROR_INVALID_DEVICE);
        EXPECT(cuDevicePrimaryCtxReset_v2(0), CUDA_ERROR_INVALID_DEVICE);
    }
    return print("failing ends", is_right(&w));
}

/* ---- waits of one context, while another ends ---------------------------------------------- */

static _Atomic bool let_go, waiting;

static void CUDA_CB wait_for_program(void *unused)
{
    (void)unused;
    atomic_store(&waiting, true);
    while (!atomic_load(&let_go))
        sched_yield();
}

static void end_another_context(CUcontext home)
{
    CUcontext ctx;
    CHECK(cuCtxCreate_v2(&ctx, 0, 0));
    struct work w = make_work(NULL);
    step(&w);
    CHECK(cuCtxDestroy_v2(ctx));
    CHECK(cuCtxSetCurrent(home));
    reset_device_1();
    pair();
}

/* Nothing may be built while something waits for the program; the counts are 0 without the
 * library. */
static int builds_while_waiting(struct work *w, CUcontext home)
{
    uint64_t before = cuSimCallCount("cuGraphInstantiateWithFlags");
    steps(w, 20);
    end_another_context(home);
    steps(w, 20);
    return (int)(cuSimCallCount("cuGraphInstantiateWithFlags") - before);
}

int host_function_waits(int n)
{
    CUcontext home = ag_prog_start();
    CUstream waits;
    struct work w = make_work(NULL);
    CHECK(cuStreamCreate(&waits, CU_STREAM_NON_BLOCKING));
    CHECK(cuLaunchHostFunc(waits, wait_for_program, NULL));
    while (!atomic_load(&waiting))
        sched_yield();
    printf("built behind a host function: %d\n", builds_while_waiting(&w, home));
    atomic_store(&let_go, true);
    CHECK(cuStreamSynchronize(waits));
    steps(&w, n);
    return print("host function", is_right(&w));
}

/* `stream` as a program names it; 0: one that it launches to as well. */
static int word_waits(int n, CUstream stream)
{
    CUcontext home = ag_prog_start();
    struct work w = make_work(NULL);
    uint32_t *word;
    CHECK(cuMemHostAlloc((void **)&word, sizeof *word, CU_MEMHOSTALLOC_DEVICEMAP));
    *word = 0;
    struct work behind = make_work(stream);
    if (!stream)
        step(&behind);
    CHECK(cuStreamWaitValue32(behind.stream, (CUdeviceptr)(uintptr_t)word, 1,
                              CU_STREAM_WAIT_VALUE_EQ));
    printf("built behind a wait: %d\n", builds_while_waiting(&w, home));
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
    CHECK(cuStreamSynchronize(behind.stream));
    steps(&w, n);
    return print("wait", is_right(&w) && is_right(&behind));
}

int stream_waits(int n)
{
    return word_waits(n, NULL);
}

/* In a stream of which nothing is kept. */
int loose_waits(int n)
{
    return word_waits(n, CU_STREAM_PER_THREAD);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

/* A context is attached to and detached from, and lives on with a stream that waits. */
int attached(int n)
{
    CUcontext ctx, same;
    ag_prog_start();
    CHECK(cuCtxCreate_v2(&ctx, 0, 0));
    struct work w = make_work(NULL), behind = make_work(CU_STREAM_PER_THREAD);
    uint32_t *word;
    CHECK(cuMemHostAlloc((void **)&word, sizeof *word, CU_MEMHOSTALLOC_DEVICEMAP));
    *word = 0;
    CHECK(cuStreamWaitValue32(behind.stream, (CUdeviceptr)(uintptr_t)word, 1,
                              CU_STREAM_WAIT_VALUE_EQ));
    uint64_t before = cuSimCallCount("cuGraphInstantiateWithFlags");
    for (int i = 0; i < 20; i++) {
        step(&w);
        CHECK(cuCtxAttach(&same, 0));
        CHECK(cuCtxDetach(same));
    }
    steps(&w, 20);
    printf("built behind a wait: %d\n",
           (int)(cuSimCallCount("cuGraphInstantiateWithFlags") - before));
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
    CHECK(cuStreamSynchronize(behind.stream));
    steps(&w, n);
    int bad = print("attached", is_right(&w));
    CHECK(cuCtxDetach(ctx));
    EXPECT(cuCtxDetach(ctx), CUDA_ERROR_INVALID_CONTEXT);
    return bad;
}

#pragma GCC diagnostic pop

/* ---- captures ------------------------------------------------------------------------------ */

static void begin_capture(void)
{
    CUstream stream;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
}

/* Captures that end with their contexts, in streams that nothing was launched to. */
int lost_captures(int n)
{
    CUcontext ctx, home = ag_prog_start();
    struct work w = make_work(NULL);
    CHECK(cuCtxCreate_v2(&ctx, 0, 1));
    begin_capture();
    begin_capture();
    CHECK(cuCtxDestroy_v2(ctx));
    CHECK(cuCtxSetCurrent(home));
    steps(&w, n);
    int bad = print("behind a context", is_right(&w));
    begin_capture();
    CHECK(cuDevicePrimaryCtxReset_v2(0));
    CHECK(cuCtxSetCurrent(ag_prog_start()));
    w = make_work(NULL);
    steps(&w, n);
    return bad | print("behind a reset", is_right(&w));
}

/* A capture spreads to another stream, which is destroyed before the capture ends, beside a capture
 * of another stream, which goes on. */
int spread_capture(int n)
{
    CUstream spread, to;
    CUevent event;
    CUgraph graph = NULL;
    CUgraphExec exec;
    size_t nodes = 0;
    ag_prog_start();
    struct work w = make_work(NULL);
    steps(&w, n);
    CHECK(cuStreamCreate(&spread, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&to, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CHECK(cuStreamBeginCapture_v2(w.stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK(cuStreamBeginCapture_v2(spread, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK(cuEventRecord(event, spread));
    CHECK(cuStreamWaitEvent(to, event, 0));
    CHECK(cuStreamDestroy_v2(to));
    cuStreamEndCapture(spread, &graph); /* what it returns is the driver's affair */
    launches(&w, 0, STEP);
    launches(&w, 0, STEP);
    CHECK(cuStreamEndCapture(w.stream, &graph));
    CHECK(cuGraphGetNodes(graph, NULL, &nodes));
    printf("nodes: %zu\n", nodes);
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    CHECK(cuGraphLaunch(exec, w.stream));
    CHECK(cuStreamSynchronize(w.stream));
    steps(&w, n);
    return print("captured", is_right(&w)) | (nodes != (size_t)2 * STEP);
}

/* Another context, with work of its own, ends while a stream captures in global mode. */
int context_ends_beside_capture(int n)
{
    CUcontext ctx, home = ag_prog_start();
    CUgraph graph = NULL;
    pthread_t thread;
    struct work w = make_work(NULL);
    steps(&w, n);
    CHECK(cuCtxCreate_v2(&ctx, 0, 0));
    struct work other = make_work(NULL);
    steps(&other, n);
    int bad = print("in the other context", is_right(&other));
    CHECK(cuCtxSetCurrent(home));
    CHECK(cuStreamBeginCapture_v2(w.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    REQUIRE(!pthread_create(&thread, NULL, destroy_context, ctx));
    pthread_join(thread, NULL);
    CHECK(ag_prog_launch(w.hash, w.stream, (void *[]){&w.x, &(uint64_t){1}}));
    CHECK(cuStreamEndCapture(w.stream, &graph));
    CHECK(cuGraphDestroy(graph));
    steps(&w, n);
    return bad | print("behind the capture", is_right(&w));
}

/* A capture that the program forgets. */
int forgotten_capture(int n)
{
    ag_prog_start();
    struct work w = make_work(NULL);
    begin_capture();
    steps(&w, n);
    return print("beside a capture", is_right(&w));
}
