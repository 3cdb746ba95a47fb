/* execute_ops.c - one function for each kind of op. */
#include "tests/fuzz/execute.h"
#include "tests/fuzz/kernels.h"
#include "tests/fuzz/model.h"
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* cuda.h declares few of the per-thread default stream's entry points. */
#define PTSZ(name) extern __typeof__(name) name##_ptsz
PTSZ(cuLaunchKernel);
PTSZ(cuLaunchKernelEx);
PTSZ(cuLaunchCooperativeKernel);
PTSZ(cuMemsetD8Async);
PTSZ(cuMemsetD16Async);
PTSZ(cuMemsetD32Async);
PTSZ(cuMemsetD2D8Async);
PTSZ(cuMemsetD2D16Async);
PTSZ(cuMemsetD2D32Async);
PTSZ(cuMemcpyAsync);
PTSZ(cuMemcpyDtoDAsync_v2);
PTSZ(cuMemcpyHtoDAsync_v2);
PTSZ(cuMemcpyDtoHAsync_v2);
PTSZ(cuMemcpy2DAsync_v2);
PTSZ(cuMemcpy3DAsync_v2);
PTSZ(cuMemcpyPeerAsync);
PTSZ(cuStreamSynchronize);
PTSZ(cuStreamQuery);
PTSZ(cuStreamWaitEvent);
PTSZ(cuStreamIsCapturing);
PTSZ(cuEventRecord);
PTSZ(cuEventRecordWithFlags);
PTSZ(cuLaunchHostFunc);
PTSZ(cuStreamAddCallback);
PTSZ(cuGraphLaunch);
PTSZ(cuStreamWaitValue32_v2);
#define PTDS(name) extern __typeof__(name) name##_ptds
PTDS(cuMemsetD8_v2);
PTDS(cuMemsetD16_v2);
PTDS(cuMemsetD32_v2);
PTDS(cuMemcpyHtoD_v2);
PTDS(cuMemcpyDtoH_v2);
PTDS(cuMemcpyDtoD_v2);

double fz_patience_s = 3.0;

struct run {
    struct fz_handles *h;
    const struct fz_op *op;
    struct fz_result *result;
};

/* Slot 2, and one in four of the created streams, is used through the _ptsz entry points. */
static bool by_ptsz(int slot)
{
    return slot == 2 || (slot >= FZ_FIRST_STREAM && slot % 4 == 3);
}

static CUstream handle(const struct run *r, int slot)
{
    switch (slot) {
    case 0:
    case 2:
        return NULL;
    case 1:
        return CU_STREAM_LEGACY;
    case 3:
        return CU_STREAM_PER_THREAD;
    default:
        return r->h->stream[slot];
    }
}

#define ON(slot, name, ...)      (by_ptsz(slot) ? name##_ptsz(__VA_ARGS__) : name(__VA_ARGS__))
#define DEFAULT(slot, name, ...) ((slot) == 2 ? name##_ptds(__VA_ARGS__) : name(__VA_ARGS__))

static void check(const struct run *r, CUresult error)
{
    if (r->result->error == CUDA_SUCCESS)
        r->result->error = error;
}

static void observe(const struct run *r, const void *bytes, size_t n)
{
    uint64_t hash = r->result->seen ? r->result->value : 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3u;
    r->result->seen = true;
    r->result->value = hash;
}

/* Bytes that an API does not define: other ones each time, as the stack has them. */
static void poison(void *bytes, size_t n)
{
    static __thread uint8_t next;
    memset(bytes, ++next | 1, n);
}

static CUdeviceptr address(const struct run *r, int buf, int off)
{
    return r->h->buf[buf].device + (CUdeviceptr)off * 8;
}

