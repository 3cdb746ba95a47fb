/* states_contexts.c - cases of `states`: two contexts, of one thread or two. */
#include "tests/command/states.h"
#include <pthread.h>
#include <pthread.h>
#include <sched.h>
#include <sched.h>
#include <stdio.h>

static CUcontext other;
static CUfunction there;
static CUstream of_other;
static CUdeviceptr x;

void steps_in(CUfunction f, CUstream s, CUdeviceptr p, int n)
{
    for (int i = 0; i < n; i++) {
        for (uint64_t k = 0; k < STEP; k++)
            CHECK(cuLaunchKernel(f, 1 + (unsigned int)k, 1, 1, 1, 1, 1, 0, s, (void *[]){&p, &k},
                                 NULL));
        CHECK(cuStreamSynchronize(s));
    }
}

/* In the current context. */
static void make_work(void)
{
    there = ag_prog_function(ag_prog_module(), "hash");
    CHECK(cuStreamCreate(&of_other, CU_STREAM_NON_BLOCKING));
    x = ag_prog_alloc(8);
    CHECK(cuCtxSynchronize());
}

/* Makes the other context current. */
static void make_other(void)
{
    CHECK(cuCtxCreate_v2(&other, 0, 0));
    make_work();
}

/* The next launch, or every one (0). */
static void refuse_launch(uint64_t nth, CUresult error)
{
    cuSimFail("cuLaunchKernel", nth, (int)error);
    cuSimFail("cuGraphLaunch", nth, (int)error);
}

static void refuse(CUresult error)
{
    refuse_launch(error ? 1 : 0, error);
}

/* A launch in the other context is refused, for this time. A call in the first says nothing of it;
 * the program hears of it once, in that context. `legacy`: both legacy streams, of which a call
 * that fails for another reason has kept the refusal for the next. */
