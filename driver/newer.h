/*
 * newer.h - entry points of drivers that are newer than the toolkit from which the table is
 * generated.
 *
 * Only gen_entries.py reads this file, together with cuda.h. If cuda.h declares the same entry
 * point, its declaration wins. Names and arguments: CUDA Driver API documentation, 13.1 to 13.3.
 * Types that older headers lack are written as the types that they are passed as.
 */

/* 13.1 and 13.2 */
CUresult cuCoredumpDeregisterCompleteCallback(void *callback);
CUresult cuCoredumpDeregisterStartCallback(void *callback);
CUresult cuCoredumpRegisterCompleteCallback(void *callback, void *userData, void **callbackOut);
CUresult cuCoredumpRegisterStartCallback(void *callback, void *userData, void **callbackOut);
CUresult cuDevSmResourceSplit(void *result, unsigned int nbGroups, const void *input,
                              void *remainder, unsigned int flags, void *groupParams);
CUresult cuFuncGetParamCount(CUfunction func, size_t *paramCount);
CUresult cuGraphExecGetId(CUgraphExec hGraphExec, unsigned int *graphId);
CUresult cuGraphGetId(CUgraph hGraph, unsigned int *graphId);
CUresult cuGraphNodeGetContainingGraph(CUgraphNode hNode, CUgraph *phGraph);
CUresult cuGraphNodeGetLocalId(CUgraphNode hNode, unsigned int *nodeId);
CUresult cuGraphNodeGetParams(CUgraphNode hNode, void *nodeParams);
CUresult cuGraphNodeGetToolsId(CUgraphNode hNode, unsigned long long *toolsNodeId);
CUresult cuKernelGetParamCount(CUkernel kernel, size_t *paramCount);
CUresult cuLaunchHostFunc_v2(CUstream hStream, CUhostFn fn, void *userData, unsigned int syncMode);
CUresult cuLaunchHostFunc_v2_ptsz(CUstream hStream, CUhostFn fn, void *userData,
                                  unsigned int syncMode);
CUresult cuMemcpy3DWithAttributesAsync(void *op, unsigned long long flags, CUstream hStream);
CUresult cuMemcpy3DWithAttributesAsync_ptsz(void *op, unsigned long long flags, CUstream hStream);
CUresult cuMemcpyWithAttributesAsync(CUdeviceptr dst, CUdeviceptr src, size_t size, void *attr,
                                     CUstream hStream);
CUresult cuMemcpyWithAttributesAsync_ptsz(CUdeviceptr dst, CUdeviceptr src, size_t size, void *attr,
                                          CUstream hStream);
CUresult cuMulticastBindAddr_v2(unsigned long long mcHandle, CUdevice dev, size_t mcOffset,
                                CUdeviceptr memptr, size_t size, unsigned long long flags);
CUresult cuMulticastBindMem_v2(unsigned long long mcHandle, CUdevice dev, size_t mcOffset,
                               unsigned long long memHandle, size_t memOffset, size_t size,
                               unsigned long long flags);
CUresult cuStreamBeginCaptureToCig(CUstream hStream, void *streamCigCaptureParams);
CUresult cuStreamBeginCaptureToCig_ptsz(CUstream hStream, void *streamCigCaptureParams);
CUresult cuStreamEndCaptureToCig(CUstream hStream);
CUresult cuStreamEndCaptureToCig_ptsz(CUstream hStream);
CUresult cuStreamGetDevResource(CUstream hStream, void *resource, int type);
CUresult cuStreamGetDevResource_ptsz(CUstream hStream, void *resource, int type);

/* 13.3 */
CUresult cuLogicalEndpointAddDevice(unsigned int leId, CUdevice dev);
CUresult cuLogicalEndpointBindAddr(unsigned int leId, CUdevice dev, cuuint64_t offset, void *ptr,
                                   cuuint64_t size, unsigned long long flags);
CUresult cuLogicalEndpointBindMem(unsigned int leId, CUdevice dev, cuuint64_t offset,
                                  unsigned long long memHandle, cuuint64_t memOffset,
                                  cuuint64_t size, unsigned long long flags);
CUresult cuLogicalEndpointCreate(unsigned int leId, const void *prop);
CUresult cuLogicalEndpointDestroy(unsigned int leId);
CUresult cuLogicalEndpointExport(void *handle, unsigned int leId, int handleType);
CUresult cuLogicalEndpointGetLimits(cuuint64_t *bindAlignment, cuuint64_t *maxSize,
                                    const void *prop);
CUresult cuLogicalEndpointIdRelease(unsigned int baseLeId, unsigned int count);
CUresult cuLogicalEndpointIdReserve(unsigned int *baseLeId, unsigned int count);
CUresult cuLogicalEndpointImport(unsigned int leId, const void *handle, int handleType);
CUresult cuLogicalEndpointQuery(unsigned int leId, unsigned int count, int *queryStatus);
CUresult cuLogicalEndpointUnbind(unsigned int leId, CUdevice dev, cuuint64_t offset,
                                 cuuint64_t size);
CUresult cuStreamBeginRecaptureToGraph(CUstream hStream, CUstreamCaptureMode mode, CUgraph hGraph,
                                       void *callbackFunc, void *userData);
CUresult cuStreamBeginRecaptureToGraph_ptsz(CUstream hStream, CUstreamCaptureMode mode,
                                            CUgraph hGraph, void *callbackFunc, void *userData);
