/*
 * cases_calls.c - cases of cases.c in which steps have calls other than launches between them:
 * copies, captures, changed settings, and calls that fail.
 */
#include "tests/command/cases.h"
#include <dlfcn.h>
#include <unistd.h>

/* The program asks for an export table in the middle of a step. */
int table(int n)
{
    static const CUuuid unknown = {
        .bytes = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}};
    const void *answer = NULL;
    start();
    steps(n);
    step(0);
    CUresult r = cuGetExportTable(&answer, &unknown);
    printf("table: %d, %s\n", (int)r, answer ? "there" : "not there");
    steps(n);
    return print_value();
}

/* Copies from and to memory that can move under a graph's feet. */
int memory(int n)
{
    CUdeviceptr managed;
    start();
    CHECK(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
    for (int i = 0; i < n; i++) {
        CHECK(cuMemcpyDtoDAsync_v2(managed, data, 4096, stream));
        step(0);
        CHECK(cuMemcpyDtoDAsync_v2(data, managed, 4096, stream));
        CHECK(cuStreamSynchronize(stream));
    }
    step(0);
    return print_value();
}

/* Launches that the driver refuses in the call itself. */
int refused(int n)
{
    start();
    steps(n);
    for (int i = 0; i < 3; i++) {
        step(0);
        printf("no arguments: %d\n",
               (int)cuLaunchKernel(hash, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
        printf("no grid: %d\n", (int)cuLaunchKernel(hash, 0, 1, 1, 1, 1, 1, 0, stream,
                                                    (void *[]){&data, &data}, NULL));
        CHECK(cuStreamSynchronize(stream));
    }
    return print_value();
}

/* A library named as one of the driver's package takes N frames out of the program's stream. */
int encode(int n)
{
    CUresult (*take)(CUdeviceptr, uint64_t *, CUstream);
    void *library = dlopen("libnvidia-encode.so.1", RTLD_NOW);
    REQUIRE(library);
    *(void **)&take = dlsym(library, "ag_test_encode");
    start();
    for (int i = 0; i < n; i++) {
        uint64_t frame;
        step(0);
        CHECK(take(data, &frame, stream));
        printf("frame %llu\n", (unsigned long long)frame);
    }
    return print_value();
}

/* Captures that begin by an entry point of a newer driver, behind N steps of what they capture: by
 * one that the library knows, and by one that nobody knows. */
int newer_capture(int n)
{
    CUresult (*begin)(CUstream, CUstreamCaptureMode, CUgraph, void *, void *);
    CUresult (*unknown)(CUstream);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    CUgraph graph;
    size_t nodes;
    start();
    *(void **)&begin = dlsym(driver, "cuStreamBeginRecaptureToGraph");
    *(void **)&unknown = dlsym(driver, "cuFutureBeginCapture");
    steps(n);
    for (int i = 0; i < 6; i++) {
        CHECK(i % 2 ? unknown(stream)
                    : begin(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, NULL, NULL, NULL));
        step(0);
        usleep(2000); /* for who would submit them too late */
        CHECK(cuStreamEndCapture(stream, &graph));
        CHECK(cuGraphGetNodes(graph, NULL, &nodes));
        printf("%zu nodes\n", nodes);
        CHECK(cuGraphDestroy(graph));
        steps(n);
    }
    EXPECT(begin(stream, (CUstreamCaptureMode)77, (CUgraph)8, NULL, NULL),
           CUDA_ERROR_INVALID_VALUE);
    steps(n);
    return print_value();
}

static void CUDA_CB heard(void *word, CUlogLevel level, char *message, size_t length)
{
    (void)level;
    printf("%s%.*s\n", (const char *)word, (int)length, message);
}

/* N steps of a program that has itself told of failed calls: kernels by either kind of handle, one
 * without parameters to spare, arguments that change, copies from host memory; then calls that
 * fail. */
int error_log(int n)
{
    CUlogsCallbackHandle handle;
    char word[] = "heard ";
    CUlibrary library;
    CUdeviceptr other;
    uint64_t host = 1;
    CUevent event;
    CUgraph graph;
    CHECK(cuLogsRegisterCallback(heard, word, &handle));
    start();
    CHECK(cuLibraryLoadData(&library, SIMCUDA_IMAGE_MAGIC, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(cuMemAlloc_v2(&other, 8));
    for (int i = 0; i < n; i++) {
        step(0);
        CHECK(ag_prog_hash(hash, stream, data, (uint64_t)i));
        if (i == n / 2)
            hash = ag_prog_kernel(library, "hash");
        CHECK(cuMemcpyAsync(other, (CUdeviceptr)(uintptr_t)&host, 8, stream));
        CHECK(cuMemcpyAsync(other, data, 8, stream));
        CHECK(cuStreamSynchronize(stream));
    }
    EXPECT(cuMemAlloc_v2(&other, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    EXPECT(cuStreamDestroy_v2((CUstream)event), CUDA_ERROR_INVALID_HANDLE);
    EXPECT(cuStreamEndCapture((CUstream)event, &graph), CUDA_ERROR_INVALID_HANDLE);
    EXPECT(cuCtxSetLimit((CUlimit)77, 1), CUDA_ERROR_UNSUPPORTED_LIMIT);
    EXPECT(cuDevicePrimaryCtxRelease_v2(77), CUDA_ERROR_INVALID_DEVICE);
    CHECK(cuLogsUnregisterCallback(handle));
    EXPECT(cuMemAlloc_v2(&other, 0), CUDA_ERROR_INVALID_VALUE);
    return print_value();
}

/* ---- what graphs depend on ----------------------------------------------------------------- */

/* N steps, each of which sets what its context has already: a stack that the driver rounds, a
 * preference, and a size of banks that the driver does not keep. In the last of them there is
 * another stack. */
int settings(int n)
{
    size_t stack;
    CUfunc_cache cache;
    start();
    for (int i = 0; i < n; i++) {
        CHECK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, i < n - 1 ? 1000 : 2000));
        CHECK(cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_SHARED));
        CHECK(cuCtxSetSharedMemConfig(CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE));
        step(0);
        CHECK(cuStreamSynchronize(stream));
    }
    CHECK(cuCtxGetLimit(&stack, CU_LIMIT_STACK_SIZE));
    CHECK(cuCtxGetCacheConfig(&cache));
    printf("stack %zu, cache %d\n", stack, (int)cache);
    return print_value();
}

/* N steps, in front of each of which something changes that graphs depend on. */
int changing_attribute(int n)
{
    start();
    for (int i = 0; i < n; i++) {
        CHECK(cuFuncSetAttribute(hash, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
                                 i % 2 * 50));
        steps(1);
    }
    return print_value();
}

int changing_limit(int n)
{
    start();
    for (int i = 0; i < n; i++) {
        CHECK(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, (1 << 20) + (size_t)(i % 2) * 4096));
        steps(1);
    }
    return print_value();
}
