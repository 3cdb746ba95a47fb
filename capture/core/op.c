/* op.c - see op.h. */
#include "capture/core/op.h"
#include "capture/graphs/ahead.h"
#include "capture/graphs/ownkernels.h"
#include "capture/tracking/fork.h"
#include "capture/tracking/per_thread.h"
#include <alloca.h>

__attribute__((hot)) void ag_op_record(uint8_t *recorded, const struct ag_signature *signature,
                                       const struct ag_incoming *in)
{
    if (__builtin_expect(in->kind == AG_OP_LAUNCH, 1)) {
        ag_record_launch(recorded, &signature->layout, in->launch);
    } else if (in->kind == AG_OP_MEMSET) {
        struct ag_recorded_fill fill = {in->fill->dst, in->fill->value};
        memcpy(recorded, &fill, sizeof(fill));
    } else if (in->kind == AG_OP_COPY) {
        const struct ag_read *read = in->copy->read;
        struct ag_recorded_copy copy = {read ? read->staging : in->copy->dst, in->copy->src};
        memcpy(recorded, &copy, sizeof(copy));
    } /* the fork keeps the event of a record or a wait (fork.h) */
}

/* ---- submitting from recorded arguments --------------------------------------------------- */

static CUresult submit_launch(CUstream stream, const struct ag_signature *signature,
                              const uint8_t *recorded)
{
    void **params = alloca((signature->layout.num_params + 1) * sizeof(*params));
    ag_signature_params(signature, recorded, params);
    struct ag_launch call = {.sym = signature->num_attrs ? AG_SYM_cuLaunchKernelEx
                                                         : AG_SYM_cuLaunchKernel,
                             .func = signature->func,
                             .stream = stream,
                             .params = params,
                             .attrs = signature->attrs,
                             .num_attrs = signature->num_attrs};
    memcpy(call.dims, signature->dims, sizeof(call.dims));
    ag_signature_grid(signature, recorded, call.dims);
    return ag_call_launch(&call);
}

static enum ag_sym fill_symbol(const struct ag_signature *signature)
{
    bool flat = signature->rows.height == 1;
    if (signature->elem_size == 1)
        return flat ? AG_SYM_cuMemsetD8Async : AG_SYM_cuMemsetD2D8Async;
    if (signature->elem_size == 2)
        return flat ? AG_SYM_cuMemsetD16Async : AG_SYM_cuMemsetD2D16Async;
    return flat ? AG_SYM_cuMemsetD32Async : AG_SYM_cuMemsetD2D32Async;
}

static CUresult submit_event(struct ag_stream *s, CUstream stream, bool is_record)
{
    ag_fork_catches_up(s); /* a record that is due may be what it waits for, or replaces */
    CUevent event = ag_fork_event(s);
    CUresult r = is_record ? AG_REAL(cuEventRecord)(event, stream)
                           : AG_REAL(cuStreamWaitEvent)(stream, event, 0);
    ag_fork_event_is_done(s);
    return r;
}

static CUresult submit_read(struct ag_stream *s, const struct ag_recorded_copy *copy, size_t bytes,
                            CUstream stream)
{
    CUresult r =
        AG_REAL(cuMemcpyDtoHAsync_v2)((void *)(uintptr_t)copy->dst, copy->src, bytes, stream);
    CUdeviceptr staging = atomic_load(&s->context->staging), at = copy->dst - staging;
    if (r == CUDA_SUCCESS || !staging || at / AG_STAGING_BYTES >= AG_STAGING_PLACES)
        return r;
    /* the program's own call comes next, and the program gets what that returns (read_back.c) */
    atomic_fetch_or(&s->context->staging_failed, (uint64_t)1 << at / AG_STAGING_BYTES);
    return CUDA_SUCCESS;
}

/* By the driver, as eagerly. Behind a launch of the copy kernel a programmatic launch could begin
 * too early (graphs/node.c). */
static CUresult submit_rows(const struct ag_rows *r, const struct ag_recorded_copy *copy,
                            size_t bytes, CUstream stream)
{
    bool deep = r->depth > 1; /* else slices mean nothing */
    CUDA_MEMCPY3D call = {.dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = copy->dst,
                          .dstPitch = r->dst_pitch,
                          .dstHeight = deep ? r->dst_slice / r->dst_pitch : r->height,
                          .srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = copy->src,
                          .srcPitch = r->src_pitch,
                          .srcHeight = deep ? r->src_slice / r->src_pitch : r->height,
                          .WidthInBytes = bytes,
                          .Height = r->height,
                          .Depth = r->depth};
    return AG_REAL(cuMemcpy3DAsync_v2)(&call, stream);
}

CUresult ag_op_submit(struct ag_stream *s, const struct ag_signature *signature,
                      const uint8_t *recorded)
{
    CUstream stream =
        signature->branch ? s->fork->streams[signature->branch]->handle : ag_stream_handle(s);
    if (!signature->branch && !ag_signature_is_event(signature))
        ag_ahead_calls(s);
    if (ag_stream_forks(s))
        ag_fork_call_begins(s, signature->branch);
    if (signature->kind == AG_OP_LAUNCH)
        return submit_launch(stream, signature, recorded);
    if (ag_signature_is_event(signature))
        return submit_event(s, stream, signature->kind == AG_OP_RECORD);
    if (signature->kind == AG_OP_MEMSET) {
        struct ag_recorded_fill fill;
        memcpy(&fill, recorded, sizeof(fill));
        struct ag_memset call = {.sym = fill_symbol(signature),
                                 .dst = fill.dst,
                                 .value = (unsigned int)fill.value,
                                 .pitch = signature->rows.dst_pitch,
                                 .elem_size = signature->elem_size,
                                 .width = signature->width,
                                 .height = signature->rows.height,
                                 .is_2d = signature->rows.height > 1,
                                 .stream = stream};
        return ag_call_fill(&call);
    }
    struct ag_recorded_copy copy;
    memcpy(&copy, recorded, sizeof(copy));
    if (signature->rows.depth)
        return submit_rows(&signature->rows, &copy, signature->width, stream);
    if (signature->reads)
        return submit_read(s, &copy, signature->width, stream);
    return AG_REAL(cuMemcpyDtoDAsync_v2)(copy.dst, copy.src, signature->width, stream);
}