static double seconds(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static const struct {
    unsigned int grid[3], block[3], shared;
} shapes[FZ_SHAPES] = {
    {{1, 1, 1}, {1, 1, 1}, 0},  {{1, 1, 1}, {32, 1, 1}, 0},   {{4, 1, 1}, {32, 2, 1}, 0},
    {{2, 3, 1}, {8, 2, 2}, 64}, {{4, 1, 1}, {32, 2, 1}, 128}, {{16, 2, 2}, {64, 1, 1}, 1024},
};

/* ---- launches --------------------------------------------------------------------------- */

/* The arguments of one launch in the forms that an entry point may want. */
struct arguments {
    uint64_t x, y, k;
    uint32_t n;
    struct fz_odd odd;
    struct fz_big big;
    void *params[7];
    union {
        uint64_t words[4];
        struct fz_odd odd;
        struct {
            uint64_t x;
            struct fz_big big;
        } big;
    } packed;
    size_t packed_bytes;
    void *extra[5];
};

static void pack(struct arguments *g, const void *bytes, size_t n)
{
    memcpy(&g->packed, bytes, n);
    g->packed_bytes = n;
}

static void make_arguments(struct arguments *g, int kernel)
{
    switch (kernel) {
    case FZ_MIX:
        g->params[0] = &g->x;
        g->params[1] = &g->k;
        pack(g, (uint64_t[]){g->x, g->k}, 16);
        break;
    case FZ_JOIN:
        g->params[0] = &g->x;
        g->params[1] = &g->y;
        g->params[2] = &g->k;
        pack(g, (uint64_t[]){g->x, g->y, g->k}, 24);
        break;
    case FZ_SPAN:
        g->n = 8;
        g->params[0] = &g->x;
        g->params[1] = &g->n;
        g->params[2] = &g->k;
        g->packed.words[0] = g->x;
        memcpy(&g->packed.words[1], &g->n, sizeof g->n); /* and a gap of four bytes */
        g->packed.words[2] = g->k;
        g->packed_bytes = 24;
        break;
    case FZ_BIG:
        for (unsigned int i = 0; i < 512; i++)
            g->big.word[i] = g->k * (i + 1);
        g->params[0] = &g->x;
        g->params[1] = &g->big;
        g->packed.big.x = g->x;
        g->packed.big.big = g->big;
        g->packed_bytes = sizeof g->packed.big;
        break;
    case FZ_ODD:
        poison(&g->odd, sizeof g->odd);
        memset(g->odd.e, (int)(g->k & 0x7f), sizeof g->odd.e);
        g->odd.a = (uint8_t)g->k;
        g->odd.b = (uint16_t)(g->k * 3);
        g->odd.x = g->x;
        g->odd.c = (uint8_t)(g->k * 5);
        g->odd.d = (float)(g->k & 0xff);
        g->params[0] = &g->odd.a;
        g->params[1] = &g->odd.b;
        g->params[2] = &g->odd.x;
        g->params[3] = &g->odd.c;
        g->params[4] = &g->odd.d;
        g->params[5] = &g->odd.e;
        pack(g, &g->odd, offsetof(struct fz_odd, e) + sizeof g->odd.e);
        break;
    default:
        g->packed_bytes = 0;
        break;
    }
    g->extra[0] = CU_LAUNCH_PARAM_BUFFER_POINTER;
    g->extra[1] = &g->packed;
    g->extra[2] = CU_LAUNCH_PARAM_BUFFER_SIZE;
    g->extra[3] = &g->packed_bytes;
    g->extra[4] = CU_LAUNCH_PARAM_END;
}

static unsigned int make_attributes(int how, CUlaunchAttribute *list)
{
    poison(list, 2 * sizeof *list);
    switch (how) {
    case FZ_EX_PRIORITY:
        list[0].id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
        list[0].value.priority = -1;
        return 1;
    case FZ_EX_OVERLAP:
        list[0].id = CU_LAUNCH_ATTRIBUTE_IGNORE;
        list[1].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        list[1].value.programmaticStreamSerializationAllowed = 1;
        return 2;
    case FZ_EX_COOP:
        list[0].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
        list[0].value.cooperative = 1;
        return 1;
    case FZ_EX_CLUSTER:
        list[0].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        list[0].value.clusterDim.x = list[0].value.clusterDim.y = list[0].value.clusterDim.z = 1;
        return 1;
    case FZ_EX_DOMAIN:
        list[0].id = CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP;
        list[0].value.memSyncDomainMap.default_ = 0;
        list[0].value.memSyncDomainMap.remote = 1;
        list[1].id = CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW;
        list[1].value.accessPolicyWindow.base_ptr = NULL;
        list[1].value.accessPolicyWindow.num_bytes = 0;
        list[1].value.accessPolicyWindow.hitRatio = 0;
        list[1].value.accessPolicyWindow.hitProp = CU_ACCESS_PROPERTY_NORMAL;
        list[1].value.accessPolicyWindow.missProp = CU_ACCESS_PROPERTY_NORMAL;
        return 2;
    default:
        return 0;
    }
}

static void launch(const struct run *r, int slot, CUfunction f, int how, int shape,
                   struct arguments *g)
{
    const unsigned int *d = shapes[shape].grid, *b = shapes[shape].block;
    unsigned int shared = shapes[shape].shared;
    CUstream s = handle(r, slot);
    CUlaunchAttribute attributes[2];
    CUlaunchConfig config = {.gridDimX = d[0],
                             .gridDimY = d[1],
                             .gridDimZ = d[2],
                             .blockDimX = b[0],
                             .blockDimY = b[1],
                             .blockDimZ = b[2],
                             .sharedMemBytes = shared,
                             .hStream = s,
                             .attrs = attributes,
                             .numAttrs = make_attributes(how, attributes)};
    switch (how) {
    case FZ_PARAMS:
        check(r, ON(slot, cuLaunchKernel, f, d[0], d[1], d[2], b[0], b[1], b[2], shared, s,
                    g->params, NULL));
        break;
    case FZ_EXTRA:
        check(r, ON(slot, cuLaunchKernel, f, d[0], d[1], d[2], b[0], b[1], b[2], shared, s, NULL,
                    g->extra));
        break;
    case FZ_COOP:
        check(r, ON(slot, cuLaunchCooperativeKernel, f, d[0], d[1], d[2], b[0], b[1], b[2], shared,
                    s, g->params));
        break;
    default:
        check(r, ON(slot, cuLaunchKernelEx, &config, f, g->params, NULL));
        break;
    }
}

static void run_launch(const struct run *r)
{
    const int32_t *a = r->op->a; /* stream kernel module how shape buf off buf2 off2 k */
    struct arguments g;
    poison(&g, sizeof g);
    g.k = (uint64_t)a[9];
    if (a[1] != FZ_NONE)
        g.x = address(r, a[5], a[6]);
    if (a[1] == FZ_JOIN)
        g.y = address(r, a[7], a[8]);
    make_arguments(&g, a[1]);
    launch(r, a[0], r->h->module[a[2]].function[a[1]], a[3], a[4], &g);
    memset(&g, 0xee, sizeof g); /* the driver has copied them, and so must everybody else have */
}

static void run_bad(const struct run *r)
{
    const int32_t *a = r->op->a; /* stream what module */
    CUstream s = handle(r, a[0]);
    CUfunction f = r->h->module[a[2]].function[FZ_MIX];
    /* should a driver run it all the same, it must do no harm */
    uint64_t x = fz_limits.real ? (uintptr_t)r->h->scratch : 0, k = 0;
    void *params[] = {&x, &k}, *none[] = {CU_LAUNCH_PARAM_END};
    CUlaunchAttribute unknown = {.id = (CUlaunchAttributeID)99};
    CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, s, &unknown, 1};
    switch (a[1]) {
    case 0:
        check(r, ON(a[0], cuLaunchKernel, f, 0, 1, 1, 1, 1, 1, 0, s, params, NULL));
        break;
    case 1:
        check(r, ON(a[0], cuLaunchKernel, f, 1, 1, 1, 1025, 1, 1, 0, s, params, NULL));
        break;
    case 2:
        check(r, ON(a[0], cuLaunchKernel, NULL, 1, 1, 1, 1, 1, 1, 0, s, params, NULL));
        break;
    case 3:
        check(r, ON(a[0], cuLaunchKernel, f, 1, 1, 1, 1, 1, 1, 0, s, NULL, NULL));
        break;
    case 4:
        check(r, ON(a[0], cuLaunchKernel, f, 1, 1, 1, 1, 1, 1, 1 << 30, s, params, NULL));
        break;
    case 5:
        check(r, ON(a[0], cuLaunchKernel, f, 1, 1, 1, 1, 1, 1, 0, s, NULL, none));
        break;
    case 6:
        check(r, ON(a[0], cuLaunchKernelEx, &config, f, params, NULL));
        break;
    default:
        check(r, ON(a[0], cuMemsetD32Async, 4096, 1, 4, s));
        break;
    }
}

