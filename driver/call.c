/* call.c - see call.h. */
#include "driver/call.h"
#include "driver/entries.h"

static bool is_2d(enum ag_sym sym)
{
    return sym == AG_SYM_cuMemsetD2D8Async || sym == AG_SYM_cuMemsetD2D8Async_ptsz ||
           sym == AG_SYM_cuMemsetD2D16Async || sym == AG_SYM_cuMemsetD2D16Async_ptsz ||
           sym == AG_SYM_cuMemsetD2D32Async || sym == AG_SYM_cuMemsetD2D32Async_ptsz;
}

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

CUresult ag_call_fill(const struct ag_memset *f)
{
    void *real = ag_real[f->sym];
    if (is_2d(f->sym)) {
        if (f->elem_size == 1)
            return ((AG_PFN_cuMemsetD2D8Async)real)(f->dst, f->pitch, (unsigned char)f->value,
                                                    f->width, f->height, f->stream);
        if (f->elem_size == 2)
            return ((AG_PFN_cuMemsetD2D16Async)real)(f->dst, f->pitch, (unsigned short)f->value,
                                                     f->width, f->height, f->stream);
        return ((AG_PFN_cuMemsetD2D32Async)real)(f->dst, f->pitch, f->value, f->width, f->height,
                                                 f->stream);
    }
    if (f->elem_size == 1)
        return ((AG_PFN_cuMemsetD8Async)real)(f->dst, (unsigned char)f->value, f->width, f->stream);
    if (f->elem_size == 2)
        return ((AG_PFN_cuMemsetD16Async)real)(f->dst, (unsigned short)f->value, f->width,
                                               f->stream);
    return ((AG_PFN_cuMemsetD32Async)real)(f->dst, f->value, f->width, f->stream);
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
    return ((AG_PFN_cuMemcpyDtoDAsync_v2)ag_real[c->sym])(c->dst, c->src, c->bytes, c->stream);
}
