/*
 * copy.c - copies of one, two and three dimensions and memsets, and when each returns.
 *
 * An asynchronous copy from pageable memory takes the bytes before it returns, one to pageable
 * memory returns when it is done; everything else follows the stream. A synchronous copy runs on
 * the default stream, and waits unless both sides are device memory.
 */
#include "sim.h"
#include <string.h>

enum side { DEVICE, PINNED, PAGEABLE };

static enum side side_of(uintptr_t address)
{
    struct sim_allocation a;
    if (!sim_mem_find(address, &a))
        return PAGEABLE;
    return a.memory == SIM_MEM_DEVICE || a.memory == SIM_MEM_MANAGED ? DEVICE : PINNED;
}

static size_t extent(size_t width, size_t height, size_t depth, size_t pitch, size_t slice)
{
    return width && height && depth ? (depth - 1) * slice + (height - 1) * pitch + width : 0;
}

enum want { ANY, MUST_BE_DEVICE, MAY_BE_HOST };

static bool acceptable(uintptr_t address, size_t bytes, enum want want, CUmemAccess_flags access)
{
    struct sim_allocation a;
    if (!address)
        return false;
    if (!sim_mem_find(address, &a))
        return want != MUST_BE_DEVICE;
    return sim_mem_may(address, bytes, access); /* mapped host memory has device addresses too */
}

static CUresult submit_copy(struct sim_stream *s, struct sim_copy *c, bool async, enum want dst_is,
                            enum want src_is)
{
    size_t dst_bytes = extent(c->width, c->height, c->depth, c->dst_pitch, c->dst_slice);
    size_t src_bytes = extent(c->width, c->height, c->depth, c->src_pitch, c->src_slice);
    if (!dst_bytes)
        return CUDA_SUCCESS;
    if (!acceptable(c->dst, dst_bytes, dst_is, CU_MEM_ACCESS_FLAGS_PROT_READWRITE) ||
        !acceptable(c->src, src_bytes, src_is, CU_MEM_ACCESS_FLAGS_PROT_READ))
        return CUDA_ERROR_INVALID_VALUE;
    enum side dst = side_of(c->dst), src = side_of(c->src);
    c->host = dst == PAGEABLE || src == PAGEABLE;
    struct sim_op op = {.kind = SIM_OP_COPY, .copy = *c};
    bool capturing = atomic_load(&s->capture) != NULL;
    if (capturing && !async)
        return sim_capture_refuse(s);
    CUresult lost = (CUresult)atomic_load(&s->ctx->error);
    if (lost != CUDA_SUCCESS)
        return lost; /* before the source is read: allocating it may have failed with this */
    if (sim_settings.mode != SIM_NULL && !capturing && src == PAGEABLE && async) {
        struct sim_args *staged = sim_args_new(src_bytes);
        if (!staged)
            return CUDA_ERROR_OUT_OF_MEMORY;
        memcpy(staged->bytes, (void *)c->src, src_bytes);
        op.copy.staged = staged;
    }
    bool wait = !capturing && (async ? dst == PAGEABLE
                                     : dst != DEVICE || src != DEVICE || sim_mem_syncs(c->dst) ||
                                           sim_mem_syncs(c->src));
    return wait ? sim_submit_and_wait(s, &op) : sim_submit(s, &op, NULL);
}

/* A copy in the default stream between two devices is ordered behind the work of both, which one on
 * one stream would not be (CUDA Programming Guide, peer-to-peer memory copy). Here the host waits
 * for it, even if the call has a stream, and that is the default one. */
static void wait_for_devices(uintptr_t dst, uintptr_t src)
{
    struct sim_allocation to, from;
    if (atomic_load(&sim_captures) || !sim_mem_find(dst, &to) || !sim_mem_find(src, &from) ||
        to.memory != SIM_MEM_DEVICE || from.memory != SIM_MEM_DEVICE || to.device == from.device)
        return;
    sim_context_wait(to.ctx);
    sim_context_wait(from.ctx);
}

static CUresult linear(CUstream stream, bool ptsz, bool async, uintptr_t dst, uintptr_t src,
                       size_t bytes, enum want dst_is, enum want src_is)
{
    struct sim_stream *s;
    CUresult r = sim_running ? CUDA_ERROR_NOT_PERMITTED : sim_stream_find(stream, ptsz, &s);
    if (r == CUDA_SUCCESS && !async && atomic_load(&sim_captures))
        r = sim_capture_unsafe();
    if (r != CUDA_SUCCESS)
        return r;
    if (!async || s->legacy)
        wait_for_devices(dst, src);
    struct sim_copy c = {.dst = dst, .src = src, .width = bytes, .height = 1, .depth = 1};
    return submit_copy(s, &c, async, dst_is, src_is);
}