/* Memory is used twice and freed, the second time too late: what was known of the address no longer
 * holds. */
static void run_stale(const struct run *r)
{
    const int32_t *a = r->op->a; /* stream words how good */
    size_t n = (size_t)a[1];
    CUstream s = handle(r, a[0]);
    CUdeviceptr p = 0;
    check(r, cuMemAlloc_v2(&p, 2 * n * 8));
    for (int i = 0; i < 2; i++) {
        CUresult e = a[2] == 0   ? ON(a[0], cuMemsetD32Async, p, 5, n, s)
                     : a[2] == 1 ? ON(a[0], cuMemsetD2D8Async, p, 16, 5, n, 2, s)
                                 : ON(a[0], cuMemcpyDtoDAsync_v2, p, p + n * 8, n * 8, s);
        if (i == (a[3] ? 1 : 0))
            check(r, cuMemFree_v2(p));
        check(r, e);
    }
}

/* ---- memory ----------------------------------------------------------------------------- */

static void run_fill(const struct run *r)
{
    const int32_t *a = r->op->a; /* stream elem buf off width height value how */
    CUdeviceptr dst = r->h->buf[a[2]].device + (CUdeviceptr)a[3] * (unsigned int)a[1];
    size_t w = (size_t)a[4], h = (size_t)a[5], pitch = (w + 4) * (size_t)a[1];
    unsigned int v = (unsigned int)a[6];
    CUstream s = handle(r, a[0]);
    if (a[7])
        for (size_t y = 0; y < h; y++, dst += pitch) {
            if (a[1] == 1)
                check(r, DEFAULT(a[0], cuMemsetD8_v2, dst, (unsigned char)v, w));
            else if (a[1] == 2)
                check(r, DEFAULT(a[0], cuMemsetD16_v2, dst, (unsigned short)v, w));
            else
                check(r, DEFAULT(a[0], cuMemsetD32_v2, dst, v, w));
        }
    else if (h == 1 && a[1] == 1)
        check(r, ON(a[0], cuMemsetD8Async, dst, (unsigned char)v, w, s));
    else if (h == 1 && a[1] == 2)
        check(r, ON(a[0], cuMemsetD16Async, dst, (unsigned short)v, w, s));
    else if (h == 1)
        check(r, ON(a[0], cuMemsetD32Async, dst, v, w, s));
    else if (a[1] == 1)
        check(r, ON(a[0], cuMemsetD2D8Async, dst, pitch, (unsigned char)v, w, h, s));
    else if (a[1] == 2)
        check(r, ON(a[0], cuMemsetD2D16Async, dst, pitch, (unsigned short)v, w, h, s));
    else
        check(r, ON(a[0], cuMemsetD2D32Async, dst, pitch, v, w, h, s));
}

static void run_copy(const struct run *r)
{
    const int32_t *a = r->op->a; /* stream dst doff src soff words how */
    CUdeviceptr dst = address(r, a[1], a[2]), src = address(r, a[3], a[4]);
    size_t n = (size_t)a[5] * 8;
    CUstream s = handle(r, a[0]);
    void *any; /* what the memory types leave open */
    poison(&any, sizeof any);
    CUDA_MEMCPY2D flat = {.srcHost = any,
                          .srcArray = any,
                          .dstHost = any,
                          .dstArray = any,
                          .srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = src,
                          .srcPitch = n,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = dst,
                          .dstPitch = n,
                          .WidthInBytes = n,
                          .Height = 1};
    CUDA_MEMCPY3D deep = {.srcHost = any,
                          .srcArray = any,
                          .dstHost = any,
                          .dstArray = any,
                          .srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = src,
                          .srcPitch = n,
                          .srcHeight = 1,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = dst,
                          .dstPitch = n,
                          .dstHeight = 1,
                          .WidthInBytes = n,
                          .Height = 1,
                          .Depth = 1};
    switch (a[6]) {
    case FZ_DTOD:
        check(r, ON(a[0], cuMemcpyDtoDAsync_v2, dst, src, n, s));
        break;
    case FZ_ANY:
        check(r, ON(a[0], cuMemcpyAsync, dst, src, n, s));
        break;
    case FZ_2D:
        check(r, ON(a[0], cuMemcpy2DAsync_v2, &flat, s));
        break;
    case FZ_HTOD:
        check(r,
              ON(a[0], cuMemcpyHtoDAsync_v2, dst, (uint64_t *)r->h->buf[a[3]].host + a[4], n, s));
        break;
    case FZ_DTOH:
        check(r,
              ON(a[0], cuMemcpyDtoHAsync_v2, (uint64_t *)r->h->buf[a[1]].host + a[2], src, n, s));
        break;
    case FZ_DTOD_SYNC:
        check(r, DEFAULT(a[0], cuMemcpyDtoD_v2, dst, src, n));
        break;
    case FZ_3D:
        check(r, ON(a[0], cuMemcpy3DAsync_v2, &deep, s));
        break;
    default:
        check(r, ON(a[0], cuMemcpyPeerAsync, dst, r->h->ctx, src, r->h->ctx, n, s));
        break;
    }
}

