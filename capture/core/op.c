/* op.c - see op.h. */
#include "capture/core/op.h"
#include "driver/call.h"
#include "capture/tracking/shape.h"
#include "capture/tracking/stream.h"
#include "driver/entries.h"
#include <alloca.h>
#include <string.h>

void ag_op_stage(uint8_t *staged, const struct ag_shape *shape, const struct ag_incoming *in)
{
    if (in->kind == AG_OP_LAUNCH) {
        ag_stage_launch(staged, shape, in->launch);
    } else if (in->kind == AG_OP_MEMSET) {
        struct ag_staged_fill fill = {in->fill->dst, in->fill->value};
        memcpy(staged, &fill, sizeof(fill));
    } else {
        struct ag_staged_copy copy = {in->copy->dst, in->copy->src};
        memcpy(staged, &copy, sizeof(copy));
    }
}

/* ---- again, from staged arguments ------------------------------------------------------- */

static CUresult submit_launch(const struct ag_stream *s, const struct ag_shape *shape,
                              const uint8_t *staged)
{
    void **params = alloca((shape->function->num_params + 1) * sizeof(*params));
    ag_shape_params(shape, staged, params);
    struct ag_launch call = {.sym =
                                 shape->num_attrs ? AG_SYM_cuLaunchKernelEx : AG_SYM_cuLaunchKernel,
                             .func = shape->func,
                             .stream = s->handle,
                             .params = params,
                             .attrs = shape->attrs,
                             .num_attrs = shape->num_attrs};
    memcpy(call.dims, shape->dims, sizeof(call.dims));
    return ag_call_launch(&call);
}

static enum ag_sym fill_symbol(const struct ag_shape *shape)
{
    bool flat = shape->height == 1;
    if (shape->elem_size == 1)
        return flat ? AG_SYM_cuMemsetD8Async : AG_SYM_cuMemsetD2D8Async;
    if (shape->elem_size == 2)
        return flat ? AG_SYM_cuMemsetD16Async : AG_SYM_cuMemsetD2D16Async;
    return flat ? AG_SYM_cuMemsetD32Async : AG_SYM_cuMemsetD2D32Async;
}

CUresult ag_op_submit(const struct ag_stream *s, const struct ag_shape *shape,
                      const uint8_t *staged)
{
    if (shape->kind == AG_OP_LAUNCH)
        return submit_launch(s, shape, staged);
    if (shape->kind == AG_OP_MEMSET) {
        struct ag_staged_fill fill;
        memcpy(&fill, staged, sizeof(fill));
        struct ag_memset call = {.sym = fill_symbol(shape),
                                 .dst = fill.dst,
                                 .value = (unsigned int)fill.value,
                                 .pitch = shape->pitch,
                                 .elem_size = shape->elem_size,
                                 .width = shape->width,
                                 .height = shape->height,
                                 .stream = s->handle};
        return ag_call_fill(&call);
    }
    struct ag_staged_copy copy;
    memcpy(&copy, staged, sizeof(copy));
    return AG_REAL(cuMemcpyDtoDAsync_v2)(copy.dst, copy.src, shape->width, s->handle);
}
