/*
 * visible.c - kernels write to memory of the host, and then something writes a word that the host
 * polls; `visible CASE N`. On the simulated driver `write_late` shows in a graph only behind a
 * fence, as on a GPU. Says how much of the data came later than the word.
 */
#define _GNU_SOURCE
#include "tests/simdriver/simprog.h"
#include <sched.h>
#include <sys/mman.h>
#include <stdatomic.h>

enum { STEP = 10, WORDS = 3 };

static CUfunction hash, publish, write_late, write_late_before;
static CUstream stream, other;
static CUevent forked, joined;
static CUdeviceptr data, number, elsewhere;
static unsigned int *words, *flag; /* of the host */

static void start(void)
{
    ag_prog_start();
    CUmodule module = ag_prog_module();
    hash = ag_prog_function(module, "hash");
    publish = ag_prog_function(module, "publish");
    write_late = ag_prog_function(module, "write_late");
    write_late_before = ag_prog_function(module, "write_late_before");
    data = ag_prog_alloc(8);
    number = ag_prog_alloc(8);
    elsewhere = ag_prog_alloc(8 * WORDS);
    CHECK(cuMemHostAlloc((void **)&words, WORDS * sizeof *words, CU_MEMHOSTALLOC_DEVICEMAP));
    CHECK(cuMemAllocHost_v2((void **)&flag, sizeof *flag));
    memset(words, 0, WORDS * sizeof *words);
    *flag = 0;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&forked, CU_EVENT_DISABLE_TIMING));
    CHECK(cuEventCreate(&joined, CU_EVENT_DISABLE_TIMING));
    CHECK(cuCtxSynchronize());
}

static void launches(CUstream to)
{
    for (uint64_t k = 0; k < STEP; k++)
        CHECK(ag_prog_launch(hash, to, (void *[]){&data, &k}));
}

static void write_words(CUstream to, CUdeviceptr where, unsigned int value)
{
    for (unsigned int i = 0; i < WORDS; i++, where += sizeof value)
        CHECK(ag_prog_launch(write_late, to, (void *[]){&where, &value}));
}

static void write_word(CUstream to, void *where, unsigned int value)
{
    CHECK(ag_prog_launch(publish, to, (void *[]){where, &value}));
}

/* How many words are not there yet when the host sees the flag. */
static unsigned int wait_for(unsigned int value)
{
    unsigned int late = 0;
    while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) != value)
        sched_yield();
    for (int i = 0; i < WORDS; i++)
        late += __atomic_load_n(&words[i], __ATOMIC_ACQUIRE) != value;
    return late;
}

static CUdeviceptr words_of_host(void)
{
    CUdeviceptr address;
    CHECK(cuMemHostGetDevicePointer_v2(&address, words, 0));
    return address;
}

static unsigned int kernels(unsigned int i)
{
    launches(stream);
    write_words(stream, words_of_host(), i);
    write_word(stream, &flag, i);
    return wait_for(i);
}

static unsigned int copies(unsigned int i)
{
    launches(stream);
    write_words(stream, words_of_host(), i);
    write_word(stream, &number, i);
    CHECK(cuMemcpyDtoHAsync_v2(flag, number, sizeof i, stream));
    return wait_for(i);
}

/* The kernel goes back from the end of the memory, as a reverse iterator does. */
static unsigned int backwards(unsigned int i)
{
    void *end = words + WORDS;
    launches(stream);
    CHECK(ag_prog_launch(write_late_before, stream, (void *[]){&end, &i}));
    write_word(stream, &flag, i);
    while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) != i)
        sched_yield();
    return __atomic_load_n(&words[WORDS - 1], __ATOMIC_ACQUIRE) != i;
}

/* What writes the data, and what writes the word, is on either side of a fork or a join. */
static unsigned int branches(unsigned int i)
{
    launches(stream);
    CHECK(cuEventRecord(forked, stream));
    CHECK(cuStreamWaitEvent(other, forked, 0));
    write_words(other, words_of_host(), i);
    CHECK(cuEventRecord(joined, other));
    launches(stream);
    CHECK(cuStreamWaitEvent(stream, joined, 0));
    write_word(stream, &flag, i);
    return wait_for(i);
}

/* Now and then the data that went elsewhere before goes to the host. */
static unsigned int switches(unsigned int i)
{
    if (i % 16) {
        launches(stream);
        write_words(stream, elsewhere, i);
        write_word(stream, &flag, i);
        for (int k = 0; k < WORDS; k++)
            words[k] = i;
        return wait_for(i);
    }
    return kernels(i);
}

static CUdeviceptr peer;

/* Memory of another device, in which a kernel of that device might poll the word. */
static void allocate_on_peer(void)
{
    CUcontext home, there;
    CUdevice device;
    CHECK(cuCtxGetCurrent(&home));
    CHECK(cuDeviceGet(&device, 1));
    CHECK(cuDevicePrimaryCtxRetain(&there, device));
    CHECK(cuCtxSetCurrent(there));
    peer = ag_prog_alloc((WORDS + 1) * sizeof *flag);
    CHECK(cuCtxSynchronize());
    CHECK(cuCtxSetCurrent(home));
    CHECK(cuCtxEnablePeerAccess(there, 0));
}

static unsigned int to_peer(unsigned int i)
{
    CUdeviceptr word = peer + WORDS * sizeof *flag;
    launches(stream);
    write_words(stream, i % 16 < 8 ? peer : elsewhere, i);
    write_word(stream, &word, i);
    CHECK(cuStreamSynchronize(stream));
    return 0;
}

