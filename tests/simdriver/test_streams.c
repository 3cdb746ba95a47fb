/* test_streams.c - order within and between streams, events, callbacks, memory operations. */
#include "tests/simdriver/simprog.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>

static CUmodule module;
static CUfunction hash, poll, publish, spin;
static CUcontext context;

static unsigned int *mapped(unsigned int value)
{
    void *p;
    CHECK(cuMemHostAlloc(&p, 64, CU_MEMHOSTALLOC_DEVICEMAP));
    *(unsigned int *)p = value;
    return p;
}

static void set_flag(unsigned int *flag, unsigned int value)
{
    __atomic_store_n(flag, value, __ATOMIC_RELEASE);
}

/* A kernel that holds its stream until the host sets the flag. */
static void hold(CUstream s, unsigned int *flag)
{
    unsigned int one = 1;
    void *none = NULL;
    CHECK(ag_prog_launch(poll, s, (void *[]){&flag, &one, &none}));
}

static void one_stream_keeps_order(void **state)
{
    (void)state;
    CUdeviceptr x = ag_prog_alloc(8);
    uint64_t expected = 0;
    CUstream s;
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    CHECK(cuCtxSynchronize());
    for (uint64_t i = 0; i < 2000; i++) {
        CHECK(ag_prog_hash(hash, s, x, i));
        expected = expected * 31 + i;
    }
    CHECK(cuStreamSynchronize(s));
    assert_int_equal(ag_prog_read64(x), expected);
    CHECK(cuStreamDestroy_v2(s));
    CHECK(cuMemFree_v2(x));
}

static void streams_run_at_the_same_time(void **state)
{
    (void)state;
    unsigned int *flag = mapped(0), one = 1;
    CUstream a, b;
    CHECK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    hold(a, flag);
    EXPECT(cuStreamQuery(a), CUDA_ERROR_NOT_READY);
    CHECK(ag_prog_launch(publish, b, (void *[]){&flag, &one})); /* b lets a go */
    CHECK(cuStreamSynchronize(a));
    CHECK(cuStreamQuery(a));
    CHECK(cuStreamDestroy_v2(a));
    CHECK(cuStreamDestroy_v2(b));
    CHECK(cuMemFreeHost(flag));
}

static void the_legacy_stream_orders_blocking_streams(void **state)
{
    (void)state;
    unsigned int *flag = mapped(0);
    CUdeviceptr x = ag_prog_alloc(8);
    CUstream blocking, free_stream;
    CHECK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    CHECK(cuStreamCreate(&free_stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuCtxSynchronize());
    hold(blocking, flag);
    CHECK(ag_prog_hash(hash, blocking, x, 1));
    CHECK(ag_prog_hash(hash, NULL, x, 2));
    CHECK(ag_prog_hash(hash, CU_STREAM_PER_THREAD, x, 3)); /* behind the legacy stream */
    CHECK(ag_prog_hash(hash, CU_STREAM_LEGACY, x, 4));
    CHECK(ag_prog_launch(spin, free_stream, (void *[]){&(unsigned int){1}}));
    CHECK(cuStreamSynchronize(free_stream)); /* not held up */
    EXPECT(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
    set_flag(flag, 1);
    CHECK(cuStreamSynchronize(NULL));
    uint64_t value;
    CHECK(cuMemcpyDtoH_v2(&value, x, 8));
    assert_int_equal(value, ((1 * 31 + 2) * 31 + 3) * 31 + 4);
    CHECK(cuStreamDestroy_v2(blocking));
    CHECK(cuStreamDestroy_v2(free_stream));
    CHECK(cuMemFree_v2(x));
    CHECK(cuMemFreeHost(flag));
}

/* The _ptsz entry points mean the per-thread stream by NULL, which another thread does not share.
 */
static void *launch_in_thread(void *argument)
{
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuLaunchKernel_ptsz(hash, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){argument, &(uint64_t){5}},
                              NULL));
    CHECK(cuStreamSynchronize_ptsz(NULL));
    return NULL;
}

