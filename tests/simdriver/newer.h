/*
 * newer.h - entry points that a driver after 13.0 has, so that programs call what nobody knows yet.
 *
 * All are exported always; the getter answers them from SIMCUDA_VERSION=13030 on. What they do is
 * what their documentation says, roughly.
 */
#pragma once

#include <cuda.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a recapture answers that does not repeat the graph. */
#define CUSIM_ERROR_GRAPH_RECAPTURE_FAILURE ((CUresult)918)

/* A capture that records the nodes of `graph` again, in their order, with new parameters. Ends by
 * cuStreamEndCapture. `graph` NULL: as cuStreamBeginCapture. The callback is not called. */
CUresult CUDAAPI cuStreamBeginRecaptureToGraph(CUstream stream, CUstreamCaptureMode mode,
                                               CUgraph graph, void *callback, void *data);
CUresult CUDAAPI cuStreamBeginRecaptureToGraph_ptsz(CUstream stream, CUstreamCaptureMode mode,
                                                    CUgraph graph, void *callback, void *data);

/* A capture whose work goes to a graphics API: it does not run here, and nobody gets a graph. */
CUresult CUDAAPI cuStreamBeginCaptureToCig(CUstream stream, void *params);
CUresult CUDAAPI cuStreamEndCaptureToCig(CUstream stream);

/* No driver has these: one is cuStreamBeginCapture, one launches a kernel of one thread, one does
 * nothing. */
CUresult CUDAAPI cuFutureBeginCapture(CUstream stream);
CUresult CUDAAPI cuFutureLaunch(CUfunction function, CUstream stream, void **params);
CUresult CUDAAPI cuFutureNothing(void);

#ifdef __cplusplus
}
#endif
