/*
 * copies.c - steps with fills and copies by calls that take no stream, and with copies of several
 * rows. On the simulated driver.
 */
#include "tests/simdriver/simprog.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { PITCH = 64, ROWS = 32, SLICE = PITCH * 4, BYTES = 1 << 16 };

static CUfunction hash;
static CUdeviceptr x, y;
static uint64_t seen;
static CUstream other;

static void start(void)
{
    ag_prog_start();
    hash = ag_prog_function(ag_prog_module(), "hash");
    x = ag_prog_alloc(BYTES);
    y = ag_prog_alloc(BYTES);
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CHECK(cuCtxSynchronize());
}

static void launches(int n)
{
    for (int i = 0; i < n; i++) {
        uint64_t k = (uint64_t)i;
        CHECK(cuLaunchKernel(hash, 1 + (unsigned int)i, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&x, &k},
                             NULL));
    }
}

static void look(int step)
{
    CHECK(cuCtxSynchronize());
    if (step % 5 == 0)
        for (CUdeviceptr at = 0; at < 2048; at += 8)
            seen = seen * 31 + ag_prog_read64(x + at) * 7 + ag_prog_read64(y + at);
}

static int result(void)
{
    CHECK(cuCtxSynchronize());
    printf("seen %llu\n", (unsigned long long)seen);
    return 0;
}

/* Each fill and each copy that takes no stream. */
static int no_stream(int n)
{
    start();
    for (int i = 0; i < n; i++) {
        unsigned int k = (unsigned int)i;
        launches(2);
        CHECK(cuMemsetD8_v2(y, (unsigned char)i, 100));
        CHECK(cuMemsetD16_v2(y + 128, (unsigned short)i, 20));
        CHECK(cuMemsetD32_v2(y + 256, k, 20));
        launches(1);
        CHECK(cuMemsetD2D8_v2(y + 512, PITCH, (unsigned char)i, 10, 3));
        CHECK(cuMemsetD2D16_v2(y + 1024, PITCH, (unsigned short)i, 10, 3));
        CHECK(cuMemsetD2D32_v2(y + 1536, PITCH, k, 10, 3));
        CHECK(cuMemcpyDtoD_v2(y + 384 + 8 * (k % 2), x, 8));
        launches(1);
        look(i);
    }
    return result();
}

static CUDA_MEMCPY2D rows(CUdeviceptr to, CUdeviceptr from, size_t column)
{
    return (CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                           .srcDevice = from,
                           .srcPitch = PITCH,
                           .dstXInBytes = column,
                           .dstY = 1,
                           .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                           .dstDevice = to,
                           .dstPitch = PITCH,
                           .WidthInBytes = 8,
                           .Height = ROWS - 1};
}

static CUDA_MEMCPY3D slices(CUdeviceptr to, CUdeviceptr from)
{
    return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                           .srcDevice = from,
                           .srcPitch = PITCH,
                           .srcHeight = 4,
                           .dstXInBytes = 3,
                           .dstZ = 1,
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = to,
                           .dstPitch = PITCH,
                           .dstHeight = SLICE / PITCH,
                           .WidthInBytes = 9,
                           .Height = 3,
                           .Depth = 4};
}

/* By every call: to the other array, and from one column to another of the same. */
static int of_rows(int n)
{
    start();
    for (int i = 0; i < n; i++) {
        CUDA_MEMCPY2D across = rows(y, x, 8 * (size_t)(i % 3)), column = rows(x, x, 24);
        CUDA_MEMCPY3D deep = slices(y, x + 8 * (size_t)(i % 2));
        launches(3);
        CHECK(cuMemcpy2D_v2(&across));
        CHECK(cuMemcpy2DAsync_v2(&column, NULL));
        launches(1);
        CHECK(cuMemcpy3DAsync_v2(&deep, NULL));
        column.dstXInBytes = 16;
        CHECK(cuMemcpy2DUnaligned_v2(&column));
        deep.dstXInBytes = 32;
        CHECK(cuMemcpy3D_v2(&deep));
        memset(&across, 0xee, sizeof across); /* the program's own again */
        memset(&column, 0xee, sizeof column);
        memset(&deep, 0xee, sizeof deep);
        launches(1);
        look(i);
    }
    return result();
}

/* What the driver must do or refuse itself: rows onto themselves, too narrow a pitch, past the end
 * of memory, nothing, no description. */