SIM_API2(cuMemcpy, cuMemcpy_ptds, (CUdeviceptr dst, CUdeviceptr src, size_t n), (dst, src, n))
{
    return linear(NULL, ptsz, false, dst, src, n, ANY, ANY);
}

SIM_API2(cuMemcpyAsync, cuMemcpyAsync_ptsz,
         (CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream), (dst, src, n, stream))
{
    return linear(stream, ptsz, true, dst, src, n, ANY, ANY);
}

SIM_API2(cuMemcpyHtoD_v2, cuMemcpyHtoD_v2_ptds, (CUdeviceptr dst, const void *src, size_t n),
         (dst, src, n))
{
    return linear(NULL, ptsz, false, dst, (uintptr_t)src, n, MUST_BE_DEVICE, MAY_BE_HOST);
}

SIM_API2(cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync_v2_ptsz,
         (CUdeviceptr dst, const void *src, size_t n, CUstream stream), (dst, src, n, stream))
{
    return linear(stream, ptsz, true, dst, (uintptr_t)src, n, MUST_BE_DEVICE, MAY_BE_HOST);
}

SIM_API2(cuMemcpyDtoH_v2, cuMemcpyDtoH_v2_ptds, (void *dst, CUdeviceptr src, size_t n),
         (dst, src, n))
{
    return linear(NULL, ptsz, false, (uintptr_t)dst, src, n, MAY_BE_HOST, MUST_BE_DEVICE);
}

SIM_API2(cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync_v2_ptsz,
         (void *dst, CUdeviceptr src, size_t n, CUstream stream), (dst, src, n, stream))
{
    return linear(stream, ptsz, true, (uintptr_t)dst, src, n, MAY_BE_HOST, MUST_BE_DEVICE);
}

SIM_API2(cuMemcpyDtoD_v2, cuMemcpyDtoD_v2_ptds, (CUdeviceptr dst, CUdeviceptr src, size_t n),
         (dst, src, n))
{
    return linear(NULL, ptsz, false, dst, src, n, MUST_BE_DEVICE, MUST_BE_DEVICE);
}

SIM_API2(cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync_v2_ptsz,
         (CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream), (dst, src, n, stream))
{
    return linear(stream, ptsz, true, dst, src, n, MUST_BE_DEVICE, MUST_BE_DEVICE);
}

SIM_API2(cuMemcpyPeer, cuMemcpyPeer_ptds,
         (CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t n),
         (dst, to, src, from, n))
{
    if (!sim_object_is(to, SIM_CONTEXT) || !sim_object_is(from, SIM_CONTEXT))
        return CUDA_ERROR_INVALID_CONTEXT;
    /* Ordered behind the work of both devices, which a copy on one stream would not be. */
    if (!atomic_load(&sim_captures)) {
        sim_context_wait((struct sim_context *)to);
        sim_context_wait((struct sim_context *)from);
    }
    return linear(NULL, ptsz, false, dst, src, n, MUST_BE_DEVICE, MUST_BE_DEVICE);
}

SIM_API2(cuMemcpyPeerAsync, cuMemcpyPeerAsync_ptsz,
         (CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t n,
          CUstream stream),
         (dst, to, src, from, n, stream))
{
    if (!sim_object_is(to, SIM_CONTEXT) || !sim_object_is(from, SIM_CONTEXT))
        return CUDA_ERROR_INVALID_CONTEXT;
    return linear(stream, ptsz, true, dst, src, n, MUST_BE_DEVICE, MUST_BE_DEVICE);
}

/* ---- two and three dimensions
 * ---------------------------------------------------------------------- */

static bool one_side(CUmemorytype type, const void *host, CUdeviceptr device, size_t x, size_t y,
                     size_t z, size_t *pitch, size_t height, size_t width, size_t rows,
                     uintptr_t *base, size_t *slice)
{
    if (type != CU_MEMORYTYPE_HOST && type != CU_MEMORYTYPE_DEVICE && type != CU_MEMORYTYPE_UNIFIED)
        return false; /* arrays are not simulated */
    if (!*pitch)
        *pitch = x + width;
    if (x + width > *pitch)
        return false;
    *slice = *pitch * (height ? height : y + rows);
    *base = (type == CU_MEMORYTYPE_HOST ? (uintptr_t)host : (uintptr_t)device) + z * *slice +
            y * *pitch + x;
    return true;
}

