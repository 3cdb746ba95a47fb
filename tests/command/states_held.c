/* states_held.c - cases of `states`: calls before which something held back must be submitted, and
 * errors that nobody may lose. */
#define _GNU_SOURCE
#include "tests/command/states.h"
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

static const CUfunction_attribute carve_out = CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;

/* ---- calls that may wait for the GPU -------------------------------------------------------- */

static void load_module(void)
{
    CUmodule m;
    CHECK(cuModuleLoadData(&m, SIMCUDA_IMAGE_MAGIC));
}

static void load_library(void)
{
    CUlibrary library;
    CHECK(cuLibraryLoadData(&library, SIMCUDA_IMAGE_MAGIC, NULL, NULL, 0, NULL, NULL, 0));
}

static CUlibrary fresh; /* nothing of it is in the context yet */

static void load_for_module(void)
{
    CUmodule m;
    CHECK(cuLibraryGetModule(&m, fresh));
}

static void load_for_variable(void)
{
    CUdeviceptr address;
    EXPECT(cuLibraryGetGlobal(&address, NULL, fresh, "none"), CUDA_ERROR_NOT_FOUND);
}

static CUmodule fresh_module;

static void look_in_module(void)
{
    CUdeviceptr address;
    CHECK(cuModuleGetGlobal_v2(&address, NULL, fresh_module, "table"));
}

static CUgraph graph;

static void instantiate(void)
{
    CUgraphExec exec;
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
}

static void instantiate_with_params(void)
{
    CUgraphExec exec;
    CUDA_GRAPH_INSTANTIATE_PARAMS params = {0};
    CHECK(cuGraphInstantiateWithParams(&exec, graph, &params));
}

static CUgraphExec made;

static void destroy_exec(void)
{
    CHECK(cuGraphExecDestroy(made));
}

static void destroy_graph(void)
{
    CHECK(cuGraphDestroy(graph));
}

static void update_exec(void)
{
    CUgraphExecUpdateResultInfo info;
    CHECK(cuGraphExecUpdate_v2(made, graph, &info));
}

/* A kernel of another stream waits for a word that a launch of a known step writes. Behind that
 * launch comes a call that waits for the GPU: number `how`. */
int load_behind_publish(int how)
{
    static void (*const calls[])(void) = {
        load_module,   load_library, instantiate,     instantiate_with_params, destroy_exec,
        destroy_graph, update_exec,  load_for_module, load_for_variable,       look_in_module};
    CUstream other;
    void *none = NULL;
    unsigned int value = 400, zero = 0;
    start();
    poll_word = ag_prog_function(module, "poll");
    publish = ag_prog_function(module, "publish");
    CHECK(cuMemHostAlloc((void **)&flag, sizeof *flag, CU_MEMHOSTALLOC_DEVICEMAP));
    *flag = 0;
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CHECK(cuLibraryLoadData(&fresh, SIMCUDA_IMAGE_MAGIC, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(cuModuleLoadData(&fresh_module, SIMCUDA_IMAGE_MAGIC "global table 64\n"));
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphInstantiateWithFlags(&made, graph, 0));
    CHECK(ag_prog_launch(poll_word, other, (void *[]){&flag, &zero, &none}));
    CHECK(cuStreamSynchronize(other));
    for (unsigned int i = 1; i <= value; i++) {
        if (i == value)
            CHECK(ag_prog_launch(poll_word, other, (void *[]){&flag, &value, &none}));
        launches(0, 5);
        publish_word(i);
        if (i == value)
            calls[how]();
        launches(5, STEP);
        CHECK(cuStreamSynchronize(stream));
    }
    CHECK(cuStreamSynchronize(other));
    return print_value();
}

/* A call that makes a context takes long; half a step was launched before. */
int first_retain(int n)
{
    CUcontext other;
    start();
    steps(n);
    uint64_t before = submissions();
    launches(0, STEP / 2);
    CHECK(cuDevicePrimaryCtxRetain(&other, 1));
    REQUIRE(submissions() > before);
    launches(STEP / 2, STEP);
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuDevicePrimaryCtxRelease_v2(1));
    return print_value();
}

