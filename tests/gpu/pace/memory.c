/*
 * memory.c - what the driver says of memory that names no context, and what it accepts. Without the
 * library.
 *
 * capture/tracking/memory.c relies on these answers. A line that begins with NOT has another answer
 * than the library expects, and the last line counts them; the others only tell.
 */
#define _GNU_SOURCE
#include "check.h"

#include <stdbool.h>
#include <string.h>

static CUcontext context;
static CUstream stream;
static int surprises;

struct said {
    int result, access_result, range_result, device;
    CUcontext ctx;
    unsigned int type, access;
    CUdeviceptr start, part;
    size_t size, part_size;
};

static struct said ask(CUdeviceptr p)
{
    struct said s;
    memset(&s, 0, sizeof s);
    void *values[] = {&s.type, &s.ctx, &s.start, &s.size};
    CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_CONTEXT,
                                    CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                    CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    s.result = (int)cuPointerGetAttributes(4, wanted, values, p);
    void *more[] = {&s.device, &s.access};
    CUpointer_attribute of_access[] = {CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                       CU_POINTER_ATTRIBUTE_ACCESS_FLAGS};
    s.device = -1;
    s.access_result = (int)cuPointerGetAttributes(2, of_access, more, p);
    s.range_result = (int)cuMemGetAddressRange(&s.part, &s.part_size, p);
    return s;
}

static void tell(const char *what, CUdeviceptr p)
{
    struct said s = ask(p);
    printf("    %s: result %d, type %u, %s context; result %d, device %d, access %u; allocation "
           "%+lld, "
           "%zu bytes; result %d, part %+lld, %zu bytes\n",
           what, s.result, s.type, s.ctx ? "a" : "no", s.access_result, s.device, s.access,
           (long long)(s.start - p), s.size, s.range_result, (long long)(s.part - p), s.part_size);
}

static void expect(bool good, const char *what)
{
    surprises += !good;
    printf("%s %s\n", good ? "ok " : "NOT", what);
}

/* Usable memory without a context, of which the part around `p` is [start, start + size). */
static bool is_movable(CUdeviceptr p, CUdeviceptr start, size_t size)
{
    struct said s = ask(p);
    return !s.result && !s.access_result && !s.range_result && s.type == CU_MEMORYTYPE_DEVICE &&
           !s.ctx && s.device == 0 && s.access == 3 && s.part == start && s.part_size == size;
}

/* ---- mapped by the program ---------------------------------------------------------------- */

static CUmemGenericAllocationHandle physical(size_t bytes)
{
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop;
    memset(&prop, 0, sizeof prop);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CHECK(cuMemCreate(&handle, bytes, &prop, 0));
    return handle;
}

static void permit(CUdeviceptr p, size_t bytes, CUmemAccess_flags flags)
{
    CUmemAccessDesc desc = {.location.type = CU_MEM_LOCATION_TYPE_DEVICE, .flags = flags};
    CHECK(cuMemSetAccess(p, bytes, &desc, 1));
}

