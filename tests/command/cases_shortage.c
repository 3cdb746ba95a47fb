/* cases_shortage.c - cases of cases.c in which memory is short, the device's or the host's. */
#include "tests/command/cases.h"
#include <pthread.h>

static size_t free_memory(void)
{
    size_t bytes, total;
    CHECK(cuMemGetInfo_v2(&bytes, &total));
    return bytes;
}

enum { MIB = 1 << 20 };

/* How one asks for a MiB of device memory. */
static CUresult by_alloc(CUdeviceptr *p)
{
    return cuMemAlloc_v2(p, MIB);
}

static CUresult by_pitch(CUdeviceptr *p)
{
    size_t pitch;
    return cuMemAllocPitch_v2(p, &pitch, 1024, 1024, 4);
}

static CUresult managed(CUdeviceptr *p)
{
    return cuMemAllocManaged(p, MIB, CU_MEM_ATTACH_GLOBAL);
}

static CUresult in_stream(CUdeviceptr *p)
{
    return cuMemAllocAsync(p, MIB, stream);
}

static CUresult from_pool(CUdeviceptr *p)
{
    CUmemoryPool pool;
    CHECK(cuDeviceGetDefaultMemPool(&pool, 0));
    return cuMemAllocFromPoolAsync(p, MIB, pool, stream);
}

/* A program that has left itself one MiB, and asks for it when its launches have repeated N times;
 * and again, by every way. */
int last_mib(int n)
{
    static CUresult (*const ways[])(CUdeviceptr *) = {by_alloc, by_pitch, managed, in_stream,
                                                      from_pool};
    CUdeviceptr rest;
    start();
    CHECK(cuMemAlloc_v2(&rest, free_memory() - MIB));
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        CUdeviceptr mib = 0, more = 1;
        steps(n);
        printf("way %zu: %d", i, (int)ways[i](&mib));
        printf(", and more: %d, %d\n", (int)ways[i](&more), (int)more);
        step(0);
        CHECK(cuCtxSynchronize());
        CHECK(cuMemFree_v2(mib));
    }
    steps(n);
    return print_value();
}

/* It takes what there is until there is no more, in ever smaller pieces; then gives all back. */
int all_memory(int n)
{
    enum { MOST = 1000 };
    static CUdeviceptr pieces[MOST];
    size_t had = 0, count = 0;
    start();
    steps(n);
    for (size_t bytes = MIB; bytes >= 512; bytes /= 2)
        while (count < MOST && cuMemAlloc_v2(&pieces[count], bytes) == CUDA_SUCCESS) {
            had += bytes;
            count++;
        }
    printf("%zu bytes in %zu pieces\n", had, count);
    steps(2);
    for (size_t i = 0; i < count; i++)
        CHECK(cuMemFree_v2(pieces[i]));
    steps(n);
    return print_value();
}

/* It takes 98 of 100 bytes that are free, in one piece, now and then. */
int most_memory(int n)
{
    CUdeviceptr most;
    start();
    size_t bytes = free_memory() / 100 * 98;
    for (int i = 0; i < 5; i++) {
        CHECK(cuMemAlloc_v2(&most, i % 2 ? bytes : free_memory() / 100 * 98));
        steps(n);
        CHECK(cuMemFree_v2(most));
        steps(n);
    }
    return print_value();
}

/* As the first, while a host function waits for the program. */
int last_mib_and_wait(int n)
{
    CUdeviceptr rest, mib = 1;
    start();
    uint32_t *flag = new_word();
    CHECK(cuMemAlloc_v2(&rest, free_memory() - MIB));
    steps(n);
    CHECK(cuLaunchHostFunc(stream, wait_in_function, flag));
    printf("waiting: %d\n", (int)cuMemAlloc_v2(&mib, MIB));
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    CHECK(cuStreamSynchronize(stream));
    printf("not waiting: %d\n", (int)cuMemAlloc_v2(&mib, MIB));
    return print_value();
}

enum { ASKERS = 4 };