static int left_to_driver(int n)
{
    start();
    for (int i = 0; i < n; i++) {
        CUDA_MEMCPY2D onto = rows(x, x, 4), narrow = rows(y, x, 0), past = rows(y, x, 0),
                      none = past;
        onto.WidthInBytes = 8;
        narrow.dstPitch = 4;
        past.dstDevice = y + BYTES - PITCH;
        none.Height = 0;
        launches(3);
        int one = (int)cuMemcpy2DAsync_v2(&onto, NULL), two = (int)cuMemcpy2D_v2(&narrow);
        int three = (int)cuMemcpy2DAsync_v2(&past, NULL), four = (int)cuMemcpy2D_v2(&none);
        int five = (int)cuMemcpy2D_v2(NULL);
        launches(1);
        look(i);
        if (i % 10 == 0)
            printf("%d %d %d %d %d\n", one, two, three, four, five);
    }
    return result();
}

static CUfunction publish;
static CUdeviceptr at; /* of the word, for kernels */
static int *word;      /* pinned, so the host sees it without a call */

static void start_with_word(void)
{
    start();
    publish = ag_prog_function(ag_prog_module(), "publish");
    CHECK(cuMemHostAlloc((void **)&word, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    CHECK(cuMemHostGetDevicePointer_v2(&at, word, 0));
}

static void publishes(int i)
{
    CHECK(cuLaunchKernel(publish, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&at, &i}, NULL));
}

static bool has_come(int i)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE) == i;
}

/* Memory on which such calls wait: when one has returned, everything before it is done. `how`: the
 * memory is to wait, or all of the context; 2: nothing is, and the word may come late. */
static int waits(int how)
{
    unsigned int yes = 1;
    int late = 0;
    start_with_word();
    for (int i = 1; i <= 60; i++) {
        if (i == 20 && how == 0)
            CHECK(cuPointerSetAttribute(&yes, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, y));
        if (i == 20 && how == 1)
            CHECK(cuCtxSetFlags(0x80)); /* CU_CTX_SYNC_MEMOPS */
        launches(4);
        publishes(i);
        if (i % 2)
            CHECK(cuMemsetD8_v2(y, 0, 64));
        else
            CHECK(cuMemcpyDtoD_v2(y, x, 64));
        late += i >= 20 && !has_come(i);
        launches(2);
        CHECK(cuCtxSynchronize());
    }
    printf("late: %s\n", how == 2 ? "perhaps" : late ? "yes" : "no");
    return result();
}

static CUcontext home;
static _Atomic bool copies, at_rest, ended;

static void *copies_meanwhile(void *unused)
{
    (void)unused;
    CHECK(cuCtxSetCurrent(home));
    while (!atomic_load(&ended)) {
        atomic_store(&at_rest, !atomic_load(&copies));
        if (!atomic_load(&at_rest))
            CHECK(cuMemcpyDtoDAsync_v2(y + 1024, x, 8, NULL));
    }
    return NULL;
}

/* While the memory is made to wait, another thread copies to it. */
static int waits_beside(int n)
{
    pthread_t thread;
    int late = 0;
    start_with_word();
    CHECK(cuCtxGetCurrent(&home));
    REQUIRE(!pthread_create(&thread, NULL, copies_meanwhile, NULL));
    for (int i = 1; i <= n; i++) {
        for (unsigned int on = 0; on <= 1; on++) {
            atomic_store(&copies, on);
            while (atomic_load(&at_rest) == (on != 0))
                sched_yield();
            CHECK(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, y));
        }
        atomic_store(&copies, false);
        while (!atomic_load(&at_rest))
            sched_yield();
        CHECK(cuCtxSynchronize());
        launches(4);
        publishes(i);
        CHECK(cuMemcpyDtoD_v2(y, x, 64));
        late += !has_come(i);
        CHECK(cuCtxSynchronize());
    }
    atomic_store(&ended, true);
    pthread_join(thread, NULL);
    printf("late: %s\n", late ? "yes" : "no");
    return 0;
}

/* Behind a copy of rows, which is always the op before, a launch that may begin before the one in
 * front of it has ended. */
static int programmatic(int n)
{
    CUlaunchAttribute early = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                               .value.programmaticStreamSerializationAllowed = 1};
    start();
    for (int i = 0; i < n; i++) {
        uint64_t k = 7;
        CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, NULL, &early, 1};
        CUDA_MEMCPY2D copy = rows(y, x, 0);
        launches(4);
        CHECK(cuMemcpy2DAsync_v2(&copy, NULL));
        CHECK(cuLaunchKernelEx(&config, hash, (void *[]){&y, &k}, NULL));
        if (i % 3 == 0)
            launches(1);
        look(i);
    }
    return result();
}

/* Streams that fork and join, with records that nobody asks for, and then a copy between devices in
 * the default stream, for which all of them are due. What lies between two calls of
 * cuDeviceComputeCapability is that copy. */