static unsigned char registered_words[4 * 4096];

static void register_words(void)
{
    words = (unsigned int *)(((uintptr_t)registered_words + 4095) & ~(uintptr_t)4095);
    CHECK(cuMemHostRegister_v2(words, 2 * 4096, CU_MEMHOSTREGISTER_DEVICEMAP));
}

/* The address of the device's memory to which the data went becomes one of the host's. */
static unsigned int reused(unsigned int i)
{
    enum { SIZE = 2 << 20 };
    static CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemAccessDesc desc = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    if (i == 1) {
        CHECK(cuMemAddressReserve(&elsewhere, SIZE, 0, 0, 0));
        CHECK(cuMemCreate(&handle, SIZE, &prop, 0));
        CHECK(cuMemMap(elsewhere, SIZE, 0, handle, 0));
        CHECK(cuMemSetAccess(elsewhere, SIZE, &desc, 1));
    }
    if (i == 100) {
        CHECK(cuMemUnmap(elsewhere, SIZE));
        CHECK(cuMemRelease(handle));
        CHECK(cuMemAddressFree(elsewhere, SIZE));
        words = mmap((void *)(uintptr_t)elsewhere, SIZE, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        REQUIRE((CUdeviceptr)(uintptr_t)words == elsewhere);
        CHECK(cuMemHostRegister_v2(words, SIZE, CU_MEMHOSTREGISTER_DEVICEMAP));
    }
    launches(stream);
    for (unsigned int k = 0, one = 1; k < WORDS; k++) {
        CUdeviceptr where = elsewhere + 4 * k;
        if (i >= 100)
            words[k] = 0;
        CHECK(ag_prog_launch(write_late, stream, (void *[]){&where, &one}));
    }
    write_word(stream, &flag, i);
    while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) != i)
        sched_yield();
    unsigned int late = 0;
    for (int k = 0; i >= 100 && k < WORDS; k++)
        late += __atomic_load_n(&words[k], __ATOMIC_ACQUIRE) != 1;
    return late;
}

/* Another of the kernels gets memory of the host each time. */
static unsigned int rotates(unsigned int i)
{
    for (unsigned int k = 0; k < STEP; k++) {
        CUdeviceptr where = k == i % STEP ? words_of_host() : elsewhere;
        CHECK(ag_prog_launch(write_late, stream, (void *[]){&where, &i}));
    }
    CHECK(cuStreamSynchronize(stream));
    return words[0] != i;
}

/* Kernels know such memory by another address. */
static void combine_writes(void)
{
    CHECK(cuMemHostAlloc((void **)&words, WORDS * sizeof *words,
                         CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED));
    REQUIRE(words_of_host() != (CUdeviceptr)(uintptr_t)words);
}

/* By entry points that old programs, and those that look names up without a version, get. */
static void use_old_memory(void)
{
    words = (unsigned int *)(((uintptr_t)registered_words + 4095) & ~(uintptr_t)4095);
    CHECK(cuMemHostRegister(words, 2 * 4096, CU_MEMHOSTREGISTER_DEVICEMAP));
    CHECK(cuMemAllocHost((void **)&flag, sizeof *flag));
    *flag = 0;
}

/* Memory of the host as NCCL makes it. */
static unsigned int *map_words(void)
{
    enum { SIZE = 2 << 20 };
    CUdeviceptr address;
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_HOST_NUMA, 0}};
    CUmemAccessDesc desc[] = {
        {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
        {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
    CHECK(cuMemCreate(&handle, SIZE, &prop, 0));
    CHECK(cuMemAddressReserve(&address, SIZE, 0, 0, 0));
    CHECK(cuMemMap(address, SIZE, 0, handle, 0));
    CHECK(cuMemSetAccess(address, SIZE, desc, 2));
    CHECK(cuMemRelease(handle));
    return (unsigned int *)(uintptr_t)address;
}

/* The kernels have nothing to do with the memory of the host. */
static unsigned int beside(unsigned int i)
{
    launches(stream);
    write_words(stream, elsewhere, i);
    CHECK(cuStreamSynchronize(stream));
    return 0;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        unsigned int (*step)(unsigned int i);
    } cases[] = {{"kernels", kernels},     {"copies", copies},      {"branches", branches},
                 {"switches", switches},   {"registered", kernels}, {"reused", reused},
                 {"backwards", backwards}, {"combined", kernels},   {"old", kernels},
                 {"mapped", kernels},      {"beside", beside},      {"rotates", rotates},
                 {"peer", to_peer}};
    unsigned int n = argc == 3 ? (unsigned int)atoi(argv[2]) : 0, late = 0;
    for (size_t k = 0; n && k < sizeof cases / sizeof *cases; k++) {
        if (strcmp(argv[1], cases[k].name))
            continue;
        start();
        if (!strcmp(argv[1], "registered"))
            register_words();
        if (!strcmp(argv[1], "peer"))
            allocate_on_peer();
        if (!strcmp(argv[1], "combined"))
            combine_writes();
        if (!strcmp(argv[1], "old"))
            use_old_memory();
        if (!strcmp(argv[1], "mapped") || !strcmp(argv[1], "beside"))
            words = map_words();
        for (unsigned int i = 1; i <= n; i++)
            late += cases[k].step(i);
        printf("%u words came late\n", late);
        return 0;
    }
    fprintf(stderr, "usage: visible CASE N\n");
    return 2;
}
