/* hooks_memory.c - memsets and copies: those that are ops, and those that report errors of earlier
 * work. */
#include "preload/hook.h"
#include "preload/process.h"

/* `value` has the width that the driver expects. `of_stream`: NULL where the call takes none. */
#define AG_FILL_HOOK(name, is_ptsz, value_type, size, two_d, sync, pitch_, n, rows, of_stream,     \
                     params, args)                                                                 \
    AG_HOOK name params                                                                            \
    {                                                                                              \
        if (!ag_hooked())                                                                          \
            return AG_CALL(name, AG_UNWRAP args);                                                  \
        struct ag_memset fill = {                                                                  \
            .sym = AG_SYM_##name,                                                                  \
            .ptsz = is_ptsz,                                                                       \
            .is_2d = two_d,                                                                        \
            .is_sync = sync,                                                                       \
            .dst = dstDevice,                                                                      \
            .pitch = pitch_,                                                                       \
            .value = value,                                                                        \
            .elem_size = size,                                                                     \
            .width = n,                                                                            \
            .height = rows,                                                                        \
            .stream = ag_named(of_stream, is_ptsz),                                                \
        };                                                                                         \
        ag_process_op();                                                                           \
        return ag_core_memset(&fill);                                                              \
    }

#define AG_MEMSET_HOOK(name, is_ptsz, type, size)                                                  \
    AG_FILL_HOOK(name, is_ptsz, type, size, false, false, 0, N, 1, hStream,                        \
                 (CUdeviceptr dstDevice, type value, size_t N, CUstream hStream),                  \
                 (dstDevice, value, N, hStream))
#define AG_MEMSET_2D_HOOK(name, is_ptsz, type, size)                                               \
    AG_FILL_HOOK(name, is_ptsz, type, size, true, false, dstPitch, Width, Height, hStream,         \
                 (CUdeviceptr dstDevice, size_t dstPitch, type value, size_t Width, size_t Height, \
                  CUstream hStream),                                                               \
                 (dstDevice, dstPitch, value, Width, Height, hStream))
#define AG_SYNC_MEMSET_HOOK(name, is_ptsz, type, size)                                             \
    AG_FILL_HOOK(name, is_ptsz, type, size, false, true, 0, N, 1, NULL,                            \
                 (CUdeviceptr dstDevice, type value, size_t N), (dstDevice, value, N))
#define AG_SYNC_MEMSET_2D_HOOK(name, is_ptsz, type, size)                                          \
    AG_FILL_HOOK(                                                                                  \
        name, is_ptsz, type, size, true, true, dstPitch, Width, Height, NULL,                      \
        (CUdeviceptr dstDevice, size_t dstPitch, type value, size_t Width, size_t Height),         \
        (dstDevice, dstPitch, value, Width, Height))

