/* test_contexts.c - who holds a context, who ends it, and what is left of what was in it. */
#include "tests/simdriver/simprog.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <pthread.h>

static CUcontext home;

/* What a program has in a context. */
struct things {
    CUstream stream;
    CUevent event;
    CUfunction hash;
    CUgraphExec exec;
    CUdeviceptr x;
};

static void make(struct things *t)
{
    CUgraph g;
    t->hash = ag_prog_function(ag_prog_module(), "hash");
    t->x = ag_prog_alloc(8);
    CHECK(cuCtxSynchronize()); /* no order with the new stream holds its fill back */
    CHECK(cuStreamCreate(&t->stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&t->event, 0));
    CHECK(cuEventRecord(t->event, t->stream));
    CHECK(cuStreamBeginCapture_v2(t->stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK(ag_prog_hash(t->hash, t->stream, t->x, 1));
    CHECK(cuStreamEndCapture(t->stream, &g));
    CHECK(cuGraphInstantiateWithFlags(&t->exec, g, 0));
    CHECK(cuGraphDestroy(g));
    CHECK(cuStreamSynchronize(t->stream));
}

/* Nothing of it works any more, and each use is told. A handle that came back is another thing. */
static void gone(const struct things *t, CUstream alive)
{
    const char *handles = getenv("SIMCUDA_HANDLES");
    if (handles && !strcmp(handles, "reuse"))
        return;
    uint64_t before = cuSimMisuseCount();
    float ms;
    EXPECT(cuStreamQuery(t->stream), CUDA_ERROR_INVALID_HANDLE);
    EXPECT(cuStreamSynchronize(t->stream), CUDA_ERROR_INVALID_HANDLE);
    EXPECT(cuStreamDestroy_v2(t->stream), CUDA_ERROR_INVALID_HANDLE);
    EXPECT(ag_prog_hash(t->hash, t->stream, t->x, 1), CUDA_ERROR_INVALID_HANDLE);
    EXPECT(cuEventRecord(t->event, t->stream), CUDA_ERROR_INVALID_HANDLE);
    EXPECT(cuEventQuery(t->event), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    EXPECT(cuEventSynchronize(t->event), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    EXPECT(cuEventElapsedTime(&ms, t->event, t->event), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    assert_int_equal(cuSimMisuseCount(), before + 8);
    if (!alive)
        return;
    EXPECT(ag_prog_hash(t->hash, alive, t->x, 1), CUDA_ERROR_INVALID_HANDLE);
    EXPECT(cuEventRecord(t->event, alive), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    EXPECT(cuStreamWaitEvent(alive, t->event, 0), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    EXPECT(cuGraphUpload(t->exec, alive), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    EXPECT(cuGraphLaunch(t->exec, alive), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    CHECK(cuGraphExecDestroy(t->exec));
    CHECK(cuEventDestroy_v2(t->event));
}

/* The current context is gone, and still current. */
static void lost(CUcontext ctx)
{
    CUcontext now;
    CUdevice device;
    CUstream s;
    CUdeviceptr p;
    size_t size;
    int least;
    unsigned int flags;
    CHECK(cuCtxGetCurrent(&now));
    assert_ptr_equal(now, ctx);
    EXPECT(cuCtxGetDevice(&device), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    EXPECT(cuCtxGetFlags(&flags), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    EXPECT(cuCtxGetLimit(&size, CU_LIMIT_STACK_SIZE), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    EXPECT(cuCtxGetStreamPriorityRange(&least, NULL), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    EXPECT(cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    EXPECT(cuStreamCreate(&s, 0), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    EXPECT(cuStreamSynchronize(NULL), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    EXPECT(cuMemAlloc_v2(&p, 8), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    EXPECT(cuCtxSetCurrent(ctx), CUDA_ERROR_INVALID_CONTEXT);
}

static int active(CUdevice device)
{
    unsigned int flags;
    int is;
    CHECK(cuDevicePrimaryCtxGetState(device, &flags, &is));
    return is;
}

static void the_last_release_ends_a_primary_context(void **state)
{
    (void)state;
    CUcontext a, b;
    struct things t;
    EXPECT(cuDevicePrimaryCtxRelease_v2(1), CUDA_ERROR_INVALID_CONTEXT);
    CHECK(cuDevicePrimaryCtxRetain(&a, 1));
    CHECK(cuDevicePrimaryCtxRetain(&b, 1));
    assert_ptr_equal(a, b);
    CHECK(cuCtxSetCurrent(a));
    make(&t);
    CHECK(cuDevicePrimaryCtxRelease_v2(1));
    CHECK(cuStreamQuery(t.stream));
    CHECK(cuGraphLaunch(t.exec, t.stream));
    assert_int_equal(active(1), 1);
    CHECK(cuDevicePrimaryCtxRelease_v2(1));
    assert_int_equal(active(1), 0);
    lost(a); /* no release takes it from a thread */
    gone(&t, NULL);
    EXPECT(cuDevicePrimaryCtxRelease_v2(1), CUDA_ERROR_INVALID_CONTEXT);
    CHECK(cuCtxSetCurrent(home));
    EXPECT(cuDevicePrimaryCtxRetain(&a, 2), CUDA_ERROR_INVALID_DEVICE);
}

static void a_reset_releases_nothing(void **state)
{
    (void)state;
    CUcontext a, b;
    CUstream s;
    struct things t;
    CHECK(cuDevicePrimaryCtxReset_v2(1)); /* not there: nothing to do */
    CHECK(cuDevicePrimaryCtxRetain(&a, 1));
    CHECK(cuCtxSetCurrent(a));
    make(&t);
    CHECK(cuDevicePrimaryCtxReset_v2(1));
    assert_int_equal(active(1), 0);
    lost(a);
    CHECK(cuDevicePrimaryCtxRetain(&b, 1)); /* the second reference */
    CHECK(cuCtxSetCurrent(b));
    CHECK(cuStreamCreate(&s, 0));
    gone(&t, s);
    CHECK(cuDevicePrimaryCtxRelease_v2(1));
    assert_int_equal(active(1), 1);
    CHECK(cuDevicePrimaryCtxReset_v2(1));
    CHECK(cuDevicePrimaryCtxRelease_v2(1));
    EXPECT(cuDevicePrimaryCtxRelease_v2(1), CUDA_ERROR_INVALID_CONTEXT);
    CHECK(cuCtxSetCurrent(home));
    CHECK(cuCtxSynchronize());
}

static void *see_it_lost(void *ctx)
{
    lost(ctx);
    return NULL;
}

struct visitor {
    CUcontext ctx;
    pthread_barrier_t *gate;
};

static void *stay(void *argument)
{
    struct visitor *v = argument;
    CHECK(cuCtxSetCurrent(v->ctx));
    pthread_barrier_wait(v->gate);
    pthread_barrier_wait(v->gate);
    return see_it_lost(v->ctx);
}

static void a_destroyed_context_is_popped_from_one_stack(void **state)
{
    (void)state;
    CUcontext ctx, now;
    CUstream s;
    pthread_t thread;
    pthread_barrier_t gate;
    struct things t;
    CHECK(cuCtxCreate_v2(&ctx, 0, 1));
    make(&t);
    struct visitor v = {ctx, &gate};
    pthread_barrier_init(&gate, NULL, 2);
    assert_int_equal(pthread_create(&thread, NULL, stay, &v), 0);
    pthread_barrier_wait(&gate);
    CHECK(cuCtxDestroy_v2(ctx));
    pthread_barrier_wait(&gate);
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&gate);
    CHECK(cuCtxGetCurrent(&now));
    assert_ptr_equal(now, home);
    CHECK(cuStreamCreate(&s, 0));
    gone(&t, s);
    CHECK(cuStreamDestroy_v2(s));
    EXPECT(cuCtxDestroy_v2(ctx), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT(cuCtxDestroy_v2(home), CUDA_ERROR_INVALID_CONTEXT); /* a primary one */
}

static void *end_the_other(void *unused)
{
    CHECK(cuDevicePrimaryCtxReset_v2(1));
    return unused;
}

/* The end of a context waits for its work; whoever holds another device's goes on. */
static void devices_do_not_wait_for_each_other(void **state)
{
    (void)state;
    CUcontext other, again;
    CUstream s;
    unsigned int *flag;
    pthread_t thread;
    CHECK(cuMemHostAlloc((void **)&flag, 64, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE));
    *flag = 0;
    CHECK(cuDevicePrimaryCtxRetain(&other, 1));
    CHECK(cuCtxSetCurrent(other));
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    CHECK(ag_prog_launch(ag_prog_function(ag_prog_module(), "poll"), s,
                         (void *[]){&flag, &(unsigned int){1}, &(void *){NULL}}));
    uint64_t before = cuSimCallCount("cuDevicePrimaryCtxReset_v2");
    assert_int_equal(pthread_create(&thread, NULL, end_the_other, NULL), 0);
    while (cuSimCallCount("cuDevicePrimaryCtxReset_v2") == before)
        continue;
    for (int i = 0; i < 1000; i++) {
        CHECK(cuDevicePrimaryCtxRetain(&again, 0));
        CHECK(cuDevicePrimaryCtxRelease_v2(0));
        assert_int_equal(active(0), 1);
    }
    __atomic_store_n(flag, 1, __ATOMIC_SEQ_CST);
    pthread_join(thread, NULL);
    CHECK(cuCtxSetCurrent(home));
    CHECK(cuDevicePrimaryCtxRelease_v2(1));
    CHECK(cuMemFreeHost(flag));
}

static int start(void **state)
{
    (void)state;
    home = ag_prog_start();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_release_ends_a_primary_context),
        cmocka_unit_test(a_reset_releases_nothing),
        cmocka_unit_test(a_destroyed_context_is_popped_from_one_stack),
        cmocka_unit_test(devices_do_not_wait_for_each_other),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
