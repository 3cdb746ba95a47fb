/* test_queue.c - a stream whose queue is full: a call that adds to it waits, nobody else does. */
#include "tests/simdriver/simprog.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

enum { ROOM = 8 };

static CUcontext context;
static CUfunction hash, poll;
static CUstream full, other;
static CUevent first, event;
static CUgraphExec exec;
static CUdeviceptr x;
static unsigned int *flag;

/* Streams that run at the same time write to places of their own. */
static CUdeviceptr place(CUstream s)
{
    return s == full ? x : x + 64;
}

static void launch(CUstream s)
{
    CHECK(ag_prog_hash(hash, s, place(s), 1));
}

static void launch_graph(CUstream s)
{
    CHECK(cuGraphLaunch(exec, s));
}

static void fill(CUstream s)
{
    CHECK(cuMemsetD8Async(place(s), 0, 8, s));
}

static void copy(CUstream s)
{
    CHECK(cuMemcpyDtoDAsync_v2(place(s), place(s) + 8, 8, s));
}

static void record(CUstream s)
{
    CHECK(cuEventRecord(event, s));
}

static void wait(CUstream s)
{
    CHECK(cuStreamWaitEvent(s, event, 0));
}

static void CUDA_CB nothing(void *unused)
{
    (void)unused;
}

static void call_host(CUstream s)
{
    CHECK(cuLaunchHostFunc(s, nothing, NULL));
}

static void write_value(CUstream s)
{
    CHECK(cuStreamWriteValue32_v2(s, place(s), 1, 0));
}

static const struct call {
    const char *symbol;
    void (*make)(CUstream s);
} calls[] = {
    {"cuLaunchKernel", launch},      {"cuGraphLaunch", launch_graph},
    {"cuMemsetD8Async", fill},       {"cuMemcpyDtoDAsync_v2", copy},
    {"cuEventRecord", record},       {"cuStreamWaitEvent", wait},
    {"cuLaunchHostFunc", call_host}, {"cuStreamWriteValue32_v2", write_value},
};
enum { CALLS = sizeof calls / sizeof *calls };

/* Fills the queue up to its last place, behind a kernel that waits for the flag. */
static void fill_up(void)
{
    unsigned int one = 1;
    void *none = NULL;
    __atomic_store_n(flag, 0, __ATOMIC_SEQ_CST);
    CHECK(ag_prog_launch(poll, full, (void *[]){&flag, &one, &none}));
    CHECK(cuEventRecord(first, full));
    for (int i = 2; i < ROOM; i++)
        launch(full);
}

static void wait_for_call(const char *symbol, uint64_t before)
{
    while (cuSimCallCount(symbol) == before)
        sched_yield();
}

struct release {
    const char *symbol;
    uint64_t before;
};

static void *release_when_called(void *argument)
{
    const struct release *r = argument;
    wait_for_call(r->symbol, r->before);
    __atomic_store_n(flag, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

/* With one place taken back, the work before `first` is done when the call returns. */
static void every_call_waits_for_room(void **state)
{
    (void)state;
    for (int i = 0; i < CALLS; i++) {
        pthread_t thread;
        fill_up();
        EXPECT(cuEventQuery(first), CUDA_ERROR_NOT_READY);
        calls[i].make(other); /* it waits in no other stream */
        struct release r = {calls[i].symbol, cuSimCallCount(calls[i].symbol)};
        assert_int_equal(pthread_create(&thread, NULL, release_when_called, &r), 0);
        calls[i].make(full);
        launch(full); /* the first call takes the place of the kernel, this one that of `first` */
        CUresult done = cuEventQuery(first);
        pthread_join(thread, NULL);
        if (done != CUDA_SUCCESS)
            fail_msg("%s did not wait", calls[i].symbol);
        CHECK(cuStreamSynchronize(full));
        CHECK(cuStreamSynchronize(other));
    }
}

static void *stuck(void *call)
{
    CHECK(cuCtxSetCurrent(context));
    ((const struct call *)call)->make(full);
    return NULL;
}

/* A call that waits for room holds nothing that others need. */
static void others_go_on(void **state)
{
    (void)state;
    for (int i = 0; i < CALLS; i++) {
        pthread_t thread;
        CUstream s;
        CUevent e;
        CUdeviceptr p;
        CUgraph g;
        CUgraphExec own;
        CHECK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
        fill_up();
        uint64_t before = cuSimCallCount(calls[i].symbol);
        assert_int_equal(pthread_create(&thread, NULL, stuck, (void *)(uintptr_t)&calls[i]), 0);
        wait_for_call(calls[i].symbol, before);
        CHECK(cuEventQuery(e));
        CHECK(cuEventSynchronize(e));
        EXPECT(cuEventQuery(first), CUDA_ERROR_NOT_READY);
        EXPECT(cuStreamQuery(full), CUDA_ERROR_NOT_READY);
        CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
        CHECK(cuMemAlloc_v2(&p, 64));
        CHECK(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED));
        launch(s);
        CHECK(cuStreamEndCapture(s, &g));
        CHECK(cuGraphInstantiateWithFlags(&own, g, 0));
        for (int k = 0; k < ROOM; k++) {
            CHECK(ag_prog_hash(hash, s, p, 1));
            CHECK(cuGraphLaunch(own, s));
            CHECK(cuEventRecord(e, s));
        }
        CHECK(cuStreamSynchronize(s));
        __atomic_store_n(flag, 1, __ATOMIC_SEQ_CST);
        pthread_join(thread, NULL);
        CHECK(cuStreamSynchronize(full));
        CHECK(cuGraphExecDestroy(own));
        CHECK(cuGraphDestroy(g));
        CHECK(cuEventDestroy_v2(e));
        CHECK(cuMemFree_v2(p));
        CHECK(cuStreamDestroy_v2(s));
    }
}

static int start(void **state)
{
    CUgraph g;
    (void)state;
    context = ag_prog_start();
    CUmodule module = ag_prog_module();
    hash = ag_prog_function(module, "hash");
    poll = ag_prog_function(module, "poll");
    CHECK(cuStreamCreate(&full, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&first, CU_EVENT_DISABLE_TIMING));
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CHECK(cuMemHostAlloc((void **)&flag, 64, CU_MEMHOSTALLOC_DEVICEMAP));
    x = ag_prog_alloc(256);
    CHECK(cuCtxSynchronize());
    CHECK(cuStreamBeginCapture_v2(other, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK(ag_prog_hash(hash, other, x + 128, 1));
    CHECK(cuStreamEndCapture(other, &g));
    CHECK(cuGraphInstantiateWithFlags(&exec, g, 0));
    CHECK(cuGraphDestroy(g));
    return 0;
}

int main(int argc, char **argv)
{
    (void)argc;
    if (!getenv("SIMCUDA_QUEUE")) { /* the driver reads it when it is loaded */
        setenv("SIMCUDA_QUEUE", "8", 1);
        execv(argv[0], argv);
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_waits_for_room),
        cmocka_unit_test(others_go_on),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
