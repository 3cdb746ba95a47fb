/*
 * copies.c - the library's copy kernel beside memcpy nodes. Without the library.
 *
 *   copies FATBIN CONSTANT        of capture/graphs/ownkernels.cu, and of constant.cu
 *
 * First whether the kernel is exact: every size up to 4097 bytes, and some around the largest that
 * the library gives it, with every alignment of both addresses; no byte beside them may change.
 * Then whether the next kernel of a graph sees a constant that the copy kernel has written, or an
 * old one from a cache. Then what a node takes in a graph of 20 of them, by size, and what it takes
 * to give it other addresses. AG_MOST_COPIED (capture/graphs/lower.h) was chosen by that.
 */
#define _GNU_SOURCE
#include "capture/graphs/lower.h"
#include "capture/graphs/ownkernels.h"
#include "check.h"

#include <string.h>

enum {
    ALIGNMENTS = 16,
    PAIRS = ALIGNMENTS * ALIGNMENTS,
    SMALL = 4097,
    NODES = 20,
    ROUNDS = 7,
    LEAST = 64,
    MOST = 16 << 20,
};
#define ROOM ((size_t)MOST + 256)

static CUcontext context;
static CUfunction kernel;
static CUstream stream;
static CUdeviceptr from, to;
static unsigned char *host_from, *host_to;

/* lower.c asks for it. */
CUfunction ag_own_kernel(const struct ag_context *ctx, enum ag_own_kernel which)
{
    (void)ctx;
    return which == AG_OWN_COPY ? kernel : NULL;
}

static void lower(CUdeviceptr dst, CUdeviceptr src, size_t bytes, struct ag_lowered *out)
{
    struct ag_signature signature = {.kind = AG_OP_COPY, .width = bytes};
    struct ag_recorded_copy args = {dst, src};
    ag_lower(&signature, (const uint8_t *)&args, kernel, out);
}

static void copy(CUdeviceptr dst, CUdeviceptr src, size_t bytes)
{
    struct ag_lowered l;
    lower(dst, src, bytes, &l);
    CHECK(cuLaunchKernel(kernel, l.launch.gridDimX, l.launch.gridDimY, l.launch.gridDimZ,
                         l.launch.blockDimX, l.launch.blockDimY, l.launch.blockDimZ, 0, stream,
                         l.params, NULL));
}

/* ---- whether it is exact ------------------------------------------------------------------ */

/* All alignments at once, each in a slot of its own. */
static void check_size(size_t bytes)
{
    const size_t slot = (bytes + 2 * ALIGNMENTS + 63) / 64 * 64;
    CHECK(cuMemsetD8Async(to, 0xee, PAIRS * slot, stream));
    for (size_t i = 0; i < PAIRS; i++)
        copy(to + i * slot + ALIGNMENTS + i % ALIGNMENTS,
             from + i * 3 / ALIGNMENTS * ALIGNMENTS + i / ALIGNMENTS, bytes);
    CHECK(cuMemcpyDtoHAsync_v2(host_to, to, PAIRS * slot, stream));
    CHECK(cuStreamSynchronize(stream));
    for (size_t i = 0; i < PAIRS; i++) {
        const unsigned char *got = host_to + i * slot;
        size_t begin = ALIGNMENTS + i % ALIGNMENTS;
        bool good = !memcmp(got + begin,
                            host_from + i * 3 / ALIGNMENTS * ALIGNMENTS + i / ALIGNMENTS, bytes);
        for (size_t k = 0; k < slot; k++)
            good &= (k >= begin && k < begin + bytes) || got[k] == 0xee;
        if (!good) {
            printf("WRONG: %zu bytes to an address that ends in %zu from one that ends in %zu\n",
                   bytes, i % ALIGNMENTS, i / ALIGNMENTS);
            exit(1);
        }
    }
}

static void check_all(void)
{
    static const size_t large[] = {65535, 65536, 65537, 262143, AG_MOST_COPIED, AG_MOST_COPIED + 3};
    for (size_t bytes = 1; bytes <= SMALL; bytes++)
        check_size(bytes);
    for (size_t i = 0; i < sizeof large / sizeof *large; i++)
        check_size(large[i]);
    printf("exact: 1 to %d bytes and %zu larger sizes, each with %d pairs of alignments\n", SMALL,
           sizeof large / sizeof *large, PAIRS);
}

