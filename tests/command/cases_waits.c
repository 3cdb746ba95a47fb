/*
 * cases_waits.c - cases of cases.c in which a kernel, a stream or a host function waits for
 * something.
 */
#define _GNU_SOURCE
#include "tests/command/cases.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

/* Kernels that wait for their peers, by their names. */
int collective(int n)
{
    start();
    CUfunction peers = ag_prog_function(module, "ncclDevKernel_SendRecv");
    CUdeviceptr other = ag_prog_alloc(4096);
    size_t bytes = 8;
    CHECK(cuCtxSynchronize());
    for (int i = 0; i < n; i++) {
        step(0);
        CHECK(ag_prog_launch(peers, stream, (void *[]){&other, &data, &bytes}));
        CHECK(cuStreamSynchronize(stream));
    }
    printf("other %llu\n", (unsigned long long)ag_prog_read64(other));
    return print_value();
}

/* Four collectives in each step, two other launches, and the program's own work, which decides. */
int collective_busy(int n)
{
    uint64_t work = 1;
    size_t bytes = 8;
    start();
    CUfunction peers = ag_prog_function(module, "ncclDevKernel_SendRecv");
    CUdeviceptr other = ag_prog_alloc(4096);
    for (int i = 0; i < n; i++) {
        for (unsigned int k = 0; k < 4; k++) {
            CHECK(ag_prog_launch(peers, stream, (void *[]){&other, &data, &bytes}));
            if (k % 2)
                launch(0, k);
        }
        CHECK(cuStreamSynchronize(stream));
        for (int turn = 0; turn < 100000; turn++)
            work ^= work * 0x9e3779b97f4a7c15ull >> (turn % 32 + 1);
    }
    printf("%016llx\n", (unsigned long long)work);
    return print_value();
}

static uint32_t peer_came;

static void wait_for_peer(const struct cuSimLaunch *l)
{
    (void)l;
    while (!__atomic_load_n(&peer_came, __ATOMIC_ACQUIRE))
        usleep(20);
}

/* Nothing repeats, until nobody looks at the stream. */
static void bore(CUstream s)
{
    uint64_t one = 1;
    for (unsigned int i = 0, r = 1; i < 60000; i++) {
        r = r * 1103515245u + 12345u;
        CHECK(cuLaunchKernel(hash, 1 + (r >> 16) % 1000, 1, 1, 1, 1, 1, 0, s,
                             (void *[]){&data, &one}, NULL));
    }
    CHECK(cuStreamSynchronize(s));
}

enum { BY_NAME, BY_LIBRARY, BY_LIST, BY_LIBRARY_LIST };

static CUfunction find_peers(int how)
{
    enum { ROOM = 100 };
    static const char name[] = "ncclDevKernel_AllReduce_wait";
    static CUfunction all[ROOM];
    CUlibrary library;
    unsigned int n;
    if (how == BY_NAME)
        return ag_prog_function(module, name);
    CHECK(cuLibraryLoadData(&library, SIMCUDA_IMAGE_MAGIC "kernel ncclDevKernel_AllReduce_wait\n",
                            NULL, NULL, 0, NULL, NULL, 0));
    if (how == BY_LIBRARY)
        return ag_prog_kernel(library, name);
    if (how == BY_LIBRARY_LIST) {
        CHECK(cuLibraryEnumerateKernels((CUkernel *)all, ROOM, library));
        return all[0];
    }
    CUmodule one;
    CHECK(cuModuleLoadData(&one, SIMCUDA_IMAGE_MAGIC "kernel ncclDevKernel_AllReduce_wait\n"));
    CHECK(cuModuleGetFunctionCount(&n, one));
    REQUIRE(n == 1);
    CHECK(cuModuleEnumerateFunctions(all, ROOM, one));
    return all[0];
}

/* A kernel waits for its peer in a stream that nobody looks at, while another stream repeats. N:
 * how it was found; 10 more: by the other way to launch; 20 more: in the per-thread default stream.
 */
