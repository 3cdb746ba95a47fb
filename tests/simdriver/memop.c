/* memop.c - stream memory operations: write a value, wait for a value, batches of both. */
#include "sim.h"

static CUresult one(CUstream stream, bool ptsz, uintptr_t address, uint64_t value,
                    unsigned int flags, bool wide, bool wait)
{
    struct sim_stream *s;
    CUresult r = sim_stream_find(stream, ptsz, &s);
    if (r != CUDA_SUCCESS)
        return r;
    if (address % (wide ? 8 : 4) || !sim_mem_covers(address, wide ? 8 : 4))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_op op = {
        .kind = SIM_OP_MEMOP,
        .memop = {.address = address, .value = value, .flags = flags, .wide = wide, .wait = wait}};
    return sim_submit(s, &op, NULL);
}

#define MEMOP(name, twin, type, wide, wait)                                                        \
    SIM_API2(name, twin, (CUstream stream, CUdeviceptr address, type value, unsigned int flags),   \
             (stream, address, value, flags))                                                      \
    {                                                                                              \
        return one(stream, ptsz, address, value, flags, wide, wait);                               \
    }
MEMOP(cuStreamWriteValue32, cuStreamWriteValue32_ptsz, cuuint32_t, false, false)
MEMOP(cuStreamWriteValue32_v2, cuStreamWriteValue32_v2_ptsz, cuuint32_t, false, false)
MEMOP(cuStreamWriteValue64, cuStreamWriteValue64_ptsz, cuuint64_t, true, false)
MEMOP(cuStreamWriteValue64_v2, cuStreamWriteValue64_v2_ptsz, cuuint64_t, true, false)
MEMOP(cuStreamWaitValue32, cuStreamWaitValue32_ptsz, cuuint32_t, false, true)
MEMOP(cuStreamWaitValue32_v2, cuStreamWaitValue32_v2_ptsz, cuuint32_t, false, true)
MEMOP(cuStreamWaitValue64, cuStreamWaitValue64_ptsz, cuuint64_t, true, true)
MEMOP(cuStreamWaitValue64_v2, cuStreamWaitValue64_v2_ptsz, cuuint64_t, true, true)

static CUresult batch(CUstream stream, bool ptsz, unsigned int count,
                      const CUstreamBatchMemOpParams *ops, unsigned int flags)
{
    if ((count && !ops) || count > 256 || flags)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned int i = 0; i < count; i++) {
        CUresult r = CUDA_SUCCESS;
        const CUstreamBatchMemOpParams *o = &ops[i];
        switch (o->operation) {
        case CU_STREAM_MEM_OP_WAIT_VALUE_32:
            r = one(stream, ptsz, o->waitValue.address, o->waitValue.value, o->waitValue.flags,
                    false, true);
            break;
        case CU_STREAM_MEM_OP_WAIT_VALUE_64:
            r = one(stream, ptsz, o->waitValue.address, o->waitValue.value64, o->waitValue.flags,
                    true, true);
            break;
        case CU_STREAM_MEM_OP_WRITE_VALUE_32:
            r = one(stream, ptsz, o->writeValue.address, o->writeValue.value, o->writeValue.flags,
                    false, false);
            break;
        case CU_STREAM_MEM_OP_WRITE_VALUE_64:
            r = one(stream, ptsz, o->writeValue.address, o->writeValue.value64, o->writeValue.flags,
                    true, false);
            break;
        case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
        case CU_STREAM_MEM_OP_BARRIER:
            break; /* everything here is sequentially consistent */
        default:
            return CUDA_ERROR_INVALID_VALUE;
        }
        if (r != CUDA_SUCCESS)
            return r;
    }
    return CUDA_SUCCESS;
}

SIM_API2(cuStreamBatchMemOp, cuStreamBatchMemOp_ptsz,
         (CUstream stream, unsigned int count, CUstreamBatchMemOpParams *ops, unsigned int flags),
         (stream, count, ops, flags))
{
    return batch(stream, ptsz, count, ops, flags);
}

SIM_API2(cuStreamBatchMemOp_v2, cuStreamBatchMemOp_v2_ptsz,
         (CUstream stream, unsigned int count, CUstreamBatchMemOpParams *ops, unsigned int flags),
         (stream, count, ops, flags))
{
    return batch(stream, ptsz, count, ops, flags);
}