static CUresult copy_from_params(struct sim_copy *c, const CUDA_MEMCPY3D *p)
{
    memset(c, 0, sizeof *c);
    c->width = p->WidthInBytes;
    c->height = p->Height;
    c->depth = p->Depth;
    c->dst_pitch = p->dstPitch;
    c->src_pitch = p->srcPitch;
    if (!one_side(p->dstMemoryType, p->dstHost, p->dstDevice, p->dstXInBytes, p->dstY, p->dstZ,
                  &c->dst_pitch, p->dstHeight, c->width, c->height, &c->dst, &c->dst_slice) ||
        !one_side(p->srcMemoryType, p->srcHost, p->srcDevice, p->srcXInBytes, p->srcY, p->srcZ,
                  &c->src_pitch, p->srcHeight, c->width, c->height, &c->src, &c->src_slice))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult sim_op_from_copy_params(struct sim_op *op, const CUDA_MEMCPY3D *params)
{
    op->kind = SIM_OP_COPY;
    CUresult r = params ? copy_from_params(&op->copy, params) : CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        op->copy.host = side_of(op->copy.dst) == PAGEABLE || side_of(op->copy.src) == PAGEABLE;
    return r;
}

static CUresult copy_3d(CUstream stream, bool ptsz, bool async, const CUDA_MEMCPY3D *p)
{
    struct sim_stream *s;
    struct sim_copy c;
    CUresult r = sim_running ? CUDA_ERROR_NOT_PERMITTED : sim_stream_find(stream, ptsz, &s);
    if (r == CUDA_SUCCESS)
        r = p ? copy_from_params(&c, p) : CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS && !async && atomic_load(&sim_captures))
        r = sim_capture_unsafe();
    if (r != CUDA_SUCCESS)
        return r;
    if (!async || s->legacy)
        wait_for_devices(c.dst, c.src);
    return submit_copy(s, &c, async,
                       p->dstMemoryType == CU_MEMORYTYPE_DEVICE ? MUST_BE_DEVICE : ANY,
                       p->srcMemoryType == CU_MEMORYTYPE_DEVICE ? MUST_BE_DEVICE : ANY);
}

static CUresult copy_2d(CUstream stream, bool ptsz, bool async, const CUDA_MEMCPY2D *p)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_MEMCPY3D wide = {.srcXInBytes = p->srcXInBytes,
                          .srcY = p->srcY,
                          .srcMemoryType = p->srcMemoryType,
                          .srcHost = p->srcHost,
                          .srcDevice = p->srcDevice,
                          .srcPitch = p->srcPitch,
                          .dstXInBytes = p->dstXInBytes,
                          .dstY = p->dstY,
                          .dstMemoryType = p->dstMemoryType,
                          .dstHost = p->dstHost,
                          .dstDevice = p->dstDevice,
                          .dstPitch = p->dstPitch,
                          .WidthInBytes = p->WidthInBytes,
                          .Height = p->Height,
                          .Depth = 1};
    return copy_3d(stream, ptsz, async, &wide);
}

SIM_API2(cuMemcpy2D_v2, cuMemcpy2D_v2_ptds, (const CUDA_MEMCPY2D *p), (p))
{
    return copy_2d(NULL, ptsz, false, p);
}

SIM_API2(cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned_v2_ptds, (const CUDA_MEMCPY2D *p), (p))
{
    return copy_2d(NULL, ptsz, false, p);
}

SIM_API2(cuMemcpy2DAsync_v2, cuMemcpy2DAsync_v2_ptsz, (const CUDA_MEMCPY2D *p, CUstream stream),
         (p, stream))
{
    return copy_2d(stream, ptsz, true, p);
}

SIM_API2(cuMemcpy3D_v2, cuMemcpy3D_v2_ptds, (const CUDA_MEMCPY3D *p), (p))
{
    return copy_3d(NULL, ptsz, false, p);
}

SIM_API2(cuMemcpy3DAsync_v2, cuMemcpy3DAsync_v2_ptsz, (const CUDA_MEMCPY3D *p, CUstream stream),
         (p, stream))
{
    return copy_3d(stream, ptsz, true, p);
}