static void run_upload(const struct run *r)
{
    const int32_t *a = r->op->a; /* stream buf off words k how */
    uint64_t words[FZ_MAX_WORDS];
    size_t n = (size_t)a[3] * 8;
    CUdeviceptr dst = address(r, a[1], a[2]);
    for (int i = 0; i < a[3]; i++)
        words[i] = (uint64_t)a[4] * 0x9e3779b97f4a7c15u + (uint64_t)i;
    if (a[5] == 0)
        check(r, ON(a[0], cuMemcpyHtoDAsync_v2, dst, words, n, handle(r, a[0])));
    else if (a[5] == 1)
        check(r, DEFAULT(a[0], cuMemcpyHtoD_v2, dst, words, n));
    else
        check(r, ON(a[0], cuMemcpyAsync, dst, (CUdeviceptr)(uintptr_t)words, n, handle(r, a[0])));
    memset(words, 0xee, sizeof words); /* the bytes were taken before the call returned */
}

static void run_read(const struct run *r)
{
    const int32_t *a = r->op->a; /* stream buf off words how */
    uint64_t words[FZ_MAX_WORDS];
    size_t n = (size_t)a[3] * 8;
    CUdeviceptr src = address(r, a[1], a[2]);
    memset(words, 0, n);
    if (a[4] == 0)
        check(r, ON(a[0], cuMemcpyDtoHAsync_v2, words, src, n, handle(r, a[0])));
    else if (a[4] == 1)
        check(r, DEFAULT(a[0], cuMemcpyDtoH_v2, words, src, n));
    else
        check(r, ON(a[0], cuMemcpyAsync, (CUdeviceptr)(uintptr_t)words, src, n, handle(r, a[0])));
    /* On a real driver the asynchronous forms may return earlier: the value is there after a sync.
     */
    if (a[4] != 1)
        check(r, ON(a[0], cuStreamSynchronize, handle(r, a[0])));
    observe(r, words, n);
}

static void run_alloc(const struct run *r)
{
    const int32_t *a = r->op->a; /* buf kind words */
    size_t n = (size_t)a[2] * 8;
    struct fz_handles *h = r->h;
    int kind = a[1] == FZ_MANAGED && !h->managed ? FZ_PINNED : a[1];
    h->buf[a[0]].kind = kind;
    h->buf[a[0]].words = (uint32_t)a[2];
    h->buf[a[0]].host = NULL;
    if (kind == FZ_DEVICE && fz_pooled(a[0])) {
        check(r, cuMemAllocAsync(&h->buf[a[0]].device, n, NULL));
    } else if (kind == FZ_DEVICE) {
        check(r, cuMemAlloc_v2(&h->buf[a[0]].device, n));
    } else if (kind == FZ_PINNED) {
        check(r, cuMemHostAlloc(&h->buf[a[0]].host, n, CU_MEMHOSTALLOC_DEVICEMAP));
        check(r, cuMemHostGetDevicePointer_v2(&h->buf[a[0]].device, h->buf[a[0]].host, 0));
    } else {
        check(r, cuMemAllocManaged(&h->buf[a[0]].device, n, CU_MEM_ATTACH_GLOBAL));
        h->buf[a[0]].host = (void *)(uintptr_t)h->buf[a[0]].device;
    }
    check(r, cuMemsetD8_v2(h->buf[a[0]].device, 0, n));
}

static void run_free(const struct run *r)
{
    const int32_t *a = r->op->a; /* buf how stream */
    if (r->h->buf[a[0]].kind == FZ_PINNED) {
        check(r, cuMemFreeHost(r->h->buf[a[0]].host));
    } else if (a[1]) {
        check(r, cuMemFreeAsync(r->h->buf[a[0]].device, handle(r, a[2])));
        check(r, cuStreamSynchronize(handle(r, a[2])));
    } else {
        check(r, cuMemFree_v2(r->h->buf[a[0]].device));
    }
    r->h->buf[a[0]].words = 0;
}

static void CUDA_CB on_host(void *data)
{
    uint64_t *x = *(uint64_t **)data;
    *x = *x * 31 + ((uint64_t *)data)[1];
    free(data);
}

static void CUDA_CB on_callback(CUstream stream, CUresult status, void *data)
{
    (void)stream;
    (void)status;
    on_host(data);
}

static void CUDA_CB on_host_again(void *data)
{
    uint64_t *x = data;
    *x = *x * 31 + 7;
}

static void run_host(const struct run *r)
{
    const int32_t *a = r->op->a; /* stream buf off k how */
    uint64_t *x = (uint64_t *)r->h->buf[a[1]].host + a[2];
    CUstreamCaptureStatus capturing = CU_STREAM_CAPTURE_STATUS_NONE;
    CUstream s = handle(r, a[0]);
    if (a[0] >= FZ_FIRST_STREAM)
        check(r, cuStreamIsCapturing(s, &capturing));
    if (capturing != CU_STREAM_CAPTURE_STATUS_NONE) { /* it may run any number of times */
        check(r, ON(a[0], cuLaunchHostFunc, s, on_host_again, x));
        return;
    }
    uint64_t *data = malloc(16);
    data[0] = (uint64_t)(uintptr_t)x;
    data[1] = (uint64_t)a[3];
    CUresult e = a[4] ? ON(a[0], cuStreamAddCallback, s, on_callback, data, 0)
                      : ON(a[0], cuLaunchHostFunc, s, on_host, data);
    if (e != CUDA_SUCCESS)
        free(data);
    check(r, e);
}

/* ---- waiting ---------------------------------------------------------------------------- */

static CUresult ask(const struct run *r, int what, int slot)
{
    return what == FZ_SYNC_STREAM ? ON(slot, cuStreamQuery, handle(r, slot))
                                  : cuEventQuery(r->h->event[slot]);
}

static void run_query(const struct run *r)
{
    CUresult e = ask(r, r->op->a[0], r->op->a[1]);
    check(r, e == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : e);
}

static void poll_until_done(const struct run *r, int what, int slot)
{
    double end = seconds() + fz_patience_s;
    CUresult e;
    while ((e = ask(r, what, slot)) == CUDA_ERROR_NOT_READY && seconds() < end)
        sched_yield();
    check(r, e);
}