int collective_dormant(int n)
{
    uint64_t one = 1;
    CUstream first;
    CUdeviceptr other;
    CHECK((CUresult)cuSimRegisterKernel("ncclDevKernel_AllReduce_wait", wait_for_peer, 2, NULL,
                                        (size_t[]){8, 8}, CUSIM_MAY_BLOCK));
    start();
    first = stream;
    other = ag_prog_alloc(64);
    CHECK(cuCtxSynchronize());
    bore(first);
    void *params[] = {&data, &one};
    CUfunction peers = find_peers(n % 10);
    CUlaunchConfig config = {.gridDimX = 1,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 1,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .hStream = first};
    if (n >= 20)
        config.hStream = CU_STREAM_PER_THREAD;
    uint64_t built = cuSimCallCount("cuGraphInstantiateWithFlags");
    if (n >= 10)
        CHECK(cuLaunchKernelEx(&config, peers, params, NULL));
    else
        CHECK(ag_prog_launch(peers, first, params));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    data = other;
    steps(50);
    printf("graphs made while it waited: %d\n",
           (int)(cuSimCallCount("cuGraphInstantiateWithFlags") - built));
    __atomic_store_n(&peer_came, 1, __ATOMIC_RELEASE);
    CHECK(cuCtxSynchronize());
    steps(50);
    return print_value();
}

/* Mapped memory that holds 0. */
uint32_t *new_word(void)
{
    uint32_t *word;
    CHECK(cuMemHostAlloc((void **)&word, sizeof *word, CU_MEMHOSTALLOC_DEVICEMAP));
    __atomic_store_n(word, 0, __ATOMIC_RELEASE);
    return word;
}

/* In every other step the stream waits for a word that is written when all has been launched; and
 * another stream may capture just when that is called. */
static int words(int n, bool captures)
{
    CUstream other;
    CUgraph graph;
    start();
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    uint32_t *flag = new_word();
    for (int i = 0; i < n; i++) {
        if (captures && i % 2)
            CHECK(cuStreamBeginCapture_v2(other, CU_STREAM_CAPTURE_MODE_GLOBAL));
        if (i % 2)
            CHECK(cuStreamWaitValue32(stream, (CUdeviceptr)(uintptr_t)flag, (uint32_t)i,
                                      CU_STREAM_WAIT_VALUE_GEQ));
        if (captures && i % 2) {
            CHECK(cuStreamEndCapture(other, &graph));
            CHECK(cuGraphDestroy(graph));
        }
        step(0);
        __atomic_store_n(flag, (uint32_t)i, __ATOMIC_RELEASE);
        CHECK(cuStreamSynchronize(stream));
    }
    return print_value();
}

int word(int n)
{
    return words(n, false);
}

int word_in_capture(int n)
{
    return words(n, true);
}

/* The stream waits for a word before the program has launched anything. */
int word_first(int n)
{
    start();
    uint32_t *flag = new_word();
    CHECK(cuStreamWaitValue32(stream, (CUdeviceptr)(uintptr_t)flag, 1, CU_STREAM_WAIT_VALUE_GEQ));
    step(0);
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < n; i++) {
        CHECK(cuMemsetD8Async(data + 8, (unsigned char)i, 64, stream));
        step(0);
        CHECK(cuStreamSynchronize(stream));
    }
    return print_value();
}

/* Host functions that wait as long as a word holds 0. */
void CUDA_CB wait_in_function(void *flag)
{
    while (!__atomic_load_n((uint32_t *)flag, __ATOMIC_ACQUIRE))
        usleep(20);
}

static void CUDA_CB wait_in_callback(CUstream s, CUresult status, void *flag)
{
    (void)s;
    (void)status;
    wait_in_function(flag);
}

/* In every other step the stream waits so, for the word is written when all has been launched. */
int host_function(int n)
{
    start();
    uint32_t *flag = new_word();
    for (int i = 0; i < n; i++) {
        __atomic_store_n(flag, 0, __ATOMIC_RELEASE);
        if (i % 4 == 1)
            CHECK(cuLaunchHostFunc(stream, wait_in_function, flag));
        if (i % 4 == 3)
            CHECK(cuStreamAddCallback(stream, wait_in_callback, flag, 0));
        if (i % 4 == 0) /* refused: nothing is waited for */
            printf("no stream: %d\n",
                   (int)cuLaunchHostFunc((CUstream)data, wait_in_function, flag));
        step(0);
        __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
        CHECK(cuStreamSynchronize(stream));
    }
    return print_value();
}

