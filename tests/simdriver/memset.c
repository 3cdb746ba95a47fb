/* memset.c - memsets of 8, 16 and 32 bits, one- and two-dimensional. */
#include "sim.h"
#include <string.h>

static CUresult check(const struct sim_memset *m)
{
    size_t row = m->width * m->elem_size;
    if (m->elem_size != 1 && m->elem_size != 2 && m->elem_size != 4)
        return CUDA_ERROR_INVALID_VALUE;
    if (m->dst % m->elem_size || (m->height > 1 && m->pitch < row))
        return CUDA_ERROR_INVALID_VALUE;
    if (!row || !m->height)
        return CUDA_SUCCESS;
    return sim_mem_may(m->dst, (m->height - 1) * m->pitch + row, CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_op_from_memset_params(struct sim_op *op, const CUDA_MEMSET_NODE_PARAMS *p)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    *op = (struct sim_op){.kind = SIM_OP_MEMSET,
                          .fill = {.dst = p->dst,
                                   .pitch = p->pitch,
                                   .value = p->value,
                                   .elem_size = p->elementSize,
                                   .width = p->width,
                                   .height = p->height}};
    return check(&op->fill);
}

/* Asynchronous to the host in both forms: the target is device memory. Except where calls of no
 * stream are to wait. */
static CUresult fill(CUstream stream, bool ptsz, bool async, uintptr_t dst, size_t pitch,
                     unsigned int value, unsigned int elem_size, size_t width, size_t height)
{
    struct sim_stream *s;
    CUresult r = sim_stream_find(stream, ptsz, &s);
    if (r == CUDA_SUCCESS && !async && atomic_load(&sim_captures))
        r = sim_capture_unsafe();
    if (r != CUDA_SUCCESS)
        return r;
    struct sim_op op = {.kind = SIM_OP_MEMSET,
                        .fill = {.dst = dst,
                                 .pitch = pitch,
                                 .value = value,
                                 .elem_size = elem_size,
                                 .width = width,
                                 .height = height}};
    r = check(&op.fill);
    if (r != CUDA_SUCCESS || !width || !height)
        return r;
    return !async && sim_mem_syncs(dst) ? sim_submit_and_wait(s, &op) : sim_submit(s, &op, NULL);
}

SIM_API2(cuMemsetD8_v2, cuMemsetD8_v2_ptds, (CUdeviceptr dst, unsigned char value, size_t n),
         (dst, value, n))
{
    return fill(NULL, ptsz, false, dst, 0, value, 1, n, 1);
}

SIM_API2(cuMemsetD8Async, cuMemsetD8Async_ptsz,
         (CUdeviceptr dst, unsigned char value, size_t n, CUstream stream), (dst, value, n, stream))
{
    return fill(stream, ptsz, true, dst, 0, value, 1, n, 1);
}

SIM_API2(cuMemsetD2D8_v2, cuMemsetD2D8_v2_ptds,
         (CUdeviceptr dst, size_t pitch, unsigned char value, size_t width, size_t height),
         (dst, pitch, value, width, height))
{
    return fill(NULL, ptsz, false, dst, pitch, value, 1, width, height);
}

SIM_API2(cuMemsetD2D8Async, cuMemsetD2D8Async_ptsz,
         (CUdeviceptr dst, size_t pitch, unsigned char value, size_t width, size_t height,
          CUstream stream),
         (dst, pitch, value, width, height, stream))
{
    return fill(stream, ptsz, true, dst, pitch, value, 1, width, height);
}

SIM_API2(cuMemsetD16_v2, cuMemsetD16_v2_ptds, (CUdeviceptr dst, unsigned short value, size_t n),
         (dst, value, n))
{
    return fill(NULL, ptsz, false, dst, 0, value, 2, n, 1);
}

SIM_API2(cuMemsetD16Async, cuMemsetD16Async_ptsz,
         (CUdeviceptr dst, unsigned short value, size_t n, CUstream stream),
         (dst, value, n, stream))
{
    return fill(stream, ptsz, true, dst, 0, value, 2, n, 1);
}

SIM_API2(cuMemsetD2D16_v2, cuMemsetD2D16_v2_ptds,
         (CUdeviceptr dst, size_t pitch, unsigned short value, size_t width, size_t height),
         (dst, pitch, value, width, height))
{
    return fill(NULL, ptsz, false, dst, pitch, value, 2, width, height);
}

SIM_API2(cuMemsetD2D16Async, cuMemsetD2D16Async_ptsz,
         (CUdeviceptr dst, size_t pitch, unsigned short value, size_t width, size_t height,
          CUstream stream),
         (dst, pitch, value, width, height, stream))
{
    return fill(stream, ptsz, true, dst, pitch, value, 2, width, height);
}

SIM_API2(cuMemsetD32_v2, cuMemsetD32_v2_ptds, (CUdeviceptr dst, unsigned int value, size_t n),
         (dst, value, n))
{
    return fill(NULL, ptsz, false, dst, 0, value, 4, n, 1);
}

SIM_API2(cuMemsetD32Async, cuMemsetD32Async_ptsz,
         (CUdeviceptr dst, unsigned int value, size_t n, CUstream stream), (dst, value, n, stream))
{
    return fill(stream, ptsz, true, dst, 0, value, 4, n, 1);
}

SIM_API2(cuMemsetD2D32_v2, cuMemsetD2D32_v2_ptds,
         (CUdeviceptr dst, size_t pitch, unsigned int value, size_t width, size_t height),
         (dst, pitch, value, width, height))
{
    return fill(NULL, ptsz, false, dst, pitch, value, 4, width, height);
}

SIM_API2(cuMemsetD2D32Async, cuMemsetD2D32Async_ptsz,
         (CUdeviceptr dst, size_t pitch, unsigned int value, size_t width, size_t height,
          CUstream stream),
         (dst, pitch, value, width, height, stream))
{
    return fill(stream, ptsz, true, dst, pitch, value, 4, width, height);
}