static void run_sync(const struct run *r)
{
    int what = r->op->a[0], slot = r->op->a[1];
    if (what == FZ_SYNC_STREAM)
        check(r, ON(slot, cuStreamSynchronize, handle(r, slot)));
    else if (what == FZ_SYNC_CTX)
        check(r, cuCtxSynchronize());
    else if (what == FZ_SYNC_EVENT)
        check(r, cuEventSynchronize(r->h->event[slot]));
    else
        poll_until_done(r, what == FZ_POLL_STREAM ? FZ_SYNC_STREAM : FZ_SYNC_EVENT, slot);
}

/* Then what a launch has done is there when it returns. */
static bool launches_wait(void)
{
    const char *value = getenv("CUDA_LAUNCH_BLOCKING");
    return value && atoi(value);
}

static void run_flag(const struct run *r)
{
    const int32_t *a = r->op->a; /* stream module k */
    uint32_t *flag = r->h->flags + r->op->thread, value = (uint32_t)a[2];
    uint64_t x = (uint64_t)(uintptr_t)flag, k = value;
    struct arguments g = {.params = {&x, &k}};
    __atomic_store_n(flag, ~value, __ATOMIC_RELEASE);
    launch(r, a[0], r->h->module[a[1]].function[FZ_PUBLISH], FZ_PARAMS, 0, &g);
    if (r->result->error != CUDA_SUCCESS)
        return;
    double end = launches_wait() ? 0 : seconds() + fz_patience_s;
    while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) != value && seconds() < end)
        sched_yield();
    uint8_t seen = __atomic_load_n(flag, __ATOMIC_ACQUIRE) == value;
    observe(r, &seen, 1);
}

struct gate {
    const uint32_t *flag;
    uint32_t value;
};

static void CUDA_CB wait_at_gate(void *data)
{
    struct gate *gate = data;
    while (__atomic_load_n(gate->flag, __ATOMIC_ACQUIRE) < gate->value)
        sched_yield();
    free(gate);
}

static void CUDA_CB wait_at_gate_too(CUstream stream, CUresult status, void *data)
{
    (void)stream;
    (void)status;
    wait_at_gate(data);
}

/* The stream waits for a word that the host writes only when all has been launched: nobody may wait
 * for the stream in between. One gate in four is a host function that does. */
static void run_gate(const struct run *r)
{
    const int32_t *a = r->op->a; /* stream buf module n k */
    uint32_t *flag = r->h->flags + FZ_THREADS + r->op->thread;
    uint32_t value = __atomic_load_n(flag, __ATOMIC_ACQUIRE) + 1;
    if (a[4] % 4) {
        check(r, ON(a[0], cuStreamWaitValue32_v2, handle(r, a[0]), (CUdeviceptr)(uintptr_t)flag,
                    value, CU_STREAM_WAIT_VALUE_GEQ));
    } else {
        struct gate *gate = malloc(sizeof *gate);
        *gate = (struct gate){flag, value};
        check(r, a[4] % 8
                     ? ON(a[0], cuLaunchHostFunc, handle(r, a[0]), wait_at_gate, gate)
                     : ON(a[0], cuStreamAddCallback, handle(r, a[0]), wait_at_gate_too, gate, 0));
    }
    for (int i = 0; i < a[3]; i++) {
        struct arguments g;
        g.x = address(r, a[1], 0);
        g.k = (uint64_t)(a[4] + i);
        make_arguments(&g, FZ_MIX);
        launch(r, a[0], r->h->module[a[2]].function[FZ_MIX], FZ_PARAMS, 0, &g);
    }
    __atomic_store_n(flag, value, __ATOMIC_RELEASE);
}

/* As a gate, but that another thread ends, and only when calls that wait for nobody have returned:
 * whether or not the launches have filled the queue by then. */
struct jam {
    CUcontext ctx;
    CUstream stream;
    uint32_t *flag, value;
    _Atomic int left; /* launches until the other thread begins */
};

static void *end_jam(void *data)
{
    struct jam *jam = data;
    CUevent event;
    size_t free_bytes, total;
    bool ready = cuCtxSetCurrent(jam->ctx) == CUDA_SUCCESS &&
                 cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS;
    while (jam->left > 0)
        sched_yield();
    for (int i = 0; ready && i < 40; i++) {
        cuEventQuery(event);
        cuMemGetInfo_v2(&free_bytes, &total);
        cuStreamQuery(jam->stream);
    }
    if (ready)
        cuEventDestroy_v2(event);
    __atomic_store_n(jam->flag, jam->value, __ATOMIC_RELEASE);
    return NULL;
}

static void run_jam(const struct run *r)
{
    const int32_t *a = r->op->a; /* stream buf module n k */
    uint32_t *flag = r->h->flags + FZ_THREADS + r->op->thread;
    enum { BEFORE = 12 }; /* less than any queue holds */
    struct jam jam = {r->h->ctx, a[0] < FZ_FIRST_STREAM ? NULL : handle(r, a[0]), flag,
                      __atomic_load_n(flag, __ATOMIC_ACQUIRE) + 1, a[3] < BEFORE ? a[3] : BEFORE};
    pthread_t other;
    if (pthread_create(&other, NULL, end_jam, &jam))
        abort();
    check(r, ON(a[0], cuStreamWaitValue32_v2, handle(r, a[0]), (CUdeviceptr)(uintptr_t)flag,
                jam.value, CU_STREAM_WAIT_VALUE_GEQ));
    for (int i = 0; i < a[3]; i++) {
        struct arguments g;
        g.x = address(r, a[1], 0);
        g.k = (uint64_t)(a[4] + i);
        make_arguments(&g, FZ_MIX);
        launch(r, a[0], r->h->module[a[2]].function[FZ_MIX], FZ_PARAMS, 0, &g);
        jam.left--;
    }
    pthread_join(other, NULL);
}

/* ---- captures and graphs ---------------------------------------------------------------- */

