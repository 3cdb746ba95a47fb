/* streams.h - streams for unit tests that have a driver of their own. */
#pragma once

#include "capture/core/world.h"
#include "capture/graphs/budget.h"
#include "capture/tracking/stream.h"
#include "driver/call.h"

static inline CUresult CUDAAPI unit_priority(CUstream s, int *priority)
{
    (void)s;
    *priority = 0;
    return CUDA_SUCCESS;
}

static inline void unit_stream_comes(const struct ag_stream_kind *kind)
{
    (void)kind;
}

static inline void unit_stream_made(struct ag_stream *s)
{
    (void)s;
}

/* From here on ag_stream_get() makes streams, with what these functions answer. */
static inline void unit_streams_start(CUresult(CUDAAPI *get_flags)(CUstream, unsigned int *),
                                      CUresult(CUDAAPI *get_ctx)(CUstream, CUcontext *))
{
    ag_real[AG_SYM_cuStreamGetFlags] = (void *)get_flags;
    ag_real[AG_SYM_cuStreamGetCtx] = (void *)get_ctx;
    ag_real[AG_SYM_cuStreamGetPriority] = (void *)unit_priority;
    ag_streams_start(&ag_graphs_policy_hooks, &ag_driver_world, unit_stream_comes,
                     unit_stream_made);
}