static void of_mapped_memory(void)
{
    enum { PIECE = 2 << 20 };
    CUdeviceptr p, second;
    CHECK(cuMemAddressReserve(&p, 4 * PIECE, 0, 0, 0));
    for (int i = 0; i < 2; i++)
        CHECK(cuMemMap(p + (CUdeviceptr)i * PIECE, PIECE, 0, physical(PIECE), 0));
    permit(p, 2 * PIECE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    tell("mapped, first piece", p + 100);
    tell("mapped, second piece", p + PIECE + 100);
    tell("reserved, not mapped", p + 2 * PIECE + 100);
    expect(is_movable(p + 100, p, PIECE) && is_movable(p + PIECE + 100, p + PIECE, PIECE),
           "mapped memory names its device, its access and the piece");
    struct said a = ask(p), b = ask(p + PIECE), hole = ask(p + 2 * PIECE);
    expect(a.start == p && b.start == p && a.size == 4 * PIECE && b.size == 4 * PIECE,
           "pieces of one reservation name the reservation");
    expect(hole.type != CU_MEMORYTYPE_DEVICE || hole.range_result || hole.access != 3,
           "a hole in it is no memory");
    expect(!cuMemsetD8Async(p + PIECE - 8, 1, 16, stream) &&
               !cuMemcpyDtoDAsync(p, p + PIECE - 8, 16, stream) && !cuStreamSynchronize(stream),
           "a fill and a copy across two pieces are accepted");
    expect(cuMemsetD8Async(p + 2 * PIECE - 8, 1, 16, stream) != CUDA_SUCCESS,
           "a fill that ends in the hole is refused at the call");
    permit(p, PIECE, CU_MEM_ACCESS_FLAGS_PROT_READ);
    tell("to be read only", p + 100);
    expect(ask(p).access == 1, "its access is known to be reading");
    printf("    a fill of it: result %d\n", (int)cuMemsetD8Async(p, 1, 16, stream));
    CHECK(cuMemUnmap(p, PIECE));
    tell("unmapped", p + 100);
    expect(!is_movable(p + 100, p, PIECE), "unmapped memory is known to be none");
    if (!cuMemAddressReserve(&second, PIECE, 0, p + 4 * PIECE, 0) && second == p + 4 * PIECE) {
        CHECK(cuMemMap(p + 3 * PIECE, PIECE, 0, physical(PIECE), 0));
        CHECK(cuMemMap(second, PIECE, 0, physical(PIECE), 0));
        permit(p + 3 * PIECE, PIECE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
        permit(second, PIECE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
        printf("    a fill across two reservations: result %d\n",
               (int)cuMemsetD8Async(second - 8, 1, 16, stream));
    }
    CHECK(cuStreamSynchronize(stream));
}

/* ---- of a pool ---------------------------------------------------------------------------- */

static void of_a_pool(void)
{
    enum { BYTES = 4096 };
    CUdeviceptr p, q;
    CHECK(cuMemAllocAsync(&p, BYTES, stream));
    CHECK(cuMemAllocAsync(&q, BYTES, stream));
    tell("of a pool", p + 100);
    expect(is_movable(p + 100, p, BYTES),
           "memory of a pool names its device, its access and itself");
    printf("    a fill past its end: result %d\n", (int)cuMemsetD8Async(p, 1, BYTES + 512, stream));
    CHECK(cuMemFreeAsync(p, stream));
    tell("freed", p + 100);
    printf("    a fill of it: result %d\n", (int)cuMemsetD8Async(p, 1, 16, stream));
    CHECK(cuStreamSynchronize(stream));
    tell("freed, and waited", p + 100);
    printf("    a fill of it: result %d\n", (int)cuMemsetD8Async(p, 1, 16, stream));
    cuStreamSynchronize(stream);
    CHECK(cuMemFreeAsync(q, stream));
    CHECK(cuStreamSynchronize(stream));
    tell("all freed, and waited", p + 100);
    printf("    a fill of it: result %d\n", (int)cuMemsetD8Async(p, 1, 16, stream));
    cuStreamSynchronize(stream);
}

static void of_a_graph(void)
{
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec exec;
    CUDA_MEM_ALLOC_NODE_PARAMS params;
    memset(&params, 0, sizeof params);
    params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    params.bytesize = 4096;
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params));
    tell("of a graph, before its launch", params.dptr + 100);
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    CHECK(cuGraphLaunch(exec, stream));
    CHECK(cuStreamSynchronize(stream));
    tell("of a graph", params.dptr + 100);
    CHECK(cuMemFreeAsync(params.dptr, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));
    tell("of a graph that is gone", params.dptr + 100);
}

int main(void)
{
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    of_mapped_memory();
    of_a_graph();
    of_a_pool(); /* last: the context may be lost in it */
    printf("%d answers are not what the library expects\n", surprises);
    return surprises != 0;
}
