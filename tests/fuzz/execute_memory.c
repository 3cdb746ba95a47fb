/* execute_memory.c - ops: fills, copies, allocations, host functions. */
#include "tests/fuzz/execute_op.h"
#include "tests/fuzz/model.h"

void fz_run_fill(const struct fz_run *r)
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

void fz_run_copy(const struct fz_run *r)
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
    if (a[5] > 2) { /* every other word, side by side or not */
        flat.WidthInBytes = 8;
        flat.Height = ((size_t)a[5] + 1) / 2;
        flat.dstPitch = 16;
        flat.srcPitch = a[5] % 2 ? 8 : 16;
    }
    if (a[5] >= 4) { /* slices of two words, with one between, and one behind */
        deep.WidthInBytes = 8;
        deep.Height = deep.srcHeight = deep.dstHeight = 2;
        deep.Depth = (size_t)a[5] / 4;
        deep.srcPitch = deep.dstPitch = 16;
    }
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

void fz_run_upload(const struct fz_run *r)
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

void fz_run_read(const struct fz_run *r)
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

void fz_run_alloc(const struct fz_run *r)
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

void fz_run_free(const struct fz_run *r)
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

void fz_run_host(const struct fz_run *r)
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