static void node_params(const struct run *r, int module, int graph, uint64_t *x, uint64_t *k,
                        void **params, CUDA_KERNEL_NODE_PARAMS *p)
{
    *x = r->h->buf[r->h->graph[graph].buf].device;
    params[0] = x;
    params[1] = k;
    *p = (CUDA_KERNEL_NODE_PARAMS){.gridDimX = 1,
                                   .gridDimY = 1,
                                   .gridDimZ = 1,
                                   .blockDimX = 1,
                                   .blockDimY = 1,
                                   .blockDimZ = 1,
                                   .kernelParams = params};
    if (r->h->module[module].library) {
        p->kern = (CUkernel)r->h->module[module].function[FZ_MIX];
        p->ctx = r->h->ctx;
    } else {
        p->func = r->h->module[module].function[FZ_MIX];
    }
}

static CUgraph build_graph(const struct run *r, int graph, int module, unsigned int nodes, int k,
                           CUgraphNode *node)
{
    CUgraph g = NULL;
    check(r, cuGraphCreate(&g, 0));
    for (unsigned int i = 0; i < nodes; i++) {
        uint64_t x, argument = (uint64_t)k + i;
        void *params[2];
        CUDA_KERNEL_NODE_PARAMS p;
        node_params(r, module, graph, &x, &argument, params, &p);
        check(r, cuGraphAddKernelNode_v2(&node[i], g, i ? &node[i - 1] : NULL, i != 0, &p));
    }
    return g;
}

/* The event is the op's own: one that a capture has recorded is of no use outside. */
static void run_tie(const struct run *r, int from, int to)
{
    CUevent event = NULL;
    check(r, cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    check(r, ON(from, cuEventRecord, event, handle(r, from)));
    check(r, ON(to, cuStreamWaitEvent, handle(r, to), event, 0));
    check(r, cuEventDestroy_v2(event));
}

static void run_build(const struct run *r)
{
    const int32_t *a = r->op->a; /* graph module nodes buf k */
    r->h->graph[a[0]].buf = a[3];
    r->h->graph[a[0]].nodes = (unsigned int)a[2];
    r->h->graph[a[0]].graph =
        build_graph(r, a[0], a[1], (unsigned int)a[2], a[4], r->h->graph[a[0]].node);
}

static void run_gupdate(const struct run *r)
{
    const int32_t *a = r->op->a; /* graph module node k how */
    if (!a[4]) {
        uint64_t x, k = (uint64_t)a[3];
        void *params[2];
        CUDA_KERNEL_NODE_PARAMS p;
        node_params(r, a[1], a[0], &x, &k, params, &p);
        check(r, cuGraphExecKernelNodeSetParams_v2(r->h->graph[a[0]].exec,
                                                   r->h->graph[a[0]].node[a[2]], &p));
        return;
    }
    CUgraphNode node[FZ_MAX_NODES];
    CUgraphExecUpdateResultInfo info;
    CUgraph other = build_graph(r, a[0], a[1], r->h->graph[a[0]].nodes, a[3], node);
    check(r, cuGraphExecUpdate_v2(r->h->graph[a[0]].exec, other, &info));
    check(r, cuGraphDestroy(other));
}

static void run_ungraph(const struct run *r)
{
    int g = r->op->a[0];
    if (r->h->graph[g].exec)
        check(r, cuGraphExecDestroy(r->h->graph[g].exec));
    check(r, cuGraphDestroy(r->h->graph[g].graph));
    memset(&r->h->graph[g], 0, sizeof r->h->graph[g]);
}

/* ---- modules, streams, the rest --------------------------------------------------------- */

static void run_load(const struct run *r)
{
    int slot = r->op->a[0];
    if (r->op->a[1]) {
        check(r, cuLibraryLoadData(&r->h->module[slot].library, fz_image(), NULL, NULL, 0, NULL,
                                   NULL, 0));
        for (int i = 0; i < FZ_ALL_KERNELS; i++)
            check(r, cuLibraryGetKernel((CUkernel *)&r->h->module[slot].function[i],
                                        r->h->module[slot].library, fz_kernel_names[i]));
        return;
    }
    check(r, cuModuleLoadData(&r->h->module[slot].module, fz_image()));
    for (int i = 0; i < FZ_ALL_KERNELS; i++)
        check(r, cuModuleGetFunction(&r->h->module[slot].function[i], r->h->module[slot].module,
                                     fz_kernel_names[i]));
}

static void run_unload(const struct run *r)
{
    int slot = r->op->a[0];
    if (r->h->module[slot].library)
        check(r, cuLibraryUnload(r->h->module[slot].library));
    else
        check(r, cuModuleUnload(r->h->module[slot].module));
    memset(&r->h->module[slot], 0, sizeof r->h->module[slot]);
}

static void run_stream(const struct run *r)
{
    int slot = r->op->a[0], kind = r->op->a[1];
    unsigned int flags = kind & 1 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT;
    if (kind & 2)
        check(r, cuStreamCreateWithPriority(&r->h->stream[slot], flags, -2));
    else
        check(r, cuStreamCreate(&r->h->stream[slot], flags));
    unsigned long long id = 0;
    check(r, cuStreamGetId(r->h->stream[slot], &id));
    fz_note_stream(r->h, id, slot, -1);
}

static void run_misc(const struct run *r)
{
    CUfunction f = r->h->module[r->op->a[1]].function[FZ_MIX];
    bool is_kernel = r->h->module[r->op->a[1]].library != NULL;
    CUcontext ctx;
    CUdevice device;
    int value;
    size_t free_bytes, total;
    switch (r->op->a[0]) {
    case 0:
        check(r, cuCtxGetCurrent(&ctx));
        break;
    case 1:
        if (!is_kernel)
            check(r, cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 4096));
        break;
    case 2:
        check(r, cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_L1));
        break;
    case 3:
        if (!is_kernel)
            check(r, cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, f));
        break;
    case 4:
        check(r, cuCtxGetDevice(&device));
        break;
    case 5:
        check(r, cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 2048));
        break;
    case 6:
        if (!is_kernel)
            check(r, cuFuncSetCacheConfig(f, CU_FUNC_CACHE_PREFER_SHARED));
        break;
    case 7:
        check(r, cuMemGetInfo_v2(&free_bytes, &total));
        break;
    case 8:
        check(r, cuProfilerStop());
        break;
    case 9:
        check(r, cuCtxPushCurrent_v2(r->h->ctx));
        check(r, cuCtxPopCurrent_v2(&ctx));
        break;
    case 10:
        check(r, cuCtxSetCurrent(r->h->ctx));
        break;
    default:
        check(r, cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
        break;
    }
}