/* cudart looks a variable up in each cudaGetSymbolAddress and cudaMemcpyToSymbolAsync. */
int variable_in_step(int n)
{
    CUdeviceptr address;
    start();
    CHECK(cuLibraryLoadData(&fresh, SIMCUDA_IMAGE_MAGIC, NULL, NULL, 0, NULL, NULL, 0));
    for (int i = 0; i < n; i++) {
        launches(0, 2);
        EXPECT(cuLibraryGetGlobal(&address, NULL, fresh, "none"), CUDA_ERROR_NOT_FOUND);
    }
    CHECK(cuStreamSynchronize(stream));
    return print_value();
}

/* A stream waits for a semaphore of another API, which signals only after more steps. */
int semaphore(int in_graph)
{
    CUstream other;
    CUexternalSemaphore s;
    int fd = memfd_create("semaphore", 0);
    REQUIRE(fd >= 0 && !ftruncate(fd, 8));
    _Atomic uint64_t *word = mmap(NULL, 8, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    REQUIRE(word != MAP_FAILED);
    CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC desc = {
        .type = CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD, .handle.fd = fd};
    CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS params = {.params.fence.value = 1};
    start();
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CHECK(cuImportExternalSemaphore(&s, &desc));
    step();
    if (in_graph) {
        CUgraphExec exec;
        CHECK(cuStreamBeginCapture_v2(other, CU_STREAM_CAPTURE_MODE_RELAXED));
        CHECK(cuWaitExternalSemaphoresAsync(&s, &params, 1, other));
        CHECK(cuStreamEndCapture(other, &graph));
        CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
        CHECK(cuGraphLaunch(exec, other));
    } else {
        CHECK(cuWaitExternalSemaphoresAsync(&s, &params, 1, other));
    }
    steps(100);
    atomic_store(word, 1);
    CHECK(cuStreamSynchronize(other));
    steps(100);
    return print_value();
}

static void nothing(void *unused)
{
    (void)unused;
}

/* What may wait for the word enters a stream: number `how`. */
static void enter_wait(int how, CUstream s, CUdeviceptr word, unsigned int value)
{
    CUstreamBatchMemOpParams op = {.waitValue = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32,
                                                 .address = word,
                                                 .value = value,
                                                 .flags = CU_STREAM_WAIT_VALUE_EQ}};
    if (how == 1)
        CHECK(cuStreamBatchMemOp_v2(s, 1, &op, 0));
    else if (how == 3)
        CHECK(cuLaunchHostFunc(s, nothing, NULL)); /* the library cannot know that it does not */
    else
        CHECK(cuStreamWaitValue32_v2(s, word, value, CU_STREAM_WAIT_VALUE_EQ));
}

/* The library records an event behind the wait, which says nothing of what was held back. */
static uint64_t launched(void)
{
    return cuSimCallCount("cuLaunchKernel") + cuSimCallCount("cuGraphLaunch");
}

/* A stream is told to wait for a word that a launch on another stream of this thread writes: that
 * launch has been submitted by then. */
int wait_behind_write(int how)
{
    CUstream other, empty; /* nothing was launched into `empty` */
    uint64_t before = 0;
    start();
    publish = ag_prog_function(module, "publish");
    CHECK(cuMemHostAlloc((void **)&flag, sizeof *flag, CU_MEMHOSTALLOC_DEVICEMAP));
    *flag = 0;
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&empty, CU_STREAM_NON_BLOCKING));
    CUstream waits = how == 2 ? CU_STREAM_PER_THREAD : how == 4 ? empty : other;
    CHECK(launch(other, data, 1));
    want = want * 31 + 1;
    CHECK(cuStreamSynchronize(other));
    for (unsigned int i = 1; i <= 60; i++) {
        before = launched();
        launches(0, 5);
        publish_word(i);
        if (i == 60) {
            enter_wait(how, waits, (CUdeviceptr)(uintptr_t)flag, i);
            printf("submitted before the wait: %s\n", launched() > before ? "yes" : "NO");
        }
        launches(5, STEP);
        CHECK(cuStreamSynchronize(stream));
    }
    CHECK(cuStreamSynchronize(other));
    CHECK(cuStreamSynchronize(waits));
    return print_value();
}