/* Steps of its own, between which it asks for more memory than there is. */
static void *ask_for_too_much(void *steps_wanted)
{
    CUstream own;
    CUdeviceptr p, x;
    static pthread_mutex_t one_by_one = PTHREAD_MUTEX_INITIALIZER;
    ag_prog_start();
    pthread_mutex_lock(&one_by_one); /* the fill is the legacy stream's */
    x = ag_prog_alloc(64);
    CHECK(cuCtxSynchronize());
    pthread_mutex_unlock(&one_by_one);
    CHECK(cuStreamCreate(&own, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < *(int *)steps_wanted; i++) {
        for (uint64_t k = 1; k <= STEP; k++)
            CHECK(cuLaunchKernel(hash, (unsigned int)k, 1, 1, 1, 1, 1, 0, own, (void *[]){&x, &k},
                                 NULL));
        if (i % 8 == 7)
            EXPECT(cuMemAlloc_v2(&p, (size_t)1 << 40), CUDA_ERROR_OUT_OF_MEMORY);
        CHECK(cuStreamSynchronize(own));
    }
    CHECK(cuStreamDestroy_v2(own));
    uint64_t *value = malloc(sizeof *value);
    CHECK(cuMemcpyDtoH_v2(value, x, sizeof *value));
    return value;
}

/* Threads that launch and run out of memory, each for itself, N steps long. */
int too_much(int n)
{
    pthread_t threads[ASKERS];
    void *value;
    start();
    for (int i = 0; i < ASKERS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, ask_for_too_much, &n) == 0);
    for (int i = 0; i < ASKERS; i++) {
        pthread_join(threads[i], &value);
        printf("thread %d: %llu\n", i, (unsigned long long)*(uint64_t *)value);
        free(value);
    }
    return 0;
}

/* Each call is refused once for lack of memory, when launches have repeated N times. */
static void without_memory(const char *call, int n)
{
    steps(n);
    REQUIRE(cuSimFail(call, 1, CUDA_ERROR_OUT_OF_MEMORY) == 0);
}

/* What is short is memory of the host: the program goes on with pageable memory. */
int pinned_memory(int n)
{
    void *pinned;
    start();
    for (int i = 0; i < 3; i++) {
        without_memory("cuMemHostAlloc", n);
        printf("host alloc %d, ", (int)cuMemHostAlloc(&pinned, 4096, 0));
        without_memory("cuMemAllocHost_v2", n);
        printf("alloc host %d, ", (int)cuMemAllocHost_v2(&pinned, 4096));
        without_memory("cuMemHostRegister_v2", n);
        printf("register %d\n", (int)cuMemHostRegister_v2(&pinned, sizeof pinned, 0));
    }
    CHECK(cuStreamSynchronize(stream));
    return 0;
}

int refused_once(int n)
{
    CUmodule other = NULL;
    CUlibrary library = NULL;
    CUfunction f = NULL;
    CUkernel k = NULL;
    CUstream s = NULL;
    CUgraph graph;
    CUgraphExec exec = NULL;
    uint64_t one = 1;
    start();
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuLibraryLoadData(&library, SIMCUDA_IMAGE_MAGIC, NULL, NULL, 0, NULL, NULL, 0));
    without_memory("cuModuleLoadData", n);
    printf("module %d, ", (int)cuModuleLoadData(&other, SIMCUDA_IMAGE_MAGIC));
    without_memory("cuModuleGetFunction", n);
    printf("function %d, ", (int)cuModuleGetFunction(&f, module, "add"));
    without_memory("cuLibraryGetKernel", n);
    printf("kernel %d, ", (int)cuLibraryGetKernel(&k, library, "add"));
    without_memory("cuStreamCreate", n);
    printf("stream %d, ", (int)cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    without_memory("cuGraphInstantiateWithFlags", n);
    printf("graph %d, ", (int)cuGraphInstantiateWithFlags(&exec, graph, 0));
    without_memory("cuLaunchKernel", n);
    printf("launch %d\n",
           (int)cuLaunchKernel(hash, 999, 1, 1, 1, 1, 1, 0, stream, (void *[]){&data, &one}, NULL));
    CHECK(cuStreamSynchronize(stream));
    return 0;
}