/* A host function that an error keeps from running; N steps in the next context. */
int function_lost(int n)
{
    int error = CUDA_ERROR_LAUNCH_FAILED;
    start();
    steps(3);
    uint32_t *flag = new_word();
    CHECK(cuStreamWaitValue32(stream, (CUdeviceptr)(uintptr_t)flag, 1, CU_STREAM_WAIT_VALUE_GEQ));
    CHECK(ag_prog_launch(ag_prog_function(module, "trap"), stream, (void *[]){&error}));
    CHECK(cuLaunchHostFunc(stream, wait_in_function, flag));
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    printf("error: %d\n", (int)cuStreamSynchronize(stream));
    printf("reset: %d\n", (int)cuDevicePrimaryCtxReset_v2(0));
    start();
    steps(n);
    return print_value();
}

enum { FUNCTION_CALLS = 13 };
static _Atomic int wanted_call = -1, refused_call;

/* One call after the other when the program says so, until it has had enough of them. As an H200
 * does it, the driver refuses launches, copies and whatever needs a current context, and takes the
 * rest for streams with a handle. */
static void CUDA_CB call_when_told(void *memory)
{
    size_t free_bytes, total;
    uint64_t host = 0, k = 7;
    CUfunction function = hash;
    CUdeviceptr other = (CUdeviceptr)(uintptr_t)memory;
    CUevent event = NULL;
    for (int call = 0;; call++) {
        while (atomic_load(&wanted_call) != call && atomic_load(&wanted_call) != -2)
            usleep(20);
        if (atomic_load(&wanted_call) == -2)
            return;
        CUresult r = CUDA_SUCCESS;
        switch (call % FUNCTION_CALLS) {
        case 0:
            r = cuCtxSynchronize();
            break;
        case 1:
            r = cuLaunchKernel(hash, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&data, &k}, NULL);
            break;
        case 2:
            r = cuStreamSynchronize(stream);
            break;
        case 3:
            r = cuMemFree_v2(other);
            break;
        case 4:
            r = cuMemcpyDtoHAsync_v2(&host, data, sizeof host, stream);
            break;
        case 5:
            r = cuEventRecord(event, stream);
            break;
        case 6:
            r = cuMemsetD8Async(data, 3, 8, stream);
            break;
        case 7:
            r = cuStreamQuery(stream);
            r = r == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : r;
            break;
        case 8:
            r = cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 64);
            break;
        case 9:
            r = cuModuleUnload(NULL);
            break;
        case 10:
            r = cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 2048);
            break;
        case 11:
            r = cuStreamSynchronize(CU_STREAM_LEGACY);
            break;
        default:
            r = cuMemGetInfo_v2(&free_bytes, &total);
            break;
        }
        atomic_store(&wanted_call, -1);
        atomic_store(&refused_call, (int)r + 1);
    }
}

/* In the middle of each of N steps, a host function of another stream makes a call. */
int function_calls(int n)
{
    CUstream other;
    start();
    CUdeviceptr memory = ag_prog_alloc(64);
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    steps(40);
    CHECK(cuLaunchHostFunc(other, call_when_told, (void *)(uintptr_t)memory));
    for (int i = 0; i < n; i++) {
        for (uint64_t k = 1; k <= STEP; k++) {
            launch(0, k);
            if (k != STEP / 2 - 1)
                continue;
            atomic_store(&refused_call, 0);
            atomic_store(&wanted_call, i);
            while (!atomic_load(&refused_call))
                usleep(20);
            printf("call %d: %d\n", i % FUNCTION_CALLS, atomic_load(&refused_call) - 1);
        }
        CHECK(cuStreamSynchronize(stream));
    }
    atomic_store(&wanted_call, -2);
    return print_value();
}