static void make_away(const struct run *r)
{
    CUdevice device;
    unsigned long long id;
    if (r->h->away.module)
        return;
    check(r, cuDeviceGet(&device, 1));
    check(r, cuDevicePrimaryCtxRetain(&r->h->away.ctx, device));
    check(r, cuCtxPushCurrent_v2(r->h->away.ctx));
    check(r, cuModuleLoadData(&r->h->away.module, fz_image()));
    check(r, cuModuleGetFunction(&r->h->away.mix, r->h->away.module, "fz_mix"));
    check(r, cuStreamCreate(&r->h->away.stream, CU_STREAM_DEFAULT));
    check(r, cuMemAlloc_v2(&r->h->away.x, 64));
    check(r, cuMemsetD8_v2(r->h->away.x, 0, 64));
    check(r, cuStreamGetId(r->h->away.stream, &id));
    fz_note_stream(r->h, id, -1, -1);
    check(r, cuStreamGetId(NULL, &id));
    fz_note_stream(r->h, id, -2, -1);
    check(r, cuCtxPopCurrent_v2(&r->h->away.ctx));
}

static void run_away(const struct run *r)
{
    const int32_t *a = r->op->a; /* how n k */
    make_away(r);
    if (a[0] != 2)
        check(r, cuCtxPushCurrent_v2(r->h->away.ctx));
    for (int i = 0; i < a[1]; i++) {
        uint64_t x = r->h->away.x, k = (uint64_t)(a[2] + i);
        check(r, cuLaunchKernel(r->h->away.mix, 1, 1, 1, 1, 1, 1, 0,
                                a[0] ? r->h->away.stream : NULL, (void *[]){&x, &k}, NULL));
    }
    if (a[0] != 2)
        check(r, cuCtxPopCurrent_v2(&r->h->away.ctx));
}

static void run_awayread(const struct run *r)
{
    uint64_t value = 0;
    check(r, cuCtxPushCurrent_v2(r->h->away.ctx));
    check(r, cuMemcpyDtoH_v2(&value, r->h->away.x, 8));
    check(r, cuCtxPopCurrent_v2(&r->h->away.ctx));
    observe(r, &value, 8);
}

static void run_awayend(const struct run *r)
{
    if (r->op->a[0])
        check(r, cuDevicePrimaryCtxReset_v2(1));
    check(r, cuDevicePrimaryCtxRelease_v2(1));
    memset(&r->h->away, 0, sizeof r->h->away);
}

static void run_retain(const struct run *r)
{
    const int32_t *a = r->op->a; /* device n */
    CUcontext ctx;
    for (int i = 0; i < a[1]; i++) {
        check(r, cuDevicePrimaryCtxRetain(&ctx, a[0]));
        check(r, cuDevicePrimaryCtxRelease_v2(a[0]));
    }
}