/* ---- errors --------------------------------------------------------------------------------- */

/* A kernel of another stream ends the context. Once a launch has failed for that, all do. */
int sticky_launches(int n)
{
    CUstream other;
    int error = CUDA_ERROR_ILLEGAL_ADDRESS, failed = 0, after = 0;
    start();
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    steps(60);
    CHECK(ag_prog_launch(ag_prog_function(module, "trap"), other, (void *[]){&error}));
    for (int i = 0; i < n; i++) {
        CUresult r = launch(stream, data, (uint64_t)i % STEP);
        failed += r == (CUresult)error;
        after += failed && r == CUDA_SUCCESS;
    }
    printf("some failed: %s, launches that succeed after that: %d\n", failed ? "yes" : "no", after);
    return !failed || after;
}

/* A call that is no op, number `how`. */
static CUresult look(int how, CUevent event)
{
    CUdeviceptr p;
    CUstream s;
    CUevent e;
    CUmodule m;
    switch (how) {
    case 0:
        return cuEventQuery(event);
    case 1:
        return cuMemAlloc_v2(&p, 8);
    case 2:
        return cuMemAllocAsync(&p, 8, stream);
    case 3:
        return cuStreamCreate(&s, CU_STREAM_NON_BLOCKING);
    case 4:
        return cuEventCreate(&e, CU_EVENT_DISABLE_TIMING);
    default:
        return cuModuleLoadData(&m, SIMCUDA_IMAGE_MAGIC);
    }
}

/* The same, where the program hears of it by another call. */
int sticky_look(int how)
{
    CUstream other;
    CUevent event;
    CUresult r;
    int error = CUDA_ERROR_ILLEGAL_ADDRESS, after = 0;
    start();
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    steps(60);
    CHECK(cuEventRecord(event, other));
    CHECK(ag_prog_launch(ag_prog_function(module, "trap"), other, (void *[]){&error}));
    while ((r = look(how, event)) == CUDA_SUCCESS || r == CUDA_ERROR_NOT_READY)
        ;
    for (uint64_t k = 0; k < STEP; k++)
        after += launch(stream, data, k) == CUDA_SUCCESS;
    printf("error %d, launches that succeed after that: %d\n", (int)r, after);
    return after;
}

static int told;

static void ask(CUresult r)
{
    told += r == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
}

static void *set_attribute(void *unused)
{
    CUstreamAttrValue value = {0};
    (void)unused;
    CHECK(cuCtxSetCurrent(home));
    cuSimFail("cuStreamSetAttribute", 1, CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuStreamSetAttribute(stream, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value),
           CUDA_ERROR_INVALID_VALUE);
    return NULL;
}

/* A launch of a known step is refused, and the call that submits it fails by itself: number `how`.
 * A later call tells. With 5, two streams are refused, and two calls tell. With 6, the call is
 * another thread's, which has no stream of its own. */