int refused_in_other_context(int legacy)
{
    int told = 0;
    uint64_t k = 0;
    start();
    make_other();
    CUstream s = legacy ? NULL : of_other;
    steps_in(there, s, x, 60);
    CHECK(cuCtxPopCurrent_v2(NULL));
    if (legacy)
        stream = NULL;
    steps(60);
    CHECK(cuCtxPushCurrent_v2(other));
    refuse(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    told += cuLaunchKernel(there, 1, 1, 1, 1, 1, 1, 0, s, (void *[]){&x, &k}, NULL) != CUDA_SUCCESS;
    if (legacy) {
        cuSimFail("cuCtxSynchronize", 1, CUDA_ERROR_OUT_OF_MEMORY);
        printf("fails: %d\n", (int)cuCtxSynchronize());
        cuSimFail("cuCtxSynchronize", 0, 0);
    }
    CHECK(cuCtxPopCurrent_v2(NULL));
    printf("there: %d\n", (int)cuStreamSynchronize(stream));
    printf("all of it: %d\n", (int)cuCtxSynchronize());
    CHECK(cuCtxPushCurrent_v2(other));
    told += cuStreamSynchronize(s) != CUDA_SUCCESS;
    refuse(CUDA_SUCCESS);
    CHECK(cuStreamSynchronize(s));
    CHECK(cuCtxPopCurrent_v2(NULL));
    printf("told %d times\n", told);
    steps(60);
    return print_value();
}

/* A launch is refused, for this time, in the other context (0) or in the first (1). A call in the
 * first that names the other returns what happened there alone. */
int refused_in_named_context(int here)
{
    uint64_t k = 0;
    start();
    make_other();
    steps_in(there, of_other, x, 60);
    CHECK(cuCtxPopCurrent_v2(NULL));
    steps(60);
    if (!here)
        CHECK(cuCtxPushCurrent_v2(other));
    refuse(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    int there_told = 0, here_told = 0;
    if (here) {
        here_told += launch(stream, data, 0) != CUDA_SUCCESS;
    } else {
        there_told += cuLaunchKernel(there, 1, 1, 1, 1, 1, 1, 0, of_other, (void *[]){&x, &k},
                                     NULL) != CUDA_SUCCESS;
        CHECK(cuCtxPopCurrent_v2(NULL));
    }
    there_told += cuCtxSynchronize_v2(other) != CUDA_SUCCESS;
    refuse(CUDA_SUCCESS);
    here_told += cuCtxSynchronize() != CUDA_SUCCESS;
    printf("told there %d times, here %d times\n", there_told, here_told);
    return print_value();
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

/* A launch is refused in a context that ends next: it is destroyed or detached from, or it is a
 * primary one, and released or reset. */
int error_of_ended_context(int how)
{
    uint64_t k = 0;
    start();
    steps(60);
    if (how < 2)
        CHECK(cuCtxCreate_v2(&other, 0, 0));
    else
        CHECK(cuDevicePrimaryCtxRetain(&other, 1));
    CHECK(cuCtxSetCurrent(other));
    make_work();
    steps_in(there, of_other, x, 60);
    refuse(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    CUresult launched =
        cuLaunchKernel(there, 1, 1, 1, 1, 1, 1, 0, of_other, (void *[]){&x, &k}, NULL);
    CUresult ended = how == 0   ? cuCtxDestroy_v2(other)
                     : how == 1 ? cuCtxDetach(other)
                     : how == 2 ? cuDevicePrimaryCtxRelease_v2(1)
                                : cuDevicePrimaryCtxReset_v2(1);
    refuse(CUDA_SUCCESS);
    CHECK(cuCtxSetCurrent(home));
    CHECK(cuCtxSynchronize());
    printf("told %d times\n", (launched == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES) +
                                  (ended == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES));
    steps(60);
    return print_value();
}

#pragma GCC diagnostic pop

/* Launches into two streams are refused, for good. One is told; then the context ends, and no call
 * says so once more. */
int end_of_lost_context(int n)
{
    uint64_t k = 0;
    CUstream second;
    bool told = false;
    (void)n;
    start();
    make_other();
    CHECK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
    const CUstream streams[] = {of_other, second};
    for (int i = 0; i < 2; i++)
        steps_in(there, streams[i], x, 60);
    refuse_launch(0, CUDA_ERROR_ILLEGAL_ADDRESS);
    for (int i = 0; i < 2; i++)
        told |= cuLaunchKernel(there, 1, 1, 1, 1, 1, 1, 0, streams[i], (void *[]){&x, &k}, NULL) !=
                CUDA_SUCCESS;
    told |= cuStreamSynchronize(of_other) != CUDA_SUCCESS;
    CHECK(cuCtxDestroy_v2(other));
    refuse(CUDA_SUCCESS);
    CHECK(cuCtxSetCurrent(home));
    printf("told: %s\n", told ? "yes" : "no");
    steps(200);
    return print_value();
}

/* The other context is lost. Calls in the first return that, as they name an event of it (0, 2) or
 * the context (1). What is launched there from then on fails at once. The first goes on as before
 * when the other has ended. */
int asked_for_lost_context(int how)
{
    CUevent event;
    CUstream second;
    int fault = CUDA_ERROR_ILLEGAL_ADDRESS;
    start();
    steps(60);
    make_other();
    CHECK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
    steps_in(there, second, x, 60);
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    uint64_t before = cuSimExecuted("kernel");
    CHECK(ag_prog_launch(ag_prog_function(ag_prog_module(), "trap"), of_other, (void *[]){&fault}));
    cuEventRecord(event, of_other); /* the fault may come first */
    CHECK(cuCtxPopCurrent_v2(NULL));
    while (cuSimExecuted("kernel") == before)
        sched_yield();
    CUresult r;
    do
        r = how == 0   ? cuEventSynchronize(event)
            : how == 1 ? cuCtxSynchronize_v2(other)
                       : cuEventQuery(event);
    while (r == CUDA_ERROR_NOT_READY);
    printf("lost: %d, here: %d\n", (int)r, (int)cuCtxSynchronize());
    CHECK(cuCtxPushCurrent_v2(other));
    for (uint64_t k = 0; k < 3; k++)
        printf("there: %d\n", (int)cuLaunchKernel(there, 1 + (unsigned int)k, 1, 1, 1, 1, 1, 0,
                                                  second, (void *[]){&x, &k}, NULL));
    CHECK(cuCtxPopCurrent_v2(NULL));
    CHECK(cuCtxDestroy_v2(other));
    steps(300);
    return print_value();
}

static void add_one(const struct cuSimLaunch *l)
{
    uint64_t *p = *(uint64_t *const *)l->params[0];
    *p = *p * 31 + *(const uint64_t *)l->params[1];
}

static void add_two(const struct cuSimLaunch *l)
{
    add_one(l);
    **(uint64_t *const *)l->params[0] += *(const uint64_t *)l->params[2];
}

static CUfunction function_of_image(const char *image, const char *name)
{
    CUmodule m;
    CHECK(cuModuleLoadData(&m, image));
    return ag_prog_function(m, name);
}

static void register_adding(void)
{
    cuSimRegisterKernel("add_one", add_one, 2, NULL, (size_t[]){8, 8}, 0);
    cuSimRegisterKernel("add_two", add_two, 3, NULL, (size_t[]){8, 8, 8}, 0);
}

/* Of a function with other parameters in a new context; where handles come again, it has that of
 * `one`. */
static int steps_of_another(CUfunction one, int n)
{
    uint64_t m;
    make_other();
    CUfunction two = function_of_image(SIMCUDA_IMAGE_MAGIC "kernel add_two\n", "add_two");
    printf("the same handle: %d\n", one == two);
    uint64_t sum = ag_prog_read64(x);
    for (int i = 0; i < n; i++) {
        for (uint64_t k = 0; k < STEP; k++) {
            m = 1000 * (uint64_t)i + k;
            CHECK(cuLaunchKernel(two, 1, 1, 1, 1, 1, 1, 0, of_other, (void *[]){&x, &k, &m}, NULL));
            sum = sum * 31 + k + m;
        }
        CHECK(cuStreamSynchronize(of_other));
    }
    printf("right: %d\n", ag_prog_read64(x) == sum);
    return 0;
}

/* A function is launched into a stream of another context first, which is refused. When its own has
 * ended, its handle is that of one with other parameters. */
int function_of_two_contexts(int n)
{
    uint64_t k = 1;
    register_adding();
    start();
    make_other();
    CUfunction one = function_of_image(SIMCUDA_IMAGE_MAGIC "kernel add_one\n", "add_one");
    cuSimFail("cuLaunchKernel", 1, CUDA_ERROR_INVALID_HANDLE);
    CUresult r = cuLaunchKernel(one, 99, 1, 1, 1, 1, 1, 0, stream, (void *[]){&data, &k}, NULL);
    printf("elsewhere: %d\n", (int)r);
    cuSimFail("cuLaunchKernel", 0, 0);
    steps_in(one, of_other, x, 60);
    CHECK(cuCtxDestroy_v2(other));
    return steps_of_another(one, n);
}

/* A context ends of which only a per-thread default stream is known: where a kernel may wait
 * for peers, each is looked at. */
int function_of_unknown_context(int n)
{
    uint64_t k = 1;
    register_adding();
    cuSimRegisterKernel("ncclDevKernel", add_one, 2, NULL, (size_t[]){8, 8}, 0);
    start();
    CHECK(cuCtxCreate_v2(&other, 0, 0));
    CHECK(cuMemAlloc_v2(&x, 8));
    ag_prog_function(ag_prog_module(), "ncclDevKernel");
    CUfunction one = function_of_image(SIMCUDA_IMAGE_MAGIC "kernel add_one\n", "add_one");
    CHECK(ag_prog_launch(one, CU_STREAM_PER_THREAD, (void *[]){&x, &k}));
    CHECK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    CHECK(cuCtxDestroy_v2(other));
    int result = steps_of_another(one, n);
    CHECK(cuModuleUnload(ag_prog_module())); /* the library asks for each function's module */
    printf("misuse: %d\n", (int)cuSimMisuseCount());
    return result;
}

/* ---- a primary context, and a full queue (SIMCUDA_QUEUE) ------------------------------------- */

enum { ROOM = 4 };

static _Atomic bool gate_is_open = true;
static uint64_t before_gate;

static void wait_at_gate(const struct cuSimLaunch *l)
{
    (void)l;
    while (!atomic_load(&gate_is_open))
        sched_yield();
}

/* As soon as the other thread waits for room: eagerly in a launch, with the library in the call
 * that submits it. */
static void *retain_and_open(void *unused)
{
    CUcontext ctx;
    while (submissions() - before_gate <= ROOM)
        sched_yield();
    CHECK(cuDevicePrimaryCtxRetain(&ctx, 1));
    atomic_store(&gate_is_open, true);
    return unused;
}

/* Half a step is held back, behind which the queue is full, before a call that may make the primary
 * context of another device (0), or end that of the stream (1, 2). The room is made by another
 * thread, behind a retain of that context. */
int primary_beside_full_queue(int how)
{
    pthread_t thread;
    CUcontext ctx;
    cuSimRegisterKernel("gate", wait_at_gate, 1, NULL, (size_t[]){8}, CUSIM_MAY_BLOCK);
    start();
    if (how) {
        CHECK(cuDevicePrimaryCtxRetain(&ctx, 1));
        CHECK(cuCtxSetCurrent(ctx));
        module = ag_prog_module();
        hash = ag_prog_function(module, "hash");
        data = ag_prog_alloc(8);
        CHECK(cuCtxSynchronize());
        CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    }
    CUfunction gate = ag_prog_function(module, "gate");
    for (int i = 0; i < 100; i++) {
        CHECK(ag_prog_launch(gate, stream, (void *[]){&data}));
        step();
    }
    before_gate = submissions();
    atomic_store(&gate_is_open, false);
    REQUIRE(!pthread_create(&thread, NULL, retain_and_open, NULL));
    CHECK(ag_prog_launch(gate, stream, (void *[]){&data}));
    launches(0, STEP / 2);
    if (how == 0)
        CHECK(cuDevicePrimaryCtxRetain(&ctx, 1));
    else if (how == 1)
        CHECK(cuDevicePrimaryCtxRelease_v2(1)); /* by then not the last */
    else
        CHECK(cuDevicePrimaryCtxReset_v2(1));
    pthread_join(thread, NULL);
    if (how == 2)
        return puts("reset") < 0;
    launches(STEP / 2, STEP);
    return print_value();
}

/* ---- copies between devices ----------------------------------------------------------------- */

static atomic_int turn;

/* Half of each step is launched while the other thread copies. */
static void *halves(void *n)
{
    CHECK(cuCtxSetCurrent(home));
    for (int i = 0; i < *(int *)n; i++) {
        launches(0, STEP / 2);
        atomic_store(&turn, 1);
        while (atomic_load(&turn))
            sched_yield();
        launches(STEP / 2, STEP);
        CHECK(cuStreamSynchronize(stream));
    }
    return NULL;
}

static void copy_in_default_stream(int how, CUcontext peer, CUdeviceptr to)
{
    CUDA_MEMCPY3D cube = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = data,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = to,
                          .WidthInBytes = 8,
                          .Height = 1,
                          .Depth = 1};
    CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = data,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = to,
                          .WidthInBytes = 8,
                          .Height = 1};
    if (how == 0)
        CHECK(cuMemcpyDtoD_v2(to, data, 8));
    else if (how == 1)
        CHECK(cuMemcpy(to, data, 8));
    else if (how == 2)
        CHECK(cuMemcpy2D_v2(&rows));
    else if (how == 3)
        CHECK(cuMemcpy2DUnaligned_v2(&rows));
    else if (how == 4)
        CHECK(cuMemcpy3D_v2(&cube));
    else if (how == 5)
        CHECK(cuMemcpyAsync(to, data, 8, NULL));
    else if (how == 6)
        CHECK(cuMemcpyDtoDAsync_v2(to, data, 8, CU_STREAM_LEGACY));
    else if (how == 7)
        CHECK(cuMemcpyPeerAsync(to, peer, data, home, 8, NULL));
    else if (how == 8)
        CHECK(cuMemcpy2DAsync_v2(&rows, NULL));
    else
        CHECK(cuMemcpy3DAsync_v2(&cube, NULL));
}

/* A copy in the default stream to another device waits for what another thread has launched into a
 * non-blocking stream. */
int copy_between_devices(int how)
{
    enum { TIMES = 60 };
    int n = TIMES, right = 0;
    CUcontext peer;
    CUdeviceptr to;
    pthread_t thread;
    start();
    CHECK(cuDevicePrimaryCtxRetain(&peer, 1));
    CHECK(cuCtxPushCurrent_v2(peer));
    to = ag_prog_alloc(8);
    CHECK(cuCtxSynchronize());
    CHECK(cuCtxPopCurrent_v2(NULL));
    pthread_create(&thread, NULL, halves, &n);
    for (int i = 0; i < n; i++) {
        while (!atomic_load(&turn))
            sched_yield();
        copy_in_default_stream(how, peer, to);
        right += ag_prog_read64(to) == want;
        atomic_store(&turn, 0);
    }
    pthread_join(thread, NULL);
    printf("copies that saw all: %d of %d\n", right, n);
    return print_value() || right != n;
}