AG_MEMSET_HOOK(cuMemsetD8Async, AG_LEGACY, unsigned char, 1)
AG_MEMSET_HOOK(cuMemsetD8Async_ptsz, AG_PTSZ, unsigned char, 1)
AG_MEMSET_2D_HOOK(cuMemsetD2D8Async, AG_LEGACY, unsigned char, 1)
AG_MEMSET_2D_HOOK(cuMemsetD2D8Async_ptsz, AG_PTSZ, unsigned char, 1)
AG_SYNC_MEMSET_HOOK(cuMemsetD8_v2, AG_LEGACY, unsigned char, 1)
AG_SYNC_MEMSET_HOOK(cuMemsetD8_v2_ptds, AG_PTSZ, unsigned char, 1)
AG_SYNC_MEMSET_2D_HOOK(cuMemsetD2D8_v2, AG_LEGACY, unsigned char, 1)
AG_SYNC_MEMSET_2D_HOOK(cuMemsetD2D8_v2_ptds, AG_PTSZ, unsigned char, 1)
AG_MEMSET_HOOK(cuMemsetD16Async, AG_LEGACY, unsigned short, 2)
AG_MEMSET_HOOK(cuMemsetD16Async_ptsz, AG_PTSZ, unsigned short, 2)
AG_MEMSET_2D_HOOK(cuMemsetD2D16Async, AG_LEGACY, unsigned short, 2)
AG_MEMSET_2D_HOOK(cuMemsetD2D16Async_ptsz, AG_PTSZ, unsigned short, 2)
AG_SYNC_MEMSET_HOOK(cuMemsetD16_v2, AG_LEGACY, unsigned short, 2)
AG_SYNC_MEMSET_HOOK(cuMemsetD16_v2_ptds, AG_PTSZ, unsigned short, 2)
AG_SYNC_MEMSET_2D_HOOK(cuMemsetD2D16_v2, AG_LEGACY, unsigned short, 2)
AG_SYNC_MEMSET_2D_HOOK(cuMemsetD2D16_v2_ptds, AG_PTSZ, unsigned short, 2)
AG_MEMSET_HOOK(cuMemsetD32Async, AG_LEGACY, unsigned int, 4)
AG_MEMSET_HOOK(cuMemsetD32Async_ptsz, AG_PTSZ, unsigned int, 4)
AG_MEMSET_2D_HOOK(cuMemsetD2D32Async, AG_LEGACY, unsigned int, 4)
AG_MEMSET_2D_HOOK(cuMemsetD2D32Async_ptsz, AG_PTSZ, unsigned int, 4)
AG_SYNC_MEMSET_HOOK(cuMemsetD32_v2, AG_LEGACY, unsigned int, 4)
AG_SYNC_MEMSET_HOOK(cuMemsetD32_v2_ptds, AG_PTSZ, unsigned int, 4)
AG_SYNC_MEMSET_2D_HOOK(cuMemsetD2D32_v2, AG_LEGACY, unsigned int, 4)
AG_SYNC_MEMSET_2D_HOOK(cuMemsetD2D32_v2_ptds, AG_PTSZ, unsigned int, 4)

#define AG_COPY_HOOK(name, is_ptsz, sync, of_stream, params, args)                                 \
    AG_HOOK name params                                                                            \
    {                                                                                              \
        if (!ag_hooked())                                                                          \
            return AG_CALL(name, AG_UNWRAP args);                                                  \
        struct ag_copy copy = {                                                                    \
            .sym = AG_SYM_##name,                                                                  \
            .ptsz = is_ptsz,                                                                       \
            .is_sync = sync,                                                                       \
            .dst = to,                                                                             \
            .src = from,                                                                           \
            .bytes = ByteCount,                                                                    \
            .stream = ag_named(of_stream, is_ptsz),                                                \
        };                                                                                         \
        ag_process_op();                                                                           \
        return ag_core_copy(&copy);                                                                \
    }

#define AG_ASYNC_COPY_HOOK(name, is_ptsz)                                                          \
    AG_COPY_HOOK(name, is_ptsz, false, hStream,                                                    \
                 (CUdeviceptr to, CUdeviceptr from, size_t ByteCount, CUstream hStream),           \
                 (to, from, ByteCount, hStream))
#define AG_SYNC_COPY_HOOK(name, is_ptsz)                                                           \
    AG_COPY_HOOK(name, is_ptsz, true, NULL, (CUdeviceptr to, CUdeviceptr from, size_t ByteCount),  \
                 (to, from, ByteCount))
AG_ASYNC_COPY_HOOK(cuMemcpyAsync, AG_LEGACY)
AG_ASYNC_COPY_HOOK(cuMemcpyAsync_ptsz, AG_PTSZ)
AG_ASYNC_COPY_HOOK(cuMemcpyDtoDAsync_v2, AG_LEGACY)
AG_ASYNC_COPY_HOOK(cuMemcpyDtoDAsync_v2_ptsz, AG_PTSZ)
AG_SYNC_COPY_HOOK(cuMemcpyDtoD_v2, AG_LEGACY)
AG_SYNC_COPY_HOOK(cuMemcpyDtoD_v2_ptds, AG_PTSZ)

/* Calls after which calls of no stream may wait for the GPU. What another thread finds of memory
 * before the driver has been told does not last. */