/* Waits, in a stream of its own, for a word that holds 1. */
static void *wait_for_word(void *flag)
{
    CUstream own;
    ag_prog_start();
    CHECK(cuStreamCreate(&own, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamWaitValue32(own, (CUdeviceptr)(uintptr_t)flag, 1, CU_STREAM_WAIT_VALUE_GEQ));
    CHECK(cuStreamSynchronize(own));
    return NULL;
}

/* N steps while another thread calls for such a wait, and three after that. */
int word_beside(int n)
{
    pthread_t thread;
    start();
    uint32_t *flag = new_word();
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    pthread_create(&thread, NULL, wait_for_word, flag);
    usleep(50000);
    for (int i = 0; i <= n + 2; i++) {
        if (i == n) {
            pthread_join(thread, NULL);
            usleep(500000);
        }
        step(0);
        CHECK(cuStreamSynchronize(stream));
    }
    return print_value();
}

/* Streams that go while they wait. */
int word_and_destroy(int n)
{
    CUstream main_stream;
    start();
    main_stream = stream;
    uint32_t *flag = new_word();
    for (uint32_t i = 1; i <= (uint32_t)n; i++) {
        CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        step(0); /* so that the library knows it */
        CHECK(
            cuStreamWaitValue32(stream, (CUdeviceptr)(uintptr_t)flag, i, CU_STREAM_WAIT_VALUE_GEQ));
        for (int k = 0; k < 5; k++) /* a loop, for which graphs are wanted */
            step(0);
        usleep(1000 + i % 10 * 100);
        CHECK(cuStreamDestroy_v2(stream));
        __atomic_store_n(flag, i, __ATOMIC_RELEASE);
        CHECK(cuCtxSynchronize());
    }
    stream = main_stream;
    return print_value();
}

/* While a stream waits, another one goes that has graphs and waits as well (what an idle one has
 * learnt would stay for the next), and a reference to the context. */
int word_and_other(int n)
{
    CUstream waiting;
    CUcontext ctx;
    start();
    waiting = stream;
    uint32_t *flag = new_word();
    for (uint32_t i = 1; i <= (uint32_t)n; i++) {
        CUstream other;
        CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
        stream = other;
        steps(4); /* for which there are graphs then */
        stream = waiting;
        step(0); /* so that the library knows it */
        CHECK(cuStreamSynchronize(stream));
        CHECK(
            cuStreamWaitValue32(stream, (CUdeviceptr)(uintptr_t)flag, i, CU_STREAM_WAIT_VALUE_GEQ));
        if (i % 2) {
            CHECK(cuStreamWaitValue32(other, (CUdeviceptr)(uintptr_t)flag, i,
                                      CU_STREAM_WAIT_VALUE_GEQ));
            CHECK(cuStreamDestroy_v2(other));
        } else {
            CHECK(cuDevicePrimaryCtxRetain(&ctx, 0));
            CHECK(cuDevicePrimaryCtxRelease_v2(0)); /* forgets all sequences, and no wait */
            for (int k = 0; k < 5; k++)             /* a loop, for which graphs are wanted */
                step(0);
        }
        __atomic_store_n(flag, i, __ATOMIC_RELEASE);
        CHECK(cuStreamSynchronize(stream));
        if (i % 2 == 0)
            CHECK(cuStreamDestroy_v2(other));
    }
    return print_value();
}

/* The wait is a node of a graph of the program's, for a word or in a host function. */
static int waits_in_graph(int n, bool function)
{
    CUgraph graph;
    CUgraphExec exec;
    char id[16];
    start();
    uint32_t *flag = new_word();
    CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    if (function)
        CHECK(cuLaunchHostFunc(stream, wait_in_function, flag));
    else
        CHECK(
            cuStreamWaitValue32(stream, (CUdeviceptr)(uintptr_t)flag, 1, CU_STREAM_WAIT_VALUE_EQ));
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int i = 0; i < n; i++) {
        __atomic_store_n(flag, 0, __ATOMIC_RELEASE);
        if (i % 2) {
            CHECK(cuDeviceGetPCIBusId(id, sizeof id, 0)); /* to be found in the driver's log */
            CHECK(cuGraphLaunch(exec, stream));
        }
        step(0);
        __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
        CHECK(cuStreamSynchronize(stream));
    }
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));
    return print_value();
}

int word_in_graph(int n)
{
    return waits_in_graph(n, false);
}

int function_in_graph(int n)
{
    return waits_in_graph(n, true);
}
