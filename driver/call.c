/* call.c - see call.h. */
#include "driver/call.h"
#include "driver/entries.h"

CUresult ag_call_launch(const struct ag_launch *l)
{
    const unsigned int *d = l->dims;
    if (l->sym == AG_SYM_cuLaunchKernel || l->sym == AG_SYM_cuLaunchKernel_ptsz) {
        AG_PFN_cuLaunchKernel real = (AG_PFN_cuLaunchKernel)ag_real[l->sym];
        return real(l->func, d[0], d[1], d[2], d[3], d[4], d[5], d[AG_DIM_SHARED], l->stream,
                    l->params, l->extra);
    }
    if (l->sym == AG_SYM_cuLaunchCooperativeKernel ||
        l->sym == AG_SYM_cuLaunchCooperativeKernel_ptsz) {
        AG_PFN_cuLaunchCooperativeKernel real = (AG_PFN_cuLaunchCooperativeKernel)ag_real[l->sym];
        return real(l->func, d[0], d[1], d[2], d[3], d[4], d[5], d[AG_DIM_SHARED], l->stream,
                    l->params);
    }
    CUlaunchConfig config = {.gridDimX = d[0],
                             .gridDimY = d[1],
                             .gridDimZ = d[2],
                             .blockDimX = d[3],
                             .blockDimY = d[4],
                             .blockDimZ = d[5],
                             .sharedMemBytes = d[AG_DIM_SHARED],
                             .hStream = l->stream,
                             .attrs = (CUlaunchAttribute *)l->attrs,
                             .numAttrs = l->num_attrs};
    return ((AG_PFN_cuLaunchKernelEx)ag_real[l->sym])(&config, l->func, l->params, l->extra);
}

/* The call of a fill of elements of so many bits. */
#define FILL(bits, type)                                                                           \
    (!f->is_2d    ? f->is_sync                                                                     \
                        ? ((AG_PFN_cuMemsetD##bits##_v2)real)(f->dst, (type)f->value, f->width)    \
                        : ((AG_PFN_cuMemsetD##bits##Async)real)(f->dst, (type)f->value, f->width,  \
                                                             f->stream)                         \
        : f->is_sync ? ((AG_PFN_cuMemsetD2D##bits##_v2)real)(f->dst, f->pitch, (type)f->value,     \
                                                          f->width, f->height)                  \
                  : ((AG_PFN_cuMemsetD2D##bits##Async)real)(f->dst, f->pitch, (type)f->value,      \
                                                            f->width, f->height, f->stream))

CUresult ag_call_fill(const struct ag_memset *f)
{
    void *real = ag_real[f->sym];
    if (f->elem_size == 1)
        return FILL(8, unsigned char);
    return f->elem_size == 2 ? FILL(16, unsigned short) : FILL(32, unsigned int);
}

static CUresult call_event(const struct ag_event_call *e)
{
    void *real = ag_real[e->sym];
    if (e->sym == AG_SYM_cuStreamWaitEvent || e->sym == AG_SYM_cuStreamWaitEvent_ptsz)
        return ((AG_PFN_cuStreamWaitEvent)real)(e->stream, e->event, e->flags);
    if (e->sym == AG_SYM_cuEventRecord || e->sym == AG_SYM_cuEventRecord_ptsz)
        return ((AG_PFN_cuEventRecord)real)(e->event, e->stream);
    return ((AG_PFN_cuEventRecordWithFlags)real)(e->event, e->stream, e->flags);
}

static CUresult call_read(const struct ag_copy *c)
{
    void *real = ag_real[c->sym], *host = (void *)(uintptr_t)c->dst;
    c->read->called = true;
    if (c->sym == AG_SYM_cuMemcpyDtoH_v2 || c->sym == AG_SYM_cuMemcpyDtoH_v2_ptds)
        return ((AG_PFN_cuMemcpyDtoH_v2)real)(host, c->src, c->bytes);
    return ((AG_PFN_cuMemcpyDtoHAsync_v2)real)(host, c->src, c->bytes, c->stream);
}

static CUresult call_of_rows(const struct ag_copy *c)
{
    void *real = ag_real[c->sym];
    if (c->sym == AG_SYM_cuMemcpy3D_v2 || c->sym == AG_SYM_cuMemcpy3D_v2_ptds)
        return ((AG_PFN_cuMemcpy3D_v2)real)(c->params);
    if (c->sym == AG_SYM_cuMemcpy3DAsync_v2 || c->sym == AG_SYM_cuMemcpy3DAsync_v2_ptsz)
        return ((AG_PFN_cuMemcpy3DAsync_v2)real)(c->params, c->stream);
    if (c->is_sync) /* also cuMemcpy2DUnaligned_v2 */
        return ((AG_PFN_cuMemcpy2D_v2)real)(c->params);
    return ((AG_PFN_cuMemcpy2DAsync_v2)real)(c->params, c->stream);
}

CUresult ag_call_make(const struct ag_incoming *in)
{
    switch (in->kind) {
    case AG_OP_RECORD:
    case AG_OP_WAIT:
        return call_event(in->event);
    case AG_OP_LAUNCH:
        return ag_call_launch(in->launch);
    case AG_OP_MEMSET:
        return ag_call_fill(in->fill);
    case AG_OP_COPY:
        break;
    }
    const struct ag_copy *c = in->copy;
    if (c->read)
        return call_read(c);
    if (c->params)
        return call_of_rows(c);
    if (c->is_sync)
        return ((AG_PFN_cuMemcpyDtoD_v2)ag_real[c->sym])(c->dst, c->src, c->bytes);
    return ((AG_PFN_cuMemcpyDtoDAsync_v2)ag_real[c->sym])(c->dst, c->src, c->bytes, c->stream);
}