/* ---- whether constants are seen ------------------------------------------------------------ */

enum { CONSTANTS = 100, LAUNCHES = 50 };

/* A graph of pairs: a constant is written, and a kernel reads it. */
static CUgraphExec pairs_of(CUfunction reader, CUdeviceptr word)
{
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode node = NULL, before;
    CHECK(cuGraphCreate(&graph, 0));
    for (CUdeviceptr i = 0; i < CONSTANTS; i++) {
        struct ag_lowered l;
        CUdeviceptr out = to + 4 * i;
        CUDA_KERNEL_NODE_PARAMS p = {.func = reader,
                                     .gridDimX = 1,
                                     .gridDimY = 1,
                                     .gridDimZ = 1,
                                     .blockDimX = 1,
                                     .blockDimY = 1,
                                     .blockDimZ = 1,
                                     .kernelParams = (void *[]){&out}};
        lower(word, from + 4 * i, 4, &l);
        before = node;
        CHECK(cuGraphAddKernelNode_v2(&node, graph, &before, i > 0, &l.launch));
        before = node;
        CHECK(cuGraphAddKernelNode_v2(&node, graph, &before, 1, &p));
    }
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    return exec;
}

static void check_constant(const char *image)
{
    static unsigned int values[CONSTANTS], got[CONSTANTS];
    CUmodule module;
    CUfunction reader;
    CUdeviceptr word;
    size_t size;
    int wrong = 0;
    CHECK(cuModuleLoad(&module, image));
    CHECK(cuModuleGetFunction(&reader, module, "read_word"));
    CHECK(cuModuleGetGlobal_v2(&word, &size, module, "word"));
    CUgraphExec exec = pairs_of(reader, word);
    for (unsigned int n = 0; n < LAUNCHES; n++) {
        for (unsigned int i = 0; i < CONSTANTS; i++)
            values[i] = n * 1000 + i;
        CHECK(cuMemcpyHtoDAsync_v2(from, values, sizeof values, stream));
        CHECK(cuGraphLaunch(exec, stream));
        CHECK(cuMemcpyDtoHAsync_v2(got, to, sizeof got, stream));
        CHECK(cuStreamSynchronize(stream));
        for (int i = 0; i < CONSTANTS; i++)
            wrong += got[i] != values[i];
    }
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuMemcpyHtoD_v2(from, host_from, sizeof values));
    printf("%s: %d of %d reads behind the copy kernel gave an old constant\n",
           wrong ? "WRONG" : "constants are seen", wrong, CONSTANTS * LAUNCHES);
}

/* ---- what it takes ------------------------------------------------------------------------ */

struct graph {
    CUgraphExec exec;
    CUgraphNode node[NODES];
};

/* Each node has bytes of its own as far as there is room, so that caches do not flatter. */
static CUdeviceptr place(CUdeviceptr base, int i, size_t bytes)
{
    return base + (CUdeviceptr)i * ((bytes + 256) / 256 * 256);
}

static void memcpy_params(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUDA_MEMCPY3D *p)
{
    memset(p, 0, sizeof *p);
    p->srcMemoryType = p->dstMemoryType = CU_MEMORYTYPE_DEVICE;
    p->srcDevice = src;
    p->dstDevice = dst;
    p->WidthInBytes = bytes;
    p->Height = p->Depth = 1;
}

static struct graph make(bool by_kernel, size_t bytes, size_t off)
{
    struct graph g;
    CUgraph graph;
    CHECK(cuGraphCreate(&graph, 0));
    for (int i = 0; i < NODES; i++) {
        CUdeviceptr dst = place(to, i, bytes) + off, src = place(from, i, bytes);
        const CUgraphNode *before = i ? &g.node[i - 1] : NULL;
        if (by_kernel) {
            struct ag_lowered l;
            lower(dst, src, bytes, &l);
            CHECK(cuGraphAddKernelNode_v2(&g.node[i], graph, before, i > 0, &l.launch));
        } else {
            CUDA_MEMCPY3D p;
            memcpy_params(dst, src, bytes, &p);
            CHECK(cuGraphAddMemcpyNode(&g.node[i], graph, before, i > 0, &p, context));
        }
    }
    CHECK(cuGraphInstantiateWithFlags(&g.exec, graph, 0));
    CHECK(cuGraphUpload(g.exec, stream));
    CHECK(cuStreamSynchronize(stream));
    return g;
}

