/*
 * movable.c - steps with fills and copies of memory that can be unmapped or move: of a pool, or
 * mapped by the program. On the simulated driver.
 */
#include "tests/simdriver/simprog.h"

enum { PIECE = 256 << 10, PIECES = 8, STEP = 8, LARGE = 2 << 20 };

static CUfunction hash;
static CUstream stream;
static CUdeviceptr own, base;
static CUmemGenericAllocationHandle handles[PIECES];
static uint64_t seen;

static void start(void)
{
    ag_prog_start();
    hash = ag_prog_function(ag_prog_module(), "hash");
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    own = ag_prog_alloc(2 * LARGE);
    CHECK(cuCtxSynchronize()); /* the fill is the legacy stream's, which orders nothing here */
}

static CUmemGenericAllocationHandle physical(int device)
{
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
    CHECK(cuMemCreate(&handle, PIECE, &prop, 0));
    return handle;
}

static void permit(CUdeviceptr p, size_t bytes, int device, CUmemAccess_flags flags)
{
    CUmemAccessDesc desc = {{CU_MEM_LOCATION_TYPE_DEVICE, device}, flags};
    CHECK(cuMemSetAccess(p, bytes, &desc, 1));
}

static void map(int place, CUmemGenericAllocationHandle handle)
{
    CHECK(cuMemMap(base + (CUdeviceptr)place * PIECE, PIECE, 0, handle, 0));
    permit(base + (CUdeviceptr)place * PIECE, PIECE, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

/* All pieces but the last two, side by side. */
static void start_mapped(void)
{
    start();
    CHECK(cuMemAddressReserve(&base, (size_t)PIECES * PIECE, 0, 0, 0));
    for (int i = 0; i < PIECES; i++)
        handles[i] = physical(0);
    for (int i = 0; i < PIECES - 2; i++)
        map(i, handles[i]);
    CHECK(cuMemsetD8_v2(base, 0, (size_t)(PIECES - 2) * PIECE));
    CHECK(cuCtxSynchronize());
}

static void launches(CUdeviceptr x, int n)
{
    for (int i = 0; i < n; i++) {
        uint64_t k = (uint64_t)i;
        CHECK(cuLaunchKernel(hash, 1 + (unsigned int)k, 1, 1, 1, 1, 1, 0, stream,
                             (void *[]){&x, &k}, NULL));
    }
}

static void look(CUdeviceptr x, int step)
{
    CHECK(cuStreamSynchronize(stream));
    if (step % 5 == 0)
        seen = seen * 31 + ag_prog_read64(x);
}

/* Works in `x` and, some way behind it, in `y`. The fill and the copies change from step to step.
 */
static void one_step(CUdeviceptr x, CUdeviceptr y, int i)
{
    CUdeviceptr moved = (CUdeviceptr)(i % 3);
    launches(x, STEP);
    CHECK(cuMemsetD32Async(y, (unsigned int)i, 64, stream));
    CHECK(cuMemcpyDtoDAsync_v2(y + 8 + moved, x, 8, stream));
    launches(y + 8, STEP);
    CHECK(cuMemcpyAsync(x, y + 8, 8, stream));
}

static int result(CUdeviceptr x)
{
    CHECK(cuStreamSynchronize(stream));
    printf("value %llu, seen %llu\n", (unsigned long long)ag_prog_read64(x),
           (unsigned long long)seen);
    return 0;
}

static int plain(int n)
{
    start();
    for (int i = 0; i < n; i++) {
        one_step(own, own + 1024, i);
        look(own, i);
    }
    return result(own);
}

static int pool(int n)
{
    CUdeviceptr x;
    start();
    CHECK(cuMemAllocAsync(&x, 4096, stream));
    CHECK(cuMemsetD8Async(x, 0, 4096, stream));
    for (int i = 0; i < n; i++) {
        one_step(x, x + 1024, i);
        look(x, i);
    }
    return result(x);
}

/* Each step allocates and frees, at the same address as a rule, and works there as well. */
static int pool_each_step(int n)
{
    CUdeviceptr x;
    start();
    for (int i = 0; i < n; i++) {
        CHECK(cuMemAllocAsync(&x, 4096, stream));
        CHECK(cuMemcpyDtoDAsync_v2(x, own, 8, stream));
        one_step(x, x + 1024, i);
        CHECK(cuMemcpyDtoDAsync_v2(own, x, 8, stream));
        CHECK(cuMemFreeAsync(x, stream));
        look(own, i);
    }
    return result(own);
}

/* A multicast object looks like mapped memory, and a kernel must not write to it. The call itself
 * may fail here; another thread of the program may know more. */
static int multicast(int n)
{
    CUdeviceptr x;
    start_mapped();
    CHECK(cuMemAllocAsync(&x, 4096, stream));
    CHECK(cuMemsetD8Async(x, 0, 4096, stream));
    for (int i = 0; i < n; i++) {
        if (i == n / 2)
            cuMulticastAddDevice(0, 0);
        one_step(base, base + 1024, i);
        one_step(x, x + 1024, i);
        look(base, i);
    }
    return result(base);
}

/* The fill lies across the border of two pieces. */
static int mapped(int n)
{
    start_mapped();
    for (int i = 0; i < n; i++) {
        one_step(base, base + 3 * PIECE - 104, i);
        look(base, i);
    }
    return result(base);
}

/* One of two pieces is made to wait. A fill of both comes before each fill of that one by a call
 * that takes no stream, behind which the host looks for what a kernel has written. */
static int mapped_waits(int n)
{
    const unsigned int yes = 1;
    CUdeviceptr at;
    int *word, late = 0;
    start_mapped();
    CUfunction publish = ag_prog_function(ag_prog_module(), "publish");
    CHECK(cuMemHostAlloc((void **)&word, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    CHECK(cuMemHostGetDevicePointer_v2(&at, word, 0));
    CHECK(cuPointerSetAttribute(&yes, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, base + PIECE));
    stream = NULL;
    for (int i = 1; i <= n; i++) {
        launches(own, STEP);
        CHECK(cuMemsetD8Async(base + PIECE - 64, (unsigned char)i, 128, NULL));
        CHECK(cuLaunchKernel(publish, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&at, &i}, NULL));
        CHECK(cuMemsetD8_v2(base + PIECE, (unsigned char)i, 64));
        late += __atomic_load_n(word, __ATOMIC_ACQUIRE) != i;
        look(base + PIECE, i);
    }
    printf("late: %s\n", late ? "yes" : "no");
    return result(base + PIECE - 64);
}

/* Now and then, and once within a step, the pieces change places. */
static int remapped(int n)
{
    int on_top = 0;
    start_mapped();
    for (int i = 0; i < n; i++) {
        launches(base, STEP);
        if (i % 9 == 8) {
            CHECK(cuStreamSynchronize(stream));
            CHECK(cuMemUnmap(base, PIECE));
            on_top = on_top ? 0 : PIECES - 1;
            map(0, handles[on_top]);
        }
        one_step(base, base + 2 * PIECE, i);
        look(base, i);
    }
    return result(base);
}

static void known_steps(CUdeviceptr x)
{
    for (int i = 0; i < 12; i++) {
        launches(own, STEP);
        CHECK(cuMemsetD32Async(x, 5, 8, stream));
        CHECK(cuMemcpyDtoDAsync_v2(own + 64, x, 8, stream));
        launches(own, STEP);
        CHECK(cuStreamSynchronize(stream));
    }
}

/* What the driver says of such a step when it must refuse the fill or the copy. */
static void refused(const char *what, CUdeviceptr x, size_t bytes)
{
    launches(own, STEP);
    int fill = (int)cuMemsetD32Async(x, 5, bytes / 4, stream);
    int to = (int)cuMemcpyDtoDAsync_v2(x, own + LARGE, bytes, stream);
    int from = (int)cuMemcpyDtoDAsync_v2(own + LARGE, x, bytes, stream);
    launches(own, STEP);
    CHECK(cuStreamSynchronize(stream));
    printf("%s: fill %d, copy to %d, from %d\n", what, fill, to, from);
}

static int refusals(int n)
{
    (void)n;
    start_mapped();
    known_steps(base + PIECE);
    refused("before", base + PIECE, 32);
    permit(base + PIECE, PIECE, 0, CU_MEM_ACCESS_FLAGS_PROT_READ);
    refused("only to be read", base + PIECE, 32);
    known_steps(base);
    permit(base + PIECE, PIECE, 0, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    refused("not to be touched", base + PIECE, 32);
    permit(base + PIECE, PIECE, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    known_steps(base + PIECE);
    CHECK(cuMemUnmap(base + PIECE, PIECE));
    refused("unmapped", base + PIECE, 32);
    known_steps(base);
    refused("into the hole", base + PIECE - 16, 32);
    known_steps(base);
    CHECK(cuMemUnmap(base, PIECE));
    CHECK(cuMemUnmap(base + 2 * PIECE, (PIECES - 4) * PIECE));
    CHECK(cuMemAddressFree(base, (size_t)PIECES * PIECE));
    refused("no addresses", base, 32);
    CHECK(cuMemAllocAsync(&base, 4096, stream));
    known_steps(base);
    refused("past the end", base + 4096 - 16, 32);
    CHECK(cuMemFreeAsync(base, stream));
    CHECK(cuStreamSynchronize(stream));
    refused("freed", base, 32);
    return result(own);
}

static CUgraphExec executable(CUgraph graph)
{
    CUgraphExec exec;
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    return exec;
}

/* Two graphs: one allocates the memory, the other frees it. `how`: nodes of their own, a node of
 * any kind, or captured calls. */
static CUdeviceptr make_graphs(int how, CUgraphExec *takes, CUgraphExec *frees)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}},
        .bytesize = 4096};
    CUgraph taking, freeing;
    CUgraphNode node;
    if (how == 2) {
        CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        CHECK(cuMemAllocAsync(&params.dptr, 4096, stream));
        CHECK(cuStreamEndCapture(stream, &taking));
        CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        CHECK(cuMemFreeAsync(params.dptr, stream));
        CHECK(cuStreamEndCapture(stream, &freeing));
    } else {
        CHECK(cuGraphCreate(&taking, 0));
        CHECK(cuGraphAddMemAllocNode(&node, taking, NULL, 0, &params));
        CHECK(cuGraphCreate(&freeing, 0));
        CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_MEM_FREE, .free.dptr = params.dptr};
        if (how == 0)
            CHECK(cuGraphAddMemFreeNode(&node, freeing, NULL, 0, params.dptr));
        else
            CHECK(cuGraphAddNode(&node, freeing, NULL, 0, &any));
    }
    *takes = executable(taking);
    *frees = executable(freeing);
    return params.dptr;
}

