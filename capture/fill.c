/* fill.c - device memsets and device-to-device copies: boundaries, submitted by the driver at once.
 */
#include "capture/capture.h"

static bool is_2d(enum ag_sym sym)
{
    return sym == AG_SYM_cuMemsetD2D8Async || sym == AG_SYM_cuMemsetD2D8Async_ptsz ||
           sym == AG_SYM_cuMemsetD2D16Async || sym == AG_SYM_cuMemsetD2D16Async_ptsz ||
           sym == AG_SYM_cuMemsetD2D32Async || sym == AG_SYM_cuMemsetD2D32Async_ptsz;
}

CUresult ag_capture_memset(const struct ag_memset *f)
{
    CUresult pending = ag_capture_stream_boundary(f->stream, f->ptsz, f->sym, false), r;
    if (is_2d(f->sym)) {
        if (f->elem_size == 1)
            r = ((AG_PFN_cuMemsetD2D8Async)ag_real[f->sym])(
                f->dst, f->pitch, (unsigned char)f->value, f->width, f->height, f->stream);
        else if (f->elem_size == 2)
            r = ((AG_PFN_cuMemsetD2D16Async)ag_real[f->sym])(
                f->dst, f->pitch, (unsigned short)f->value, f->width, f->height, f->stream);
        else
            r = ((AG_PFN_cuMemsetD2D32Async)ag_real[f->sym])(f->dst, f->pitch, f->value, f->width,
                                                             f->height, f->stream);
    } else if (f->elem_size == 1) {
        r = ((AG_PFN_cuMemsetD8Async)ag_real[f->sym])(f->dst, (unsigned char)f->value, f->width,
                                                      f->stream);
    } else if (f->elem_size == 2) {
        r = ((AG_PFN_cuMemsetD16Async)ag_real[f->sym])(f->dst, (unsigned short)f->value, f->width,
                                                       f->stream);
    } else {
        r = ((AG_PFN_cuMemsetD32Async)ag_real[f->sym])(f->dst, f->value, f->width, f->stream);
    }
    return r == CUDA_SUCCESS ? pending : r;
}

CUresult ag_capture_copy(const struct ag_copy *c)
{
    CUresult pending = ag_capture_stream_boundary(c->stream, c->ptsz, c->sym, false);
    CUresult r =
        ((AG_PFN_cuMemcpyDtoDAsync_v2)ag_real[c->sym])(c->dst, c->src, c->bytes, c->stream);
    return r == CUDA_SUCCESS ? pending : r;
}