struct times {
    double wall, host, update; /* us a node, the best of the rounds */
};

static double update(const struct graph *g, bool by_kernel, size_t bytes)
{
    double began = now_us();
    for (int i = 0; i < NODES; i++) {
        CUdeviceptr dst = place(to, i, bytes), src = place(from, i, bytes);
        if (by_kernel) {
            struct ag_lowered l;
            lower(dst, src, bytes, &l);
            CHECK(cuGraphExecKernelNodeSetParams_v2(g->exec, g->node[i], &l.launch));
        } else {
            CUDA_MEMCPY3D p;
            memcpy_params(dst, src, bytes, &p);
            CHECK(cuGraphExecMemcpyNodeSetParams(g->exec, g->node[i], &p, context));
        }
    }
    return (now_us() - began) / NODES;
}

static void keep_less(double *best, double us)
{
    if (us < *best)
        *best = us;
}

static void round_of(const struct graph *g, int launches, struct times *t)
{
    double began = now_us();
    for (int i = 0; i < launches; i++)
        CHECK(cuGraphLaunch(g->exec, stream));
    keep_less(&t->host, (now_us() - began) / launches / NODES);
    CHECK(cuStreamSynchronize(stream));
    keep_less(&t->wall, (now_us() - began) / launches / NODES);
}

static double measure(size_t bytes)
{
    enum { NODE, KERNEL, UNALIGNED, KINDS };
    struct times t[KINDS];
    struct graph g[KINDS];
    int launches = bytes >= 1 << 20 ? 20 : 200;
    for (int k = 0; k < KINDS; k++) {
        t[k] = (struct times){1e9, 1e9, 1e9};
        g[k] = make(k != NODE, bytes, k == UNALIGNED);
    }
    for (int round = 0; round < ROUNDS; round++) /* in turn: what slows one slows all */
        for (int k = 0; k < KINDS; k++)
            round_of(&g[k], launches, &t[k]);
    for (int round = 0; round < ROUNDS; round++)
        for (int k = 0; k < UNALIGNED; k++)
            keep_less(&t[k].update, update(&g[k], k != NODE, bytes));
    for (int k = 0; k < KINDS; k++)
        CHECK(cuGraphExecDestroy(g[k].exec));
    printf("%9zu  %8.3f %8.3f %6.2f  %8.3f %8.3f  %8.3f %8.3f  %9.1f  %9.3f\n", bytes, t[NODE].wall,
           t[KERNEL].wall, t[NODE].wall / t[KERNEL].wall, t[NODE].host, t[KERNEL].host,
           t[NODE].update, t[KERNEL].update, 2e-3 * (double)bytes / t[KERNEL].wall,
           t[UNALIGNED].wall);
    return t[NODE].wall / t[KERNEL].wall;
}

static void measure_all(void)
{
    size_t best = 0;
    bool beaten = false;
    printf("us a node in graphs of %d; a ratio over 1: the kernel is faster\n", NODES);
    printf(
        "    bytes      node   kernel  ratio  host of node  kernel  update of node  kernel  kernel "
        "GB/s  off by 1\n");
    for (size_t bytes = LEAST; bytes <= MOST; bytes *= 2) {
        beaten |= measure(bytes) < 0.97;
        if (!beaten)
            best = bytes;
    }
    printf("the kernel is as fast as a memcpy node up to %zu bytes\n", best);
}

int main(int argc, char **argv)
{
    CUdevice device;
    CUmodule module;
    if (argc != 3) {
        fprintf(stderr, "usage: copies FATBIN CONSTANT\n");
        return 2;
    }
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuModuleLoad(&module, argv[1]));
    CHECK(cuModuleGetFunction(&kernel, module, "ag_copy"));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc_v2(&from, NODES * ROOM));
    CHECK(cuMemAlloc_v2(&to, NODES * ROOM));
    host_from = malloc(NODES * ROOM);
    host_to = malloc(NODES * ROOM);
    if (!host_from || !host_to)
        return 1;
    for (size_t i = 0; i < NODES * ROOM; i++)
        host_from[i] = (unsigned char)((uint32_t)i * 2654435761u >> 24);
    CHECK(cuMemcpyHtoD_v2(from, host_from, NODES * ROOM));
    check_all();
    check_constant(argv[2]);
    measure_all();
    return 0;
}