static void per_thread_streams_differ(void **state)
{
    (void)state;
    unsigned int *flag = mapped(0);
    unsigned long long legacy, mine, named;
    CUdeviceptr x = ag_prog_alloc(8);
    pthread_t thread;
    CHECK(cuCtxSynchronize());
    CHECK(cuStreamGetId(NULL, &legacy));
    CHECK(cuStreamGetId_ptsz(NULL, &mine));
    CHECK(cuStreamGetId(CU_STREAM_PER_THREAD, &named));
    assert_int_equal(mine, named);
    assert_int_not_equal(mine, legacy);
    hold(CU_STREAM_PER_THREAD, flag);
    pthread_create(&thread, NULL, launch_in_thread, &x);
    pthread_join(thread, NULL); /* though this thread's is held */
    EXPECT(cuStreamQuery_ptsz(NULL), CUDA_ERROR_NOT_READY);
    set_flag(flag, 1);
    CHECK(cuStreamSynchronize_ptsz(NULL));
    assert_int_equal(ag_prog_read64(x), 5);
    CHECK(cuMemFree_v2(x));
    CHECK(cuMemFreeHost(flag));
}

static void events_order_streams(void **state)
{
    (void)state;
    unsigned int *flag = mapped(0);
    CUdeviceptr x = ag_prog_alloc(8);
    CUstream a, b;
    CUevent e, never;
    CHECK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    CHECK(cuEventCreate(&never, 0));
    CHECK(cuEventQuery(never));
    CHECK(cuStreamWaitEvent(b, never, 0));
    CHECK(cuCtxSynchronize());
    hold(a, flag);
    CHECK(ag_prog_hash(hash, a, x, 1));
    CHECK(cuEventRecord(e, a));
    CHECK(cuStreamWaitEvent(b, e, 0));
    CHECK(ag_prog_hash(hash, b, x, 2));
    EXPECT(cuEventQuery(e), CUDA_ERROR_NOT_READY);
    set_flag(flag, 1);
    CHECK(cuStreamSynchronize(b));
    CHECK(cuEventQuery(e));
    assert_int_equal(ag_prog_read64(x), 1 * 31 + 2);
    CHECK(cuEventDestroy_v2(e));
    EXPECT(cuEventQuery(e), CUDA_ERROR_INVALID_HANDLE);
    CHECK(cuEventDestroy_v2(never));
    CHECK(cuStreamDestroy_v2(a));
    CHECK(cuStreamDestroy_v2(b));
    CHECK(cuMemFree_v2(x));
    CHECK(cuMemFreeHost(flag));
}

/* They stand for all streams that the context has, and keep back those that it gets as well. */
static void events_of_the_context_order_all_streams(void **state)
{
    (void)state;
    unsigned int *flag = mapped(0);
    CUdeviceptr x = ag_prog_alloc(8);
    CUstream a, b, later;
    CUevent e;
    CHECK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    CHECK(cuCtxSynchronize());
    hold(a, flag);
    CHECK(ag_prog_hash(hash, a, x, 1));
    CHECK(cuCtxRecordEvent(context, e));
    EXPECT(cuEventQuery(e), CUDA_ERROR_NOT_READY);
    CHECK(ag_prog_launch(spin, b, (void *[]){&(unsigned int){1}}));
    CHECK(cuStreamSynchronize(b)); /* nothing waits yet */
    CHECK(cuCtxWaitEvent(context, e));
    CHECK(cuStreamSynchronize(b)); /* nor does what came before */
    CHECK(ag_prog_hash(hash, b, x, 2));
    CHECK(cuEventRecord(e, b));
    CHECK(cuStreamCreate(&later, CU_STREAM_NON_BLOCKING));
    CHECK(ag_prog_launch(spin, later, (void *[]){&(unsigned int){1}}));
    EXPECT(cuStreamQuery(b), CUDA_ERROR_NOT_READY);
    EXPECT(cuStreamQuery(later), CUDA_ERROR_NOT_READY);
    CHECK(cuStreamWaitEvent(later, e, 0));
    CHECK(ag_prog_hash(hash, later, x, 3));
    set_flag(flag, 1);
    CHECK(cuStreamSynchronize(later));
    assert_int_equal(ag_prog_read64(x), (1 * 31 + 2) * 31 + 3);
    CHECK(cuStreamDestroy_v2(a));
    CHECK(cuStreamDestroy_v2(b));
    CHECK(cuStreamDestroy_v2(later));
    CHECK(cuEventDestroy_v2(e));
    CHECK(cuMemFree_v2(x));
    CHECK(cuMemFreeHost(flag));
}

