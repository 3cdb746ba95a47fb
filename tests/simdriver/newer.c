/* newer.c - entry points that drivers after 13.0 have (newer.h). */
#include "sim.h"
#include "newer.h"

SIM_API2(cuStreamBeginRecaptureToGraph, cuStreamBeginRecaptureToGraph_ptsz,
         (CUstream stream, CUstreamCaptureMode mode, CUgraph graph, void *callback, void *data),
         (stream, mode, graph, callback, data))
{
    (void)callback;
    (void)data;
    if (graph && !sim_object_is(graph, SIM_GRAPH))
        return CUDA_ERROR_INVALID_VALUE;
    return sim_capture_again(stream, ptsz, mode, (struct sim_graph *)graph);
}

SIM_API(cuStreamBeginCaptureToCig, (CUstream stream, void *params), (stream, params))
{
    (void)params;
    return sim_capture_again(stream, false, CU_STREAM_CAPTURE_MODE_RELAXED, NULL);
}

SIM_API(cuStreamEndCaptureToCig, (CUstream stream), (stream))
{
    struct sim_stream *s;
    CUresult r = sim_stream_find(stream, false, &s);
    if (r != CUDA_SUCCESS)
        return r;
    if (!atomic_load(&s->capture))
        return CUDA_ERROR_ILLEGAL_STATE;
    sim_capture_drop(s);
    return CUDA_SUCCESS;
}

SIM_API(cuFutureBeginCapture, (CUstream stream), (stream))
{
    return sim_capture_again(stream, false, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, NULL);
}

SIM_API(cuFutureLaunch, (CUfunction function, CUstream stream, void **params),
        (function, stream, params))
{
    const unsigned int one[3] = {1, 1, 1};
    struct sim_stream *s;
    CUresult r = sim_stream_find(stream, false, &s);
    if (r != CUDA_SUCCESS)
        return r;
    struct sim_op op = {.kind = SIM_OP_KERNEL};
    r = sim_launch_prepare(&op.launch, function, one, one, 0, params, NULL);
    return r == CUDA_SUCCESS ? sim_submit(s, &op, NULL) : r;
}

SIM_API(cuFutureNothing, (void), ())
{
    return CUDA_SUCCESS;
}