static void begin_green(const struct run *r, CUgreenCtx *green, CUstream *s)
{
    CUdevResource all, part;
    CUdevResourceDesc desc;
    unsigned int groups = 1;
    check(r, cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
    check(r, cuDevSmResourceSplitByCount(&part, &groups, &all, NULL, 0, 8));
    check(r, cuDevResourceGenerateDesc(&desc, &part, 1));
    check(r, cuGreenCtxCreate(green, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    check(r, cuGreenCtxStreamCreate(s, *green, CU_STREAM_NON_BLOCKING, 0));
}

/* It is current, but for a green one. */
static void begin_context(const struct run *r, int how, CUcontext *ctx, CUgreenCtx *green,
                          CUstream *s)
{
    if (how == 3) {
        begin_green(r, green, s);
        return;
    }
    if (how) {
        check(r, cuDevicePrimaryCtxRetain(ctx, 1));
        check(r, cuCtxPushCurrent_v2(*ctx));
    } else {
        check(r, cuCtxCreate_v4(ctx, NULL, 0, 0));
    }
    check(r, cuStreamCreate(s, CU_STREAM_NON_BLOCKING));
}

static void end_context(const struct run *r, int how, CUcontext ctx, CUgreenCtx green)
{
    if (how == 0)
        check(r, cuCtxDestroy_v2(ctx));
    if (how == 2)
        check(r, cuDevicePrimaryCtxReset_v2(1));
    if (how == 1 || how == 2) {
        check(r, cuDevicePrimaryCtxRelease_v2(1));
        check(r, cuCtxPopCurrent_v2(&ctx));
    }
    if (how == 3)
        check(r, cuGreenCtxDestroy(green));
    check(r, cuCtxSetCurrent(r->h->ctx));
}

static void run_context(const struct run *r)
{
    const int32_t *a = r->op->a; /* buf rounds n k how */
    CUcontext ctx = NULL;
    CUgreenCtx green = NULL;
    CUmodule module;
    CUfunction mix;
    CUstream s;
    unsigned long long id;
    /* whether the work that a context leaves behind is still done, no real driver promises */
    uint64_t x = address(r, a[0], 0), last = fz_limits.real ? (uintptr_t)r->h->scratch : x;
    begin_context(r, a[4], &ctx, &green, &s);
    check(r, cuModuleLoadData(&module, fz_image()));
    check(r, cuModuleGetFunction(&mix, module, "fz_mix"));
    check(r, cuStreamGetId(s, &id));
    fz_note_stream(r->h, id, -3, r->op->thread);
    for (int round = 0; round <= a[1]; round++) {
        for (int i = 0; i < (round == a[1] ? a[2] / 2 : a[2]); i++) {
            uint64_t k = (uint64_t)(a[3] + i);
            check(r, cuLaunchKernel(mix, 1, 1, 1, 1, 1, 1, 0, s,
                                    (void *[]){round == a[1] ? &last : &x, &k}, NULL));
        }
        if (round < a[1])
            check(r, cuStreamSynchronize(s));
    }
    end_context(r, a[4], ctx, green);
    if (a[4] == 3) /* the first device has it */
        check(r, cuModuleUnload(module));
}

/* A sequence that is known by then, in the middle of which a kernel writes where there is nothing.
 * When the launches behind it learn of it is open; whoever waits must. */
static void run_trap(const struct run *r)
{
    const int32_t *a = r->op->a; /* stream buf module n how */
    struct fz_result open = {0};
    const struct run rest = {r->h, r->op, &open};
    CUstream s = handle(r, a[0]);
    CUevent event = NULL;
    uint64_t word = 0;
    enum { ROUNDS = 5 };
    check(r, cuCtxSynchronize());
    check(r, cuEventCreate(&event, 0));
    for (int round = 0; round <= ROUNDS; round++) {
        for (int i = 0; i < a[3]; i++) {
            bool last = round == ROUNDS, traps = last && i == a[3] / 2;
            struct arguments g;
            g.x = traps ? 64 : address(r, a[1], 0);
            g.k = (uint64_t)i;
            make_arguments(&g, FZ_MIX);
            launch(last && i > a[3] / 2 ? &rest : r, a[0], r->h->module[a[2]].function[FZ_MIX],
                   FZ_PARAMS, 0, &g);
        }
        if (round < ROUNDS)
            check(r, ON(a[0], cuStreamSynchronize, s));
    }
    switch (a[4]) {
    case 0:
        check(r, ON(a[0], cuStreamSynchronize, s));
        break;
    case 1:
        check(r, cuCtxSynchronize());
        break;
    case 2:
        poll_until_done(r, FZ_SYNC_STREAM, a[0]);
        break;
    case 3:
        check(r, ON(a[0], cuMemcpyDtoHAsync_v2, &word, address(r, a[1], 0), 8, s));
        check(r, ON(a[0], cuStreamSynchronize, s));
        break;
    default:
        check(r, ON(a[0], cuEventRecord, event, s));
        check(r, cuEventSynchronize(event));
        break;
    }
    cuEventDestroy_v2(event);
}

void fz_run_op(struct fz_handles *h, const struct fz_op *op, struct fz_result *result)
{
    const struct run run = {h, op, result}, *r = &run;
    const int32_t *a = op->a;
    switch ((enum fz_kind)op->kind) {
    case FZ_stream:
        run_stream(r);
        break;
    case FZ_unstream:
        check(r, cuStreamDestroy_v2(h->stream[a[0]]));
        h->stream[a[0]] = NULL;
        break;
    case FZ_event:
        check(r, cuEventCreate(&h->event[a[0]], a[1] ? CU_EVENT_DISABLE_TIMING : 0));
        break;
    case FZ_unevent:
        check(r, cuEventDestroy_v2(h->event[a[0]]));
        h->event[a[0]] = NULL;
        break;
    case FZ_alloc:
        run_alloc(r);
        break;
    case FZ_free:
        run_free(r);
        break;
    case FZ_load:
        run_load(r);
        break;
    case FZ_unload:
        run_unload(r);
        break;
    case FZ_launch:
        run_launch(r);
        break;
    case FZ_bad:
        run_bad(r);
        break;
    case FZ_stale:
        run_stale(r);
        break;
    case FZ_fill:
        run_fill(r);
        break;
    case FZ_copy:
        run_copy(r);
        break;
    case FZ_upload:
        run_upload(r);
        break;
    case FZ_read:
        run_read(r);
        break;
    case FZ_peek:
        if (h->buf[a[0]].host)
            observe(r, h->buf[a[0]].host, h->buf[a[0]].words * 8);
        break;
    case FZ_poke:
        for (uint32_t i = 0; h->buf[a[0]].host && i < h->buf[a[0]].words; i++)
            ((uint64_t *)h->buf[a[0]].host)[i] = (uint64_t)a[1] + i;
        break;
    case FZ_sync:
        run_sync(r);
        break;
    case FZ_query:
        run_query(r);
        break;
    case FZ_record:
        check(r, a[2] ? ON(a[1], cuEventRecordWithFlags, h->event[a[0]], handle(r, a[1]), 0)
                      : ON(a[1], cuEventRecord, h->event[a[0]], handle(r, a[1])));
        break;
    case FZ_wait:
        check(r, ON(a[0], cuStreamWaitEvent, handle(r, a[0]), h->event[a[1]], 0));
        break;
    case FZ_host:
        run_host(r);
        break;
    case FZ_flag:
        run_flag(r);
        break;
    case FZ_gate:
        run_gate(r);
        break;
    case FZ_pause:
        usleep((unsigned int)a[0]);
        break;
    case FZ_begin:
        check(r, cuStreamBeginCapture_v2(h->stream[a[0]], (CUstreamCaptureMode)a[1]));
        break;
    case FZ_fork:
        run_tie(r, a[0], a[1]);
        break;
    case FZ_merge:
        run_tie(r, a[1], a[0]);
        break;
    case FZ_end:
        check(r, cuStreamEndCapture(h->stream[a[0]], &h->graph[a[1]].graph));
        break;
    case FZ_build:
        run_build(r);
        break;
    case FZ_inst:
        check(r, cuGraphInstantiateWithFlags(&h->graph[a[0]].exec, h->graph[a[0]].graph, 0));
        break;
    case FZ_glaunch:
        check(r, ON(a[1], cuGraphLaunch, h->graph[a[0]].exec, handle(r, a[1])));
        break;
    case FZ_gupdate:
        run_gupdate(r);
        break;
    case FZ_ungraph:
        run_ungraph(r);
        break;
    case FZ_misc:
        run_misc(r);
        break;
    case FZ_away:
        run_away(r);
        break;
    case FZ_awayread:
        run_awayread(r);
        break;
    case FZ_awayend:
        run_awayend(r);
        break;
    case FZ_context:
        run_context(r);
        break;
    case FZ_retain:
        run_retain(r);
        break;
    case FZ_jam:
        run_jam(r);
        break;
    case FZ_trap:
        run_trap(r);
        break;
    case FZ_barrier:
    case FZ_KINDS:
        break;
    }
}