int error_behind_error(int how)
{
    CUstream other;
    CUdeviceptr x;
    start();
    x = ag_prog_alloc(8);
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CHECK(cuCtxSynchronize());
    for (int i = 0; i < 40; i++) {
        launches(0, STEP);
        for (uint64_t k = 0; k < STEP && how == 5; k++)
            CHECK(launch(other, x, k));
        CHECK(cuCtxSynchronize());
    }
    cuSimFail("cuLaunchKernel", how == 5 ? 0 : 1, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    cuSimFail("cuGraphLaunch", how == 5 ? 0 : 1, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    ask(launch(stream, data, 0));
    if (how == 0)
        EXPECT(cuEventRecord(NULL, stream), CUDA_ERROR_INVALID_HANDLE);
    else if (how == 1)
        EXPECT(cuStreamWaitEvent(stream, NULL, 0), CUDA_ERROR_INVALID_HANDLE);
    else if (how == 2)
        EXPECT(cuMemcpyDtoHAsync_v2(&told, 64, 8, stream), CUDA_ERROR_INVALID_VALUE);
    else if (how == 3)
        EXPECT(cuEventSynchronize(NULL), CUDA_ERROR_INVALID_HANDLE);
    else if (how == 4) {
        CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT};
        CUlaunchConfig config = {
            .hStream = stream, .attrs = &attribute, .numAttrs = 1}; /* of no blocks */
        EXPECT(cuLaunchKernelEx(&config, hash, (void *[]){&data, &want}, NULL),
               CUDA_ERROR_INVALID_VALUE);
    } else if (how == 6) {
        pthread_t thread;
        REQUIRE(!pthread_create(&thread, NULL, set_attribute, NULL));
        pthread_join(thread, NULL);
    } else {
        ask(launch(other, x, 0));
        ask(cuCtxSynchronize());
    }
    cuSimFail("cuLaunchKernel", 1, CUDA_SUCCESS);
    cuSimFail("cuGraphLaunch", 1, CUDA_SUCCESS);
    ask(cuStreamSynchronize(stream));
    ask(cuStreamSynchronize(other));
    ask(cuCtxSynchronize());
    printf("told %d time(s)\n", told);
    return print_value();
}

static void *query(void *unused)
{
    (void)unused;
    CHECK(cuCtxSetCurrent(home));
    cuSimFail("cuStreamQuery", 1, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    printf("the query: %d\n", (int)cuStreamQuery(stream));
    cuSimFail("cuStreamQuery", 1, CUDA_SUCCESS);
    return NULL;
}

/* Another thread's query fails while this one holds something back, so that the library's own
 * answer would have been that the stream is not ready. Nobody is told that later. */
int query_fails(int n)
{
    start();
    steps(60);
    for (int i = 0; i < n; i++) {
        pthread_t thread;
        launches(0, STEP - 1);
        REQUIRE(!pthread_create(&thread, NULL, query, NULL));
        pthread_join(thread, NULL);
        launches(STEP - 1, STEP);
        CHECK(cuStreamSynchronize(stream));
    }
    return print_value();
}

/* A launch ends the context that it is in, and the call that submits it is made in another one. If
 * `fails`, that call fails for the same reason. Once the first context is gone, the other one is as
 * it was. */
int error_of_other_context(int fails)
{
    CUcontext lost;
    CUstream doomed;
    CUfunction there;
    uint64_t k = 0;
    start();
    CHECK(cuCtxCreate_v2(&lost, 0, 0));
    there = ag_prog_function(ag_prog_module(), "hash");
    CHECK(cuStreamCreate(&doomed, CU_STREAM_NON_BLOCKING));
    CUdeviceptr x = ag_prog_alloc(8);
    CHECK(cuCtxSynchronize());
    steps_in(there, doomed, x, 60);
    CHECK(cuCtxPopCurrent_v2(NULL));
    steps(60);
    CHECK(cuCtxPushCurrent_v2(lost));
    cuSimFail("cuLaunchKernel", 1, CUDA_ERROR_ILLEGAL_ADDRESS);
    cuSimFail("cuGraphLaunch", 1, CUDA_ERROR_ILLEGAL_ADDRESS);
    bool told_one = cuLaunchKernel(there, 1, 1, 1, 1, 1, 1, 0, doomed, (void *[]){&x, &k}, NULL) !=
                    CUDA_SUCCESS;
    if (!fails) { /* a call in the other context says nothing of it */
        CHECK(cuCtxPopCurrent_v2(NULL));
        CHECK(cuCtxSynchronize());
        CHECK(cuCtxPushCurrent_v2(lost));
    }
    cuSimFail("cuCtxSynchronize", 1, CUDA_ERROR_ILLEGAL_ADDRESS); /* as of every call there */
    told_one |= cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS;
    CHECK(cuStreamDestroy_v2(doomed)); /* this call tells of no such error */
    CHECK(cuCtxPopCurrent_v2(NULL));
    cuSimFail("cuLaunchKernel", 1, CUDA_SUCCESS);
    cuSimFail("cuGraphLaunch", 1, CUDA_SUCCESS);
    cuSimFail("cuCtxSynchronize", 1, CUDA_SUCCESS);
    CHECK(cuCtxDestroy_v2(lost));
    printf("told: %s\n", told_one ? "yes" : "no");
    steps(200);
    return print_value();
}

/* ---- attributes ----------------------------------------------------------------------------- */

/* 100 steps of `f`; whether graphs were built for it. */
static const char *builds(CUfunction f)
{
    uint64_t before = cuSimCallCount("cuGraphInstantiateWithFlags");
    hash = f;
    steps(100);
    return cuSimCallCount("cuGraphInstantiateWithFlags") > before ? "built" : "not built";
}

/* A refused change of an attribute is none, so the one that succeeds later counts. */
int refused_attribute(int n)
{
    (void)n;
    start();
    CHECK(cuFuncSetAttribute(hash, carve_out, 10));
    printf("10: %s\n", builds(hash));
    cuSimFail("cuFuncSetAttribute", 1, CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT(cuFuncSetAttribute(hash, carve_out, 50), CUDA_ERROR_OUT_OF_MEMORY);
    steps(100);
    CHECK(cuFuncSetAttribute(hash, carve_out, 50));
    printf("50: %s\n", builds(hash));
    CHECK(cuFuncSetAttribute(hash, carve_out, 50));
    printf("50 again: %s\n", builds(hash));
    return print_value();
}

/* The attribute of a kernel that was never launched ends with its module, and the handle comes
 * again. */
/* Each step loads a module, launches its kernel behind `at` of others that remain, waits, and
 * unloads it. At 2 * STEP: all launches are of its kernel. */
int module_in_step(int at)
{
    start();
    for (unsigned int i = 0; i < 2000; i++) {
        CUmodule m;
        CHECK(cuModuleLoadData(&m, SIMCUDA_IMAGE_MAGIC));
        CUfunction own = ag_prog_function(m, "hash");
        for (unsigned int k = 0; k < 2 * STEP; k++) {
            if (k == (unsigned int)at)
                CHECK(ag_prog_hash(own, stream, data, i));
            CHECK(cuLaunchKernel(at == 2 * STEP ? own : hash, 1 + k, 1, 1, 1, 1, 1, 0, stream,
                                 (void *[]){&data, &(uint64_t){k}}, NULL));
        }
        CHECK(cuStreamSynchronize(stream));
        CHECK(cuModuleUnload(m));
    }
    printf("all launched: %llu\n", (unsigned long long)ag_prog_read64(data));
    return 0;
}

int attribute_of_unloaded(int n)
{
    (void)n;
    CUmodule module2;
    CUfunction first, second;
    start();
    steps(100);
    module2 = ag_prog_module();
    first = ag_prog_function(module2, "hash");
    CHECK(cuFuncSetAttribute(first, carve_out, 50));
    CHECK(cuModuleUnload(module2));
    module2 = ag_prog_module();
    second = ag_prog_function(module2, "hash");
    REQUIRE(first == second);
    printf("default: %s\n", builds(second));
    CHECK(cuFuncSetAttribute(second, carve_out, 50));
    printf("50: %s\n", builds(second));
    return print_value();
}
