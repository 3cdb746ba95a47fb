/* hooks_capture.c - the program's stream captures, and nodes of its graphs that wait or free. */
#include "driver/own.h"
#include "preload/hook.h"

#define AG_BEGIN_HOOK_AS(function, name, is_ptsz, params, args)                                    \
    AG_HOOK function params                                                                        \
    {                                                                                              \
        bool hooked = ag_hooked();                                                                 \
        if (hooked)                                                                                \
            ag_core_capture_begins(AG_SYM_##name);                                                 \
        CUresult result = AG_CALL(name, AG_UNWRAP args);                                           \
        if (hooked)                                                                                \
            ag_core_capture_began(result == CUDA_SUCCESS ? ag_core_context_of(hStream, is_ptsz)    \
                                                         : NULL,                                   \
                                  hStream, result == CUDA_SUCCESS);                                \
        return result;                                                                             \
    }
#define AG_BEGIN_HOOK(name, is_ptsz, params, args)                                                 \
    AG_BEGIN_HOOK_AS(name, name, is_ptsz, params, args)
#define AG_BEGIN_NEWER_HOOK(name, is_ptsz, params, args)                                           \
    AG_NEWER(name, params);                                                                        \
    AG_BEGIN_HOOK_AS(ag_newer_##name, name, is_ptsz, params, args)

AG_BEGIN_HOOK(cuStreamBeginCapture, false, (CUstream hStream), (hStream))
AG_BEGIN_HOOK(cuStreamBeginCapture_ptsz, true, (CUstream hStream), (hStream))
AG_BEGIN_HOOK(cuStreamBeginCapture_v2, false, (CUstream hStream, CUstreamCaptureMode mode),
              (hStream, mode))
AG_BEGIN_HOOK(cuStreamBeginCapture_v2_ptsz, true, (CUstream hStream, CUstreamCaptureMode mode),
              (hStream, mode))

#define AG_TO_GRAPH                                                                                \
    (CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies,                            \
     const CUgraphEdgeData *dependencyData, size_t numDependencies, CUstreamCaptureMode mode)
#define AG_TO_GRAPH_ARGS (hStream, hGraph, dependencies, dependencyData, numDependencies, mode)
AG_BEGIN_HOOK(cuStreamBeginCaptureToGraph, false, AG_TO_GRAPH, AG_TO_GRAPH_ARGS)
AG_BEGIN_HOOK(cuStreamBeginCaptureToGraph_ptsz, true, AG_TO_GRAPH, AG_TO_GRAPH_ARGS)

#define AG_RECAPTURE                                                                               \
    (CUstream hStream, CUstreamCaptureMode mode, CUgraph hGraph, void *callbackFunc, void *userData)
#define AG_RECAPTURE_ARGS (hStream, mode, hGraph, callbackFunc, userData)
AG_BEGIN_NEWER_HOOK(cuStreamBeginRecaptureToGraph, false, AG_RECAPTURE, AG_RECAPTURE_ARGS)
AG_BEGIN_NEWER_HOOK(cuStreamBeginRecaptureToGraph_ptsz, true, AG_RECAPTURE, AG_RECAPTURE_ARGS)

#define AG_TO_CIG (CUstream hStream, void *streamCigCaptureParams)
AG_BEGIN_NEWER_HOOK(cuStreamBeginCaptureToCig, false, AG_TO_CIG, (hStream, streamCigCaptureParams))
AG_BEGIN_NEWER_HOOK(cuStreamBeginCaptureToCig_ptsz, true, AG_TO_CIG,
                    (hStream, streamCigCaptureParams))

/*
 * Some errors from ending a stream capture leave the capture active (another thread's, a stream
 * that never captured); others end it. So the hook asks the stream itself, before and after. If
 * the library has missed the beginning of the capture, its deferred ops belong in the graph, so it
 * submits them first.
 */
#define AG_END_HOOK(function, name, is_ptsz, status_of, params, args)                              \
    AG_HOOK function params                                                                        \
    {                                                                                              \
        CUstreamCaptureStatus before = CU_STREAM_CAPTURE_STATUS_NONE;                              \
        CUstreamCaptureStatus after = CU_STREAM_CAPTURE_STATUS_NONE;                               \
        bool hooked = ag_hooked();                                                                 \
        if (hooked)                                                                                \
            ag_core_stream_sync_point_quiet(hStream, is_ptsz, AG_SYM_##name, false);               \
        ag_probe_begins(); /* there may be no such stream */                                       \
        if (hooked && AG_CALL(status_of, hStream, &before) != CUDA_SUCCESS)                        \
            before = CU_STREAM_CAPTURE_STATUS_NONE;                                                \
        ag_probe_ends();                                                                           \
        CUresult result = AG_CALL(name, AG_UNWRAP args);                                           \
        if (hooked && before != CU_STREAM_CAPTURE_STATUS_NONE &&                                   \
            (AG_CALL(status_of, hStream, &after) != CUDA_SUCCESS ||                                \
             after == CU_STREAM_CAPTURE_STATUS_NONE))                                              \
            ag_core_capture_ended(ag_core_context_of(hStream, is_ptsz), hStream);                  \
        return result;                                                                             \
    }

#define AG_END (CUstream hStream, CUgraph * phGraph)
AG_END_HOOK(cuStreamEndCapture, cuStreamEndCapture, AG_LEGACY, cuStreamIsCapturing, AG_END,
            (hStream, phGraph))
AG_END_HOOK(cuStreamEndCapture_ptsz, cuStreamEndCapture_ptsz, AG_PTSZ, cuStreamIsCapturing_ptsz,
            AG_END, (hStream, phGraph))
AG_NEWER(cuStreamEndCaptureToCig, (CUstream hStream));
AG_END_HOOK(ag_newer_cuStreamEndCaptureToCig, cuStreamEndCaptureToCig, AG_LEGACY,
            cuStreamIsCapturing, (CUstream hStream), (hStream))
AG_NEWER(cuStreamEndCaptureToCig_ptsz, (CUstream hStream));
AG_END_HOOK(ag_newer_cuStreamEndCaptureToCig_ptsz, cuStreamEndCaptureToCig_ptsz, AG_PTSZ,
            cuStreamIsCapturing_ptsz, (CUstream hStream), (hStream))

/* Adds nodes that wait for a word or a semaphore, or may. Launches of the program's graphs may wait
 * from then on.
 */
#define AG_WAITING_NODE_HOOK(name, type)                                                           \
    AG_HOOK name(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,        \
                 size_t numDependencies, const type *nodeParams)                                   \
    {                                                                                              \
        if (ag_hooked())                                                                           \
            ag_core_graphs_wait();                                                                 \
        return AG_CALL(name, phGraphNode, hGraph, dependencies, numDependencies, nodeParams);      \
    }
AG_WAITING_NODE_HOOK(cuGraphAddBatchMemOpNode, CUDA_BATCH_MEM_OP_NODE_PARAMS)
AG_WAITING_NODE_HOOK(cuGraphAddHostNode, CUDA_HOST_NODE_PARAMS)
AG_WAITING_NODE_HOOK(cuGraphAddExternalSemaphoresWaitNode, CUDA_EXT_SEM_WAIT_NODE_PARAMS)

AG_HOOK cuGraphAddMemFreeNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                              const CUgraphNode *dependencies, size_t numDependencies,
                              CUdeviceptr dptr)
{
    if (ag_hooked())
        ag_core_graphs_free();
    return AG_CALL(cuGraphAddMemFreeNode, phGraphNode, hGraph, dependencies, numDependencies, dptr);
}

#define AG_ADD_NODE_HOOK(name, params, args)                                                       \
    AG_HOOK name params                                                                            \
    {                                                                                              \
        bool hooked = ag_hooked();                                                                 \
        CUresult result = AG_CALL(name, AG_UNWRAP args);                                           \
        if (hooked && result == CUDA_SUCCESS &&                                                    \
            (nodeParams->type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP ||                                \
             nodeParams->type == CU_GRAPH_NODE_TYPE_HOST ||                                        \
             nodeParams->type == CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT))                               \
            ag_core_graphs_wait();                                                                 \
        if (hooked && result == CUDA_SUCCESS && nodeParams->type == CU_GRAPH_NODE_TYPE_MEM_FREE)   \
            ag_core_graphs_free();                                                                 \
        return result;                                                                             \
    }
AG_ADD_NODE_HOOK(cuGraphAddNode,
                 (CUgraphNode * phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                  size_t numDependencies, CUgraphNodeParams *nodeParams),
                 (phGraphNode, hGraph, dependencies, numDependencies, nodeParams))
AG_ADD_NODE_HOOK(cuGraphAddNode_v2,
                 (CUgraphNode * phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                  const CUgraphEdgeData *dependencyData, size_t numDependencies,
                  CUgraphNodeParams *nodeParams),
                 (phGraphNode, hGraph, dependencies, dependencyData, numDependencies, nodeParams))