static void events_of_the_context_are_no_part_of_captures(void **state)
{
    (void)state;
    CUcontext other;
    CUgraph graph;
    CUstream s;
    CUevent e, others;
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&e, 0));
    CHECK(cuCtxCreate_v2(&other, 0, 0));
    CHECK(cuEventCreate(&others, 0));
    CHECK(cuCtxSetCurrent(context));
    EXPECT(cuCtxRecordEvent(context, others), CUDA_ERROR_INVALID_HANDLE);
    CHECK(cuCtxWaitEvent(context, others));
    EXPECT(cuCtxWaitEvent(NULL, e), CUDA_ERROR_INVALID_CONTEXT);
    for (int waits = 0; waits < 2; waits++) {
        CHECK(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED));
        CHECK(cuCtxRecordEvent(other, others));
        EXPECT(waits ? cuCtxWaitEvent(context, e) : cuCtxRecordEvent(context, e),
               CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        EXPECT(cuStreamEndCapture(s, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }
    CHECK(cuEventDestroy_v2(e));
    CHECK(cuStreamDestroy_v2(s));
    CHECK(cuCtxDestroy_v2(other));
}

static void events_measure_time(void **state)
{
    (void)state;
    CUevent start, end;
    float ms;
    unsigned int us = 3000;
    CHECK(cuEventCreate(&start, 0));
    CHECK(cuEventCreate(&end, 0));
    EXPECT(cuEventElapsedTime(&ms, start, end), CUDA_ERROR_INVALID_HANDLE);
    CHECK(cuEventRecord(start, NULL));
    CHECK(ag_prog_launch(spin, NULL, (void *[]){&us}));
    CHECK(cuEventRecord(end, NULL));
    CHECK(cuEventSynchronize(end));
    CHECK(cuEventElapsedTime(&ms, start, end));
    assert_true(ms >= 2.9f && ms < 1000);
    CHECK(cuEventDestroy_v2(start));
    CHECK(cuEventDestroy_v2(end));
}

struct notes {
    _Atomic int calls;
    _Atomic int result;
    CUdeviceptr x;
    uint64_t seen;
};

static void note(void *data)
{
    struct notes *n = data;
    CUdeviceptr p;
    n->seen = *(uint64_t *)n->x;
    atomic_store(&n->result, cuMemAlloc_v2(&p, 8)); /* no driver calls from here */
    atomic_fetch_add(&n->calls, 1);
}

static void CUDA_CB note_stream(CUstream s, CUresult result, void *data)
{
    (void)s;
    struct notes *n = data;
    atomic_store(&n->result, result);
    atomic_fetch_add(&n->calls, 1);
}

static void host_functions_run_in_order(void **state)
{
    (void)state;
    struct notes n = {.x = ag_prog_alloc(8)};
    CHECK(ag_prog_hash(hash, NULL, n.x, 7));
    CHECK(cuLaunchHostFunc(NULL, note, &n));
    CHECK(ag_prog_hash(hash, NULL, n.x, 8));
    CHECK(cuCtxSynchronize());
    assert_int_equal(n.seen, 7);
    assert_int_equal(n.calls, 1);
    assert_int_equal(n.result, CUDA_ERROR_NOT_PERMITTED);
    CHECK(cuStreamAddCallback(NULL, note_stream, &n, 0));
    CHECK(cuCtxSynchronize());
    assert_int_equal(n.calls, 2);
    assert_int_equal(n.result, CUDA_SUCCESS);
    CHECK(cuMemFree_v2(n.x));
}

static void memory_operations(void **state)
{
    (void)state;
    unsigned int *flag = mapped(0);
    CUdeviceptr f, x = ag_prog_alloc(8);
    CHECK(cuMemHostGetDevicePointer_v2(&f, flag, 0));
    CUstream s;
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    CHECK(cuCtxSynchronize());
    CHECK(cuStreamWaitValue32_v2(s, f, 3, CU_STREAM_WAIT_VALUE_GEQ));
    CHECK(cuStreamWriteValue64_v2(s, x, 11, 0));
    EXPECT(cuStreamQuery(s), CUDA_ERROR_NOT_READY);
    set_flag(flag, 4);
    CHECK(cuStreamSynchronize(s));
    assert_int_equal(ag_prog_read64(x), 11);
    CHECK(cuStreamDestroy_v2(s));
    CHECK(cuMemFree_v2(x));
    CHECK(cuMemFreeHost(flag));
}

static void pageable_sources_may_be_reused(void **state)
{
    (void)state;
    unsigned int *flag = mapped(0);
    CUdeviceptr x = ag_prog_alloc(8);
    uint64_t source = 21, *pinned;
    CUstream s;
    CHECK(cuMemAllocHost_v2((void **)&pinned, 8));
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    CHECK(cuCtxSynchronize());
    hold(s, flag);
    CHECK(cuMemcpyHtoDAsync_v2(x, &source, 8, s));
    source = 0;
    CHECK(cuMemcpyDtoHAsync_v2(pinned, x, 8, s));
    EXPECT(cuStreamQuery(s), CUDA_ERROR_NOT_READY);
    set_flag(flag, 1);
    CHECK(cuStreamSynchronize(s));
    assert_int_equal(*pinned, 21);
    CHECK(cuMemcpyDtoHAsync_v2(&source, x, 8, s)); /* pageable target: done on return */
    assert_int_equal(source, 21);
    CHECK(cuStreamDestroy_v2(s));
    CHECK(cuMemFreeHost(pinned));
    CHECK(cuMemFreeHost(flag));
    CHECK(cuMemFree_v2(x));
}

static void stream_ordered_memory(void **state)
{
    (void)state;
    CUdeviceptr p;
    CUstream s;
    size_t size;
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAllocAsync(&p, 64, s));
    CHECK(cuMemsetD32Async(p, 5, 16, s));
    CHECK(cuMemFreeAsync(p, s));
    CHECK(cuStreamSynchronize(s));
    EXPECT(cuMemGetAddressRange_v2(NULL, &size, p), CUDA_ERROR_NOT_FOUND);
    CHECK(cuStreamDestroy_v2(s));
    EXPECT(cuStreamSynchronize(s), CUDA_ERROR_INVALID_HANDLE);
}