static int records_due(int how)
{
    enum { QUIET = 3000 };
    CUcontext peer;
    CUdeviceptr to;
    CUstream a;
    CUevent forked, joined;
    int none;
    start();
    CHECK(cuCtxGetCurrent(&home));
    CHECK(cuDevicePrimaryCtxRetain(&peer, 1));
    CHECK(cuCtxSetCurrent(peer));
    to = ag_prog_alloc(64);
    CHECK(cuCtxSynchronize());
    CHECK(cuCtxSetCurrent(home));
    CHECK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&forked, CU_EVENT_DISABLE_TIMING));
    CHECK(cuEventCreate(&joined, CU_EVENT_DISABLE_TIMING));
    for (int i = 0; i <= QUIET; i++) {
        for (unsigned int k = 0; k < 12; k++) {
            uint64_t v = k;
            if (k == 4) {
                CHECK(cuEventRecord(forked, a));
                CHECK(cuStreamWaitEvent(other, forked, 0));
            }
            if (k == 8) {
                CHECK(cuEventRecord(joined, other));
                CHECK(cuStreamWaitEvent(a, joined, 0));
            }
            CHECK(cuLaunchKernel(hash, 1 + k, 1, 1, 1, 1, 1, 0, k / 4 == 1 ? other : a,
                                 (void *[]){k / 4 == 1 ? &y : &x, &v}, NULL));
        }
        if (i == QUIET) {
            CHECK(cuDeviceComputeCapability(&none, &none, 0));
            if (how == 0)
                CHECK(cuMemcpyPeer(to, peer, x, home, 8));
            else if (how == 1)
                CHECK(cuMemcpyPeerAsync(to, peer, x, home, 8, NULL));
            else
                CHECK(cuMemcpyDtoDAsync_v2(to, x, 8, CU_STREAM_LEGACY));
            CHECK(cuDeviceComputeCapability(&none, &none, 0));
        }
        CHECK(cuStreamSynchronize(a));
    }
    return result();
}

/* A program that launches nothing into its default stream: such a call concerns streams that are
 * ordered with it, and no other. */
static int elsewhere(int n)
{
    start();
    CUstream blocking;
    CHECK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < 6; k++) {
            uint64_t v = (uint64_t)k;
            CHECK(cuLaunchKernel(hash, 1, 1, 1, 1, 1, 1, 0, blocking, (void *[]){&x, &v}, NULL));
        }
        CHECK(cuMemcpyDtoD_v2(y, x, 8));
        CHECK(cuMemsetD8_v2(x, (unsigned char)i, 8));
        CHECK(cuStreamSynchronize(blocking));
        look(i);
    }
    return result();
}

/* Many allocations, of the device and pinned: each gets a fill or a copy in every step. One of them
 * is freed now and then, and what lies there next is another one, perhaps of another size. */
static int with_allocations(int n, int count)
{
    enum { MOST = 5000, PINNED = 20 };
    static CUdeviceptr device[MOST];
    void *host[PINNED];
    start();
    for (int k = 0; k < count; k++)
        device[k] = ag_prog_alloc(4096);
    for (int k = 0; k < PINNED; k++)
        CHECK(cuMemHostAlloc(&host[k], 4096, 0));
    for (int i = 0; i < n; i++) {
        launches(2);
        for (int k = 0; k < count; k++)
            CHECK(cuMemsetD8Async(device[k] + 64, (unsigned char)(i + k), 64, NULL));
        for (int k = 0; k < PINNED; k++)
            CHECK(cuMemcpyDtoHAsync_v2(host[k], device[2 * k] + 64, 32, NULL));
        CHECK(cuCtxSynchronize());
        for (int k = 0; k < PINNED; k++)
            seen = seen * 31 + ((unsigned char *)host[k])[i % 32];
        if (i == 3 || i == 6) {
            CHECK(cuMemFree_v2(device[i]));
            device[i] = ag_prog_alloc((size_t)4096 * (size_t)i);
        }
    }
    return result();
}

static int many(int n)
{
    return with_allocations(n, 40);
}

/* More than the library remembers. */
static int very_many(int n)
{
    return with_allocations(n, 5000);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(int n);
    } all[] = {
        {"no-stream", no_stream},           {"rows", of_rows},
        {"left-to-driver", left_to_driver}, {"waits", waits},
        {"elsewhere", elsewhere},           {"many", many},
        {"waits-beside", waits_beside},     {"programmatic", programmatic},
        {"records-due", records_due},       {"very-many", very_many},
    };
    for (size_t i = 0; argc == 3 && i < sizeof all / sizeof *all; i++)
        if (!strcmp(argv[1], all[i].name))
            return all[i].run(atoi(argv[2]));
    fprintf(stderr, "usage: copies CASE STEPS\n");
    return 2;
}