static int freed_by_graph(int how)
{
    CUgraphExec takes, frees;
    start();
    CUdeviceptr x = make_graphs(how, &takes, &frees);
    for (int i = 0; i < 3; i++) {
        CHECK(cuGraphLaunch(takes, stream));
        known_steps(x);
        refused("allocated", x, 32);
        CHECK(cuGraphLaunch(frees, stream));
        CHECK(cuStreamSynchronize(stream));
        refused("freed", x, 32);
    }
    return result(own);
}

/* Memory of a pool names no context, and yet ends with the one in which it was allocated, to which
 * nothing was ever launched. */
static int ended(int n)
{
    (void)n;
    CUcontext other;
    CUdeviceptr x;
    start();
    CHECK(cuCtxCreate_v2(&other, 0, 0));
    CHECK(cuMemAllocAsync(&x, 4096, NULL));
    CHECK(cuCtxSynchronize());
    CHECK(cuCtxPopCurrent_v2(NULL));
    known_steps(x);
    refused("before", x, 32);
    known_steps(x);
    CHECK(cuCtxDestroy_v2(other));
    refused("ended", x, 32);
    return result(own);
}

/* Two reservations that happen to lie side by side are two to the driver, as eager calls show. */
static int neighbours(int n)
{
    CUdeviceptr second;
    start_mapped();
    CHECK(cuMemUnmap(base + (PIECES - 3) * PIECE, PIECE));
    for (int i = PIECES - 3; i < PIECES; i++)
        map(i, handles[i]);
    CHECK(cuMemAddressReserve(&second, PIECE, 0, 0, 0));
    REQUIRE(second == base + (CUdeviceptr)PIECES * PIECE);
    CHECK(cuMemMap(second, PIECE, 0, physical(0), 0));
    permit(second, PIECE, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    for (int i = 0; i < n; i++) {
        known_steps(second);
        refused("across", second - 16, 32);
    }
    return result(own);
}

/* Memory of the other device, which a kernel here must not touch. */
static int other_device(int n)
{
    start_mapped();
    CHECK(cuMemMap(base + (PIECES - 1) * PIECE, PIECE, 0, physical(1), 0));
    permit(base + (PIECES - 1) * PIECE, PIECE, 1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    for (int i = 0; i < n; i++) {
        one_step(base, base + (PIECES - 1) * PIECE, i);
        look(base, i);
    }
    return result(base);
}

/* Memory that no graph may name: managed, and of another context. */
static int foreign(int n)
{
    CUdeviceptr managed, elsewhere;
    CUcontext here, other;
    start();
    CHECK(cuCtxGetCurrent(&here));
    CHECK(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
    CHECK(cuDevicePrimaryCtxRetain(&other, 1));
    CHECK(cuCtxSetCurrent(other));
    CHECK(cuMemAlloc_v2(&elsewhere, 4096));
    CHECK(cuCtxSetCurrent(here));
    for (int i = 0; i < n; i++) {
        launches(own, STEP);
        CHECK(cuMemcpyDtoDAsync_v2(managed + 8, own, 8, stream));
        CHECK(cuMemcpyDtoDAsync_v2(elsewhere + 16, managed + 8, 8, stream));
        CHECK(cuMemcpyDtoDAsync_v2(own, elsewhere + 16, 8, stream));
        look(own, i);
    }
    return result(own);
}

/* Copies that are too large for a kernel. */
static int large(CUdeviceptr x, int n)
{
    for (int i = 0; i < n; i++) {
        launches(own, STEP);
        CHECK(cuMemcpyDtoDAsync_v2(x, own, 1200 << 10, stream));
        launches(x, STEP);
        CHECK(cuMemcpyDtoDAsync_v2(own, x, 8, stream));
        look(own, i);
    }
    return result(own);
}

static int large_mapped(int n)
{
    start_mapped();
    return large(base, n);
}

static int large_plain(int n)
{
    start();
    return large(own + LARGE, n);
}

/* Sizes of copies that are known by then, with all alignments in turn. */
static int alignments(int n)
{
    static const size_t sizes[] = {1, 7, 64, 4095, 4096, 1 << 20};
    CUdeviceptr x;
    start();
    CHECK(cuMemAllocAsync(&x, LARGE, stream));
    for (int i = 0; i < n; i++) {
        CUdeviceptr a = (CUdeviceptr)(i % 16), b = (CUdeviceptr)(i / 16 % 16);
        launches(own, STEP);
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
            CHECK(cuMemcpyDtoDAsync_v2(x + 16 + a, own + b, sizes[k], stream));
        CHECK(cuMemcpyDtoDAsync_v2(own + 8, x + 24, 4096, stream));
        look(own + 8, i);
    }
    return result(own);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(int n);
    } cases[] = {{"plain", plain},
                 {"pool", pool},
                 {"pool-each-step", pool_each_step},
                 {"mapped", mapped},
                 {"mapped-waits", mapped_waits},
                 {"multicast", multicast},
                 {"remapped", remapped},
                 {"refusals", refusals},
                 {"freed-by-graph", freed_by_graph},
                 {"ended", ended},
                 {"neighbours", neighbours},
                 {"other-device", other_device},
                 {"foreign", foreign},
                 {"large-mapped", large_mapped},
                 {"large-plain", large_plain},
                 {"alignments", alignments}};
    for (size_t i = 0; argc == 3 && i < sizeof cases / sizeof *cases; i++)
        if (!strcmp(argv[1], cases[i].name))
            return cases[i].run(atoi(argv[2]));
    fprintf(stderr, "usage: movable CASE STEPS\n");
    return 2;
}