static void freeing_waits_for_the_work(void **state)
{
    (void)state;
    CUdeviceptr x = ag_prog_alloc(8);
    uint64_t misuse = cuSimMisuseCount();
    unsigned int us = 2000;
    CUstream s;
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    CHECK(cuCtxSynchronize()); /* the new memory was filled on the default stream, for which s does
                                  not wait */
    CHECK(ag_prog_launch(spin, s, (void *[]){&us}));
    CHECK(ag_prog_hash(hash, s, x, 1));
    CHECK(cuMemFree_v2(x));
    CHECK(cuStreamDestroy_v2(s));
    CHECK(cuCtxSynchronize());
    assert_int_equal(cuSimMisuseCount(), misuse);
}

static int start(void **state)
{
    (void)state;
    context = ag_prog_start();
    module = ag_prog_module();
    hash = ag_prog_function(module, "hash");
    poll = ag_prog_function(module, "poll");
    publish = ag_prog_function(module, "publish");
    spin = ag_prog_function(module, "spin_us");
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_stream_keeps_order),
        cmocka_unit_test(streams_run_at_the_same_time),
        cmocka_unit_test(the_legacy_stream_orders_blocking_streams),
        cmocka_unit_test(per_thread_streams_differ),
        cmocka_unit_test(events_order_streams),
        cmocka_unit_test(events_of_the_context_order_all_streams),
        cmocka_unit_test(events_of_the_context_are_no_part_of_captures),
        cmocka_unit_test(events_measure_time),
        cmocka_unit_test(host_functions_run_in_order),
        cmocka_unit_test(memory_operations),
        cmocka_unit_test(pageable_sources_may_be_reused),
        cmocka_unit_test(stream_ordered_memory),
        cmocka_unit_test(freeing_waits_for_the_work),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
