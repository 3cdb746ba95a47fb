/* op.c - see op.h. */
#include "capture/core/op.h"
#include "driver/call.h"
#include "capture/tracking/signature.h"
#include "capture/tracking/stream.h"
#include "driver/entries.h"
#include <alloca.h>
#include <string.h>

void ag_op_record(uint8_t *recorded, const struct ag_signature *signature,
                  const struct ag_incoming *in)
{
    if (in->kind == AG_OP_LAUNCH) {
        ag_record_launch(recorded, signature, in->launch);
    } else if (in->kind == AG_OP_MEMSET) {
        struct ag_recorded_fill fill = {in->fill->dst, in->fill->value};
        memcpy(recorded, &fill, sizeof(fill));
    } else {
        struct ag_recorded_copy copy = {in->copy->dst, in->copy->src};
        memcpy(recorded, &copy, sizeof(copy));
    }
}

/* ---- submitting from recorded arguments --------------------------------------------------- */

static CUresult submit_launch(const struct ag_stream *s, const struct ag_signature *signature,
                              const uint8_t *recorded)
{
    void **params = alloca((signature->function->num_params + 1) * sizeof(*params));
    ag_signature_params(signature, recorded, params);
    struct ag_launch call = {.sym = signature->num_attrs ? AG_SYM_cuLaunchKernelEx
                                                         : AG_SYM_cuLaunchKernel,
                             .func = signature->func,
                             .stream = s->handle,
                             .params = params,
                             .attrs = signature->attrs,
                             .num_attrs = signature->num_attrs};
    memcpy(call.dims, signature->dims, sizeof(call.dims));
    return ag_call_launch(&call);
}

static enum ag_sym fill_symbol(const struct ag_signature *signature)
{
    bool flat = signature->height == 1;
    if (signature->elem_size == 1)
        return flat ? AG_SYM_cuMemsetD8Async : AG_SYM_cuMemsetD2D8Async;
    if (signature->elem_size == 2)
        return flat ? AG_SYM_cuMemsetD16Async : AG_SYM_cuMemsetD2D16Async;
    return flat ? AG_SYM_cuMemsetD32Async : AG_SYM_cuMemsetD2D32Async;
}

CUresult ag_op_submit(const struct ag_stream *s, const struct ag_signature *signature,
                      const uint8_t *recorded)
{
    if (signature->kind == AG_OP_LAUNCH)
        return submit_launch(s, signature, recorded);
    if (signature->kind == AG_OP_MEMSET) {
        struct ag_recorded_fill fill;
        memcpy(&fill, recorded, sizeof(fill));
        struct ag_memset call = {.sym = fill_symbol(signature),
                                 .dst = fill.dst,
                                 .value = (unsigned int)fill.value,
                                 .pitch = signature->pitch,
                                 .elem_size = signature->elem_size,
                                 .width = signature->width,
                                 .height = signature->height,
                                 .stream = s->handle};
        return ag_call_fill(&call);
    }
    struct ag_recorded_copy copy;
    memcpy(&copy, recorded, sizeof(copy));
    return AG_REAL(cuMemcpyDtoDAsync_v2)(copy.dst, copy.src, signature->width, s->handle);
}
