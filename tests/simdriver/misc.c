/* misc.c - small families: profiler control, prefetch and advice, stream attributes. */
#include "sim.h"
#include <string.h>

SIM_API(cuProfilerStart, (void), ())
{
    return sim_current_quiet() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

SIM_API(cuProfilerStop, (void), ())
{
    return sim_current_quiet() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

static CUresult prefetch(CUdeviceptr address, size_t bytes, CUstream stream, bool ptsz)
{
    struct sim_stream *s;
    CUresult r = sim_stream_find(stream, ptsz, &s);
    if (r == CUDA_SUCCESS && !sim_mem_covers(address, bytes))
        r = CUDA_ERROR_INVALID_VALUE;
    struct sim_op op = {.kind = SIM_OP_EMPTY};
    return r == CUDA_SUCCESS ? sim_submit(s, &op, NULL) : r;
}

SIM_API2(cuMemPrefetchAsync, cuMemPrefetchAsync_ptsz,
         (CUdeviceptr address, size_t bytes, CUdevice device, CUstream stream),
         (address, bytes, device, stream))
{
    (void)device;
    return prefetch(address, bytes, stream, ptsz);
}

SIM_API2(cuMemPrefetchAsync_v2, cuMemPrefetchAsync_v2_ptsz,
         (CUdeviceptr address, size_t bytes, CUmemLocation location, unsigned int flags,
          CUstream stream),
         (address, bytes, location, flags, stream))
{
    (void)location;
    return flags ? CUDA_ERROR_INVALID_VALUE : prefetch(address, bytes, stream, ptsz);
}

SIM_API(cuMemAdvise, (CUdeviceptr address, size_t bytes, CUmem_advise advice, CUdevice device),
        (address, bytes, advice, device))
{
    (void)advice;
    (void)device;
    return sim_mem_covers(address, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM_API(cuMemAdvise_v2,
        (CUdeviceptr address, size_t bytes, CUmem_advise advice, CUmemLocation location),
        (address, bytes, advice, location))
{
    (void)advice;
    (void)location;
    return sim_mem_covers(address, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM_API2(cuStreamAttachMemAsync, cuStreamAttachMemAsync_ptsz,
         (CUstream stream, CUdeviceptr address, size_t bytes, unsigned int flags),
         (stream, address, bytes, flags))
{
    (void)flags;
    return prefetch(address, bytes, stream, ptsz);
}

SIM_API2(cuStreamGetAttribute, cuStreamGetAttribute_ptsz,
         (CUstream stream, CUstreamAttrID id, CUstreamAttrValue *value), (stream, id, value))
{
    struct sim_stream *s;
    CUresult r = sim_stream_find(stream, ptsz, &s);
    if (r == CUDA_SUCCESS && !value)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        return r;
    memset(value, 0, sizeof *value);
    if (id == CU_LAUNCH_ATTRIBUTE_PRIORITY)
        value->priority = s->priority;
    return CUDA_SUCCESS;
}

SIM_API2(cuStreamSetAttribute, cuStreamSetAttribute_ptsz,
         (CUstream stream, CUstreamAttrID id, const CUstreamAttrValue *value), (stream, id, value))
{
    struct sim_stream *s;
    (void)id;
    CUresult r = sim_stream_find(stream, ptsz, &s);
    return r == CUDA_SUCCESS && !value ? CUDA_ERROR_INVALID_VALUE : r;
}