#define AG_SYNCS_HOOK(name, params, args)                                                          \
    AG_HOOK name params                                                                            \
    {                                                                                              \
        if (!ag_hooked())                                                                          \
            return AG_CALL(name, AG_UNWRAP args);                                                  \
        ag_core_barrier_quiet(AG_SYM_##name);                                                      \
        CUresult result = AG_CALL(name, AG_UNWRAP args);                                           \
        ag_core_invalidate_memory();                                                               \
        return ag_own_error(result);                                                               \
    }
AG_SYNCS_HOOK(cuPointerSetAttribute,
              (const void *value, CUpointer_attribute attribute, CUdeviceptr ptr),
              (value, attribute, ptr))
AG_SYNCS_HOOK(cuCtxSetFlags, (unsigned int flags), (flags))
AG_SYNCS_HOOK(cuDevicePrimaryCtxSetFlags_v2, (CUdevice dev, unsigned int flags), (dev, flags))

/* Copies of several rows. What is not between device memory, or has numbers that make no sense, is
 * left to the driver. */
static bool is_of_device(CUmemorytype type)
{
    return type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED;
}

/* Rows that lie side by side are one. */
static void join_rows(struct ag_copy *c)
{
    struct ag_rows *r = &c->rows;
    if (r->depth > 1 && r->dst_slice == r->height * r->dst_pitch &&
        r->src_slice == r->height * r->src_pitch) {
        r->height *= r->depth;
        r->depth = 1;
    }
    if (r->depth == 1 && r->dst_pitch == c->bytes && r->src_pitch == c->bytes) {
        c->bytes *= r->height;
        r->height = 1;
    }
    if (r->depth == 1 && r->height == 1)
        c->rows = (struct ag_rows){0};
}

/* One side of a copy. */
struct side {
    CUmemorytype type;
    size_t lod, x, y, z, pitch, height;
    CUdeviceptr device;
};

/* Sets where it begins. False: its numbers make no sense, or are beyond what the driver takes (a
 * pitch of INT32_MAX, CU_DEVICE_ATTRIBUTE_MAX_PITCH), or a product of them might overflow. */
static bool begins(const struct side *s, const CUDA_MEMCPY3D *p, CUdeviceptr *at)
{
    const size_t most = (size_t)1 << 20;
    bool fits = is_of_device(s->type) && !s->lod && s->x < s->pitch && s->y < s->height &&
                p->WidthInBytes <= s->pitch - s->x && p->Height <= s->height - s->y &&
                s->pitch <= INT32_MAX && s->pitch < most * most / s->height && s->z < most &&
                p->Depth < most;
    *at = s->device + (fits ? (s->z * s->height + s->y) * s->pitch + s->x : 0);
    return fits;
}

static bool rows_of_3d(const CUDA_MEMCPY3D *p, struct ag_copy *c)
{
    struct side dst = {p->dstMemoryType, p->dstLOD,   p->dstXInBytes, p->dstY,
                       p->dstZ,          p->dstPitch, p->dstHeight,   p->dstDevice};
    struct side src = {p->srcMemoryType, p->srcLOD,   p->srcXInBytes, p->srcY,
                       p->srcZ,          p->srcPitch, p->srcHeight,   p->srcDevice};
    if (!p->WidthInBytes || !p->Height || !p->Depth || p->reserved0 || p->reserved1 ||
        !begins(&dst, p, &c->dst) || !begins(&src, p, &c->src))
        return false;
    c->params = p;
    c->bytes = p->WidthInBytes;
    c->rows = (struct ag_rows){.height = p->Height,
                               .depth = p->Depth,
                               .dst_pitch = p->dstPitch,
                               .src_pitch = p->srcPitch,
                               .dst_slice = p->dstPitch * p->dstHeight,
                               .src_slice = p->srcPitch * p->srcHeight};
    join_rows(c);
    return true;
}

static bool rows_of_2d(const CUDA_MEMCPY2D *p, struct ag_copy *c)
{
    CUDA_MEMCPY3D deep = {.srcXInBytes = p->srcXInBytes,
                          .srcY = p->srcY,
                          .srcMemoryType = p->srcMemoryType,
                          .srcDevice = p->srcDevice,
                          .srcPitch = p->srcPitch,
                          .srcHeight = p->srcY + p->Height,
                          .dstXInBytes = p->dstXInBytes,
                          .dstY = p->dstY,
                          .dstMemoryType = p->dstMemoryType,
                          .dstDevice = p->dstDevice,
                          .dstPitch = p->dstPitch,
                          .dstHeight = p->dstY + p->Height,
                          .WidthInBytes = p->WidthInBytes,
                          .Height = p->Height,
                          .Depth = 1};
    bool makes_sense = rows_of_3d(&deep, c);
    c->params = p;
    return makes_sense;
}

#define AG_ROWS_HOOK(name, is_ptsz, sync, of, of_stream, sync_point, first_error, params)          \
    AG_HOOK name params                                                                            \
    {                                                                                              \
        CUresult pending = CUDA_SUCCESS;                                                           \
        if (ag_hooked()) {                                                                         \
            struct ag_copy copy = {.sym = AG_SYM_##name,                                           \
                                   .ptsz = is_ptsz,                                                \
                                   .is_sync = sync,                                                \
                                   .stream = ag_named(of_stream, is_ptsz)};                        \
            if (pCopy && rows_of_##of(pCopy, &copy)) {                                             \
                ag_process_op();                                                                   \
                return ag_core_copy(&copy);                                                        \
            }                                                                                      \
            pending = sync_point;                                                                  \
        }                                                                                          \
        return first_error;                                                                        \
    }
#define AG_ASYNC_ROWS_HOOK(name, is_ptsz, of, type)                                                \
    AG_ROWS_HOOK(name, is_ptsz, false, of, hStream,                                                \
                 ag_core_stream_sync_point(hStream, is_ptsz, AG_SYM_##name, AG_BLOCKS),            \
                 ag_first_error_of(hStream, is_ptsz, AG_CALL(name, pCopy, hStream), pending),      \
                 (const type *pCopy, CUstream hStream))
#define AG_SYNC_ROWS_HOOK(name, is_ptsz, of, type)                                                 \
    AG_ROWS_HOOK(name, is_ptsz, true, of, NULL, ag_core_barrier(AG_SYM_##name),                    \
                 ag_first_error(AG_CALL(name, pCopy), pending), (const type *pCopy))
AG_SYNC_ROWS_HOOK(cuMemcpy2D_v2, AG_LEGACY, 2d, CUDA_MEMCPY2D)
AG_SYNC_ROWS_HOOK(cuMemcpy2D_v2_ptds, AG_PTSZ, 2d, CUDA_MEMCPY2D)
AG_SYNC_ROWS_HOOK(cuMemcpy2DUnaligned_v2, AG_LEGACY, 2d, CUDA_MEMCPY2D)
AG_SYNC_ROWS_HOOK(cuMemcpy2DUnaligned_v2_ptds, AG_PTSZ, 2d, CUDA_MEMCPY2D)
AG_SYNC_ROWS_HOOK(cuMemcpy3D_v2, AG_LEGACY, 3d, CUDA_MEMCPY3D)
AG_SYNC_ROWS_HOOK(cuMemcpy3D_v2_ptds, AG_PTSZ, 3d, CUDA_MEMCPY3D)
AG_ASYNC_ROWS_HOOK(cuMemcpy2DAsync_v2, AG_LEGACY, 2d, CUDA_MEMCPY2D)
AG_ASYNC_ROWS_HOOK(cuMemcpy2DAsync_v2_ptsz, AG_PTSZ, 2d, CUDA_MEMCPY2D)
AG_ASYNC_ROWS_HOOK(cuMemcpy3DAsync_v2, AG_LEGACY, 3d, CUDA_MEMCPY3D)
AG_ASYNC_ROWS_HOOK(cuMemcpy3DAsync_v2_ptsz, AG_PTSZ, 3d, CUDA_MEMCPY3D)

/* Copies from and to the host may be synchronous (pageable memory), so the host may wait in them.
 */
#define AG_FROM_DEVICE (void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream)
#define AG_TO_DEVICE                                                                               \
    (CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount, CUstream hStream)
/* A small one of these may be the end of a graph. */
#define AG_READ_HOOK(name, is_ptsz, is_sync, of_stream, sync_point, first_error, params)           \
    AG_HOOK name params                                                                            \
    {                                                                                              \
        CUresult pending = CUDA_SUCCESS;                                                           \
        if (ag_hooked()) {                                                                         \
            struct ag_copy copy = {.sym = AG_SYM_##name,                                           \
                                   .ptsz = is_ptsz,                                                \
                                   .dst = (CUdeviceptr)(uintptr_t)dstHost,                         \
                                   .src = srcDevice,                                               \
                                   .bytes = ByteCount,                                             \
                                   .stream = ag_named(of_stream, is_ptsz)};                        \
            if (ag_core_read_back(&copy, is_sync, &pending))                                       \
                return pending;                                                                    \
            pending = sync_point;                                                                  \
        }                                                                                          \
        return first_error;                                                                        \
    }
#define AG_ASYNC_READ_HOOK(name, is_ptsz)                                                          \
    AG_READ_HOOK(name, is_ptsz, false, hStream,                                                    \
                 ag_core_stream_sync_point(hStream, is_ptsz, AG_SYM_##name, AG_BLOCKS),            \
                 ag_first_error_of(hStream, is_ptsz,                                               \
                                   AG_CALL(name, dstHost, srcDevice, ByteCount, hStream),          \
                                   pending),                                                       \
                 AG_FROM_DEVICE)
AG_ASYNC_READ_HOOK(cuMemcpyDtoHAsync_v2, AG_LEGACY)
AG_ASYNC_READ_HOOK(cuMemcpyDtoHAsync_v2_ptsz, AG_PTSZ)
AG_STREAM_HOOK(cuMemcpyHtoDAsync_v2, hStream, AG_LEGACY, AG_BLOCKS, AG_TO_DEVICE,
               (dstDevice, srcHost, ByteCount, hStream))
AG_STREAM_HOOK(cuMemcpyHtoDAsync_v2_ptsz, hStream, AG_PTSZ, AG_BLOCKS, AG_TO_DEVICE,
               (dstDevice, srcHost, ByteCount, hStream))

#define AG_SYNC_FROM_DEVICE (void *dstHost, CUdeviceptr srcDevice, size_t ByteCount)
#define AG_SYNC_TO_DEVICE   (CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount)
#define AG_SYNC_READ_HOOK(name, is_ptsz)                                                           \
    AG_READ_HOOK(name, is_ptsz, true, NULL, ag_core_barrier(AG_SYM_##name),                        \
                 ag_first_error(AG_CALL(name, dstHost, srcDevice, ByteCount), pending),            \
                 AG_SYNC_FROM_DEVICE)
AG_SYNC_READ_HOOK(cuMemcpyDtoH_v2, AG_LEGACY)
AG_SYNC_READ_HOOK(cuMemcpyDtoH_v2_ptds, AG_PTSZ)
AG_BARRIER_HOOK(cuMemcpyHtoD_v2, AG_SYNC_TO_DEVICE, (dstDevice, srcHost, ByteCount))
AG_BARRIER_HOOK(cuMemcpyHtoD_v2_ptds, AG_SYNC_TO_DEVICE, (dstDevice, srcHost, ByteCount))
/* Between any two places: it is no op, as it may well be one from or to the host. */
#define AG_ANY_COPY_HOOK(name)                                                                     \
    AG_HOOK name(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount)                               \
    {                                                                                              \
        CUresult pending = CUDA_SUCCESS;                                                           \
        if (ag_hooked())                                                                           \
            pending = ag_core_barrier_of_copy(AG_SYM_##name, dst, src);                            \
        return ag_first_error(AG_CALL(name, dst, src, ByteCount), pending);                        \
    }
AG_ANY_COPY_HOOK(cuMemcpy)
AG_ANY_COPY_HOOK(cuMemcpy_ptds)
