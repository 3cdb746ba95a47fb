/* graph_nodes.c - nodes by kind: adding them, reading and changing their parameters. */
#include "sim.h"
#include <stdlib.h>
#include <string.h>

CUresult sim_op_from_kernel_params(struct sim_op *op, const CUDA_KERNEL_NODE_PARAMS *p)
{
    memset(op, 0, sizeof *op);
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    /* A CUkernel belongs in `kern`; here, unlike in a launch, `func` takes CUfunctions alone. */
    const void *handle = p->func ? (const void *)p->func : (const void *)p->kern;
    if (!sim_object_is(handle, p->func ? SIM_FUNCTION : SIM_KERNEL))
        return CUDA_ERROR_INVALID_HANDLE;
    op->kind = SIM_OP_KERNEL;
    CUresult r = sim_launch_prepare(&op->launch, handle,
                                    (unsigned int[]){p->gridDimX, p->gridDimY, p->gridDimZ},
                                    (unsigned int[]){p->blockDimX, p->blockDimY, p->blockDimZ},
                                    p->sharedMemBytes, p->kernelParams, p->extra);
    if (r != CUDA_SUCCESS)
        sim_op_drop(op);
    return r;
}

static CUresult add(CUgraphNode *out, CUgraph graph, const CUgraphNode *from, size_t count,
                    struct sim_op *op)
{
    struct sim_node *n;
    if (!out || !sim_object_is(graph, SIM_GRAPH)) {
        sim_op_drop(op);
        return CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_lock(&sim_lock);
    CUresult r = sim_graph_add((struct sim_graph *)graph, from, count, op, &n);
    pthread_mutex_unlock(&sim_lock);
    if (r == CUDA_SUCCESS)
        *out = (CUgraphNode)n;
    return r;
}

static CUresult add_kernel(CUgraphNode *out, CUgraph graph, const CUgraphNode *from, size_t count,
                           const CUDA_KERNEL_NODE_PARAMS *params)
{
    struct sim_op op;
    CUresult r = sim_op_from_kernel_params(&op, params);
    return r == CUDA_SUCCESS ? add(out, graph, from, count, &op) : r;
}

SIM_API(cuGraphAddKernelNode_v2,
        (CUgraphNode * out, CUgraph graph, const CUgraphNode *from, size_t count,
         const CUDA_KERNEL_NODE_PARAMS *params),
        (out, graph, from, count, params))
{
    return add_kernel(out, graph, from, count, params);
}

SIM_API(cuGraphAddKernelNode,
        (CUgraphNode * out, CUgraph graph, const CUgraphNode *from, size_t count,
         const CUDA_KERNEL_NODE_PARAMS_v1 *params),
        (out, graph, from, count, params))
{
    CUDA_KERNEL_NODE_PARAMS now = {0};
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&now, params, sizeof *params);
    return add_kernel(out, graph, from, count, &now);
}

SIM_API(cuGraphAddMemcpyNode,
        (CUgraphNode * out, CUgraph graph, const CUgraphNode *from, size_t count,
         const CUDA_MEMCPY3D *params, CUcontext ctx),
        (out, graph, from, count, params, ctx))
{
    struct sim_op op = {0};
    (void)ctx;
    CUresult r = sim_op_from_copy_params(&op, params);
    return r == CUDA_SUCCESS ? add(out, graph, from, count, &op) : r;
}

SIM_API(cuGraphAddMemsetNode,
        (CUgraphNode * out, CUgraph graph, const CUgraphNode *from, size_t count,
         const CUDA_MEMSET_NODE_PARAMS *params, CUcontext ctx),
        (out, graph, from, count, params, ctx))
{
    struct sim_op op;
    (void)ctx;
    CUresult r = sim_op_from_memset_params(&op, params);
    return r == CUDA_SUCCESS ? add(out, graph, from, count, &op) : r;
}

SIM_API(cuGraphAddHostNode,
        (CUgraphNode * out, CUgraph graph, const CUgraphNode *from, size_t count,
         const CUDA_HOST_NODE_PARAMS *params),
        (out, graph, from, count, params))
{
    if (!params || !params->fn)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_op op = {.kind = SIM_OP_HOST, .host = {.fn = params->fn, .data = params->userData}};
    return add(out, graph, from, count, &op);
}

SIM_API(cuGraphAddEmptyNode,
        (CUgraphNode * out, CUgraph graph, const CUgraphNode *from, size_t count),
        (out, graph, from, count))
{
    struct sim_op op = {.kind = SIM_OP_EMPTY};
    return add(out, graph, from, count, &op);
}

static CUresult add_event(CUgraphNode *out, CUgraph graph, const CUgraphNode *from, size_t count,
                          CUevent event, enum sim_op_kind kind)
{
    if (!sim_object_is(event, SIM_EVENT))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_op op = {.kind = kind, .record = {.event = (struct sim_event *)event}};
    return add(out, graph, from, count, &op);
}

SIM_API(cuGraphAddEventRecordNode,
        (CUgraphNode * out, CUgraph graph, const CUgraphNode *from, size_t count, CUevent event),
        (out, graph, from, count, event))
{
    return add_event(out, graph, from, count, event, SIM_OP_RECORD);
}

SIM_API(cuGraphAddEventWaitNode,
        (CUgraphNode * out, CUgraph graph, const CUgraphNode *from, size_t count, CUevent event),
        (out, graph, from, count, event))
{
    return add_event(out, graph, from, count, event, SIM_OP_WAIT);
}

SIM_API(cuGraphAddMemAllocNode,
        (CUgraphNode * out, CUgraph graph, const CUgraphNode *from, size_t count,
         CUDA_MEM_ALLOC_NODE_PARAMS *params),
        (out, graph, from, count, params))
{
    struct sim_context *ctx;
    uintptr_t address;
    CUresult r = sim_current(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    if (!params || !params->bytesize)
        return CUDA_ERROR_INVALID_VALUE;
    r = sim_mem_new(ctx, SIM_MEM_DEVICE, params->bytesize, 0, &address);
    if (r != CUDA_SUCCESS)
        return r;
    sim_mem_of_pool(address);
    struct sim_op op = {.kind = SIM_OP_ALLOC,
                        .memory = {.address = address, .bytes = params->bytesize}};
    r = add(out, graph, from, count, &op);
    if (r == CUDA_SUCCESS)
        params->dptr = address;
    else
        sim_mem_release(address, SIM_MEM_DEVICE);
    return r;
}

static CUresult add_free(CUgraphNode *out, CUgraph graph, const CUgraphNode *from, size_t count,
                         CUdeviceptr address)
{
    struct sim_allocation a;
    if (!sim_mem_find(address, &a) || a.base != address || a.memory != SIM_MEM_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_op op = {.kind = SIM_OP_FREE, .memory = {.address = address}};
    return add(out, graph, from, count, &op);
}

SIM_API(cuGraphAddMemFreeNode,
        (CUgraphNode * out, CUgraph graph, const CUgraphNode *from, size_t count,
         CUdeviceptr address),
        (out, graph, from, count, address))
{
    return add_free(out, graph, from, count, address);
}

static CUresult add_child(CUgraphNode *out, CUgraph graph, const CUgraphNode *from, size_t count,
                          CUgraph child)
{
    struct sim_op op = {.kind = SIM_OP_CHILD};
    if (!sim_object_is(child, SIM_GRAPH))
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim_lock);
    CUresult r = sim_graph_clone((struct sim_graph *)child, &op.child);
    pthread_mutex_unlock(&sim_lock);
    if (r != CUDA_SUCCESS)
        return r;
    op.child->child = true;
    return add(out, graph, from, count, &op);
}

SIM_API(cuGraphAddChildGraphNode,
        (CUgraphNode * out, CUgraph graph, const CUgraphNode *from, size_t count, CUgraph child),
        (out, graph, from, count, child))
{
    return add_child(out, graph, from, count, child);
}

SIM_API(cuGraphChildGraphNodeGetGraph, (CUgraphNode node, CUgraph *out), (node, out))
{
    struct sim_node *n = (struct sim_node *)node;
    if (!out || !sim_object_is(n, SIM_NODE) || n->op.kind != SIM_OP_CHILD)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUgraph)n->op.child;
    return CUDA_SUCCESS;
}

static CUresult add_any(CUgraphNode *out, CUgraph graph, const CUgraphNode *from, size_t count,
                        CUgraphNodeParams *p)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_op op = {0};
    CUresult r = CUDA_SUCCESS;
    switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        /* _v3 has the layout of _v2. */
        return add_kernel(out, graph, from, count, (const CUDA_KERNEL_NODE_PARAMS *)&p->kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        r = sim_op_from_copy_params(&op, &p->memcpy.copyParams);
        break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
        r = sim_op_from_memset_params(&op, (const CUDA_MEMSET_NODE_PARAMS *)&p->memset);
        break;
    case CU_GRAPH_NODE_TYPE_HOST:
        op.kind = SIM_OP_HOST;
        op.host.fn = p->host.fn;
        op.host.data = p->host.userData;
        break;
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return add_child(out, graph, from, count, p->graph.graph);
    case CU_GRAPH_NODE_TYPE_EMPTY:
        break;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return add_event(out, graph, from, count, p->eventWait.event, SIM_OP_WAIT);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return add_event(out, graph, from, count, p->eventRecord.event, SIM_OP_RECORD);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return add_free(out, graph, from, count, p->free.dptr);
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    return r == CUDA_SUCCESS ? add(out, graph, from, count, &op) : r;
}

SIM_API(cuGraphAddNode,
        (CUgraphNode * out, CUgraph graph, const CUgraphNode *from, size_t count,
         CUgraphNodeParams *params),
        (out, graph, from, count, params))
{
    return add_any(out, graph, from, count, params);
}

SIM_API(cuGraphAddNode_v2,
        (CUgraphNode * out, CUgraph graph, const CUgraphNode *from, const CUgraphEdgeData *edges,
         size_t count, CUgraphNodeParams *params),
        (out, graph, from, edges, count, params))
{
    (void)edges; /* a programmatic edge is kept as a full one: it orders more, never less */
    return add_any(out, graph, from, count, params);
}

/* ---- reading
 * ---------------------------------------------------------------------------------------- */

SIM_API(cuGraphNodeGetType, (CUgraphNode node, CUgraphNodeType *type), (node, type))
{
    static const CUgraphNodeType types[] = {
        [SIM_OP_EMPTY] = CU_GRAPH_NODE_TYPE_EMPTY,
        [SIM_OP_KERNEL] = CU_GRAPH_NODE_TYPE_KERNEL,
        [SIM_OP_COPY] = CU_GRAPH_NODE_TYPE_MEMCPY,
        [SIM_OP_MEMSET] = CU_GRAPH_NODE_TYPE_MEMSET,
        [SIM_OP_HOST] = CU_GRAPH_NODE_TYPE_HOST,
        [SIM_OP_RECORD] = CU_GRAPH_NODE_TYPE_EVENT_RECORD,
        [SIM_OP_WAIT] = CU_GRAPH_NODE_TYPE_WAIT_EVENT,
        [SIM_OP_MEMOP] = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
        [SIM_OP_FREE] = CU_GRAPH_NODE_TYPE_MEM_FREE,
        [SIM_OP_ALLOC] = CU_GRAPH_NODE_TYPE_MEM_ALLOC,
        [SIM_OP_CHILD] = CU_GRAPH_NODE_TYPE_GRAPH,
        [SIM_OP_SIGNAL] = CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL,
        [SIM_OP_AWAIT] = CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT,
        [SIM_OP_IMAGE] = CU_GRAPH_NODE_TYPE_GRAPH,
    };
    if (!type || !sim_object_is(node, SIM_NODE))
        return CUDA_ERROR_INVALID_VALUE;
    *type = types[((struct sim_node *)node)->op.kind];
    return CUDA_SUCCESS;
}

/* A live node of that kind, else NULL. */
static struct sim_node *node_of(CUgraphNode handle, enum sim_op_kind kind)
{
    struct sim_node *n = (struct sim_node *)handle;
    return sim_object_is(n, SIM_NODE) && n->op.kind == kind ? n : NULL;
}

static CUresult get_kernel(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *p)
{
    struct sim_node *n = node_of(node, SIM_OP_KERNEL);
    if (!n || !p)
        return CUDA_ERROR_INVALID_VALUE;
    const struct sim_launch *l = &n->op.launch;
    memset(p, 0, sizeof *p);
    if (sim_object_is(l->handle, SIM_KERNEL))
        p->kern = (CUkernel)l->handle;
    else
        p->func = (CUfunction)l->handle;
    p->gridDimX = l->grid[0];
    p->gridDimY = l->grid[1];
    p->gridDimZ = l->grid[2];
    p->blockDimX = l->block[0];
    p->blockDimY = l->block[1];
    p->blockDimZ = l->block[2];
    p->sharedMemBytes = l->shared_bytes;
    pthread_mutex_lock(&sim_lock);
    free(n->shown);
    n->shown = calloc(l->code->nparams + 1, sizeof *n->shown);
    for (unsigned int i = 0; i < l->code->nparams; i++)
        n->shown[i] = l->args->bytes + l->code->offsets[i];
    p->kernelParams = l->code->nparams ? n->shown : NULL;
    pthread_mutex_unlock(&sim_lock);
    return CUDA_SUCCESS;
}

SIM_API(cuGraphKernelNodeGetParams_v2, (CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *params),
        (node, params))
{
    return get_kernel(node, params);
}

SIM_API(cuGraphKernelNodeGetParams, (CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1 *params),
        (node, params))
{
    CUDA_KERNEL_NODE_PARAMS now;
    CUresult r = params ? get_kernel(node, &now) : CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        memcpy(params, &now, sizeof *params);
    return r;
}

SIM_API(cuGraphMemsetNodeGetParams, (CUgraphNode node, CUDA_MEMSET_NODE_PARAMS *p), (node, p))
{
    struct sim_node *n = node_of(node, SIM_OP_MEMSET);
    if (!n || !p)
        return CUDA_ERROR_INVALID_VALUE;
    const struct sim_memset *m = &n->op.fill;
    *p = (CUDA_MEMSET_NODE_PARAMS){.dst = m->dst,
                                   .pitch = m->pitch,
                                   .value = m->value,
                                   .elementSize = m->elem_size,
                                   .width = m->width,
                                   .height = m->height};
    return CUDA_SUCCESS;
}

SIM_API(cuGraphMemcpyNodeGetParams, (CUgraphNode node, CUDA_MEMCPY3D *p), (node, p))
{
    struct sim_node *n = node_of(node, SIM_OP_COPY);
    if (!n || !p)
        return CUDA_ERROR_INVALID_VALUE;
    const struct sim_copy *c = &n->op.copy;
    *p = (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                         .srcDevice = c->src,
                         .srcPitch = c->src_pitch,
                         .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                         .dstDevice = c->dst,
                         .dstPitch = c->dst_pitch,
                         .WidthInBytes = c->width,
                         .Height = c->height,
                         .Depth = c->depth};
    return CUDA_SUCCESS;
}

SIM_API(cuGraphHostNodeGetParams, (CUgraphNode node, CUDA_HOST_NODE_PARAMS *p), (node, p))
{
    struct sim_node *n = node_of(node, SIM_OP_HOST);
    if (!n || !p)
        return CUDA_ERROR_INVALID_VALUE;
    p->fn = n->op.host.fn;
    p->userData = n->op.host.data;
    return CUDA_SUCCESS;
}

static CUresult get_event(CUgraphNode node, CUevent *out, enum sim_op_kind kind)
{
    struct sim_node *n = node_of(node, kind);
    if (!n || !out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUevent)n->op.record.event;
    return CUDA_SUCCESS;
}

SIM_API(cuGraphEventRecordNodeGetEvent, (CUgraphNode node, CUevent *out), (node, out))
{
    return get_event(node, out, SIM_OP_RECORD);
}

SIM_API(cuGraphEventWaitNodeGetEvent, (CUgraphNode node, CUevent *out), (node, out))
{
    return get_event(node, out, SIM_OP_WAIT);
}

/* ---- changing the graph's own nodes (an exec made before does not change)
 * ----------------------------- */

static CUresult set(CUgraphNode node, struct sim_op *op)
{
    struct sim_node *n = node_of(node, op->kind);
    if (!n) {
        sim_op_drop(op);
        return CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_lock(&sim_lock);
    sim_op_drop(&n->op);
    n->op = *op;
    pthread_mutex_unlock(&sim_lock);
    return CUDA_SUCCESS;
}

SIM_API(cuGraphKernelNodeSetParams_v2, (CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params),
        (node, params))
{
    struct sim_op op;
    CUresult r = sim_op_from_kernel_params(&op, params);
    return r == CUDA_SUCCESS ? set(node, &op) : r;
}

SIM_API(cuGraphKernelNodeSetParams, (CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *params),
        (node, params))
{
    struct sim_op op;
    CUDA_KERNEL_NODE_PARAMS now = {0};
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&now, params, sizeof *params);
    CUresult r = sim_op_from_kernel_params(&op, &now);
    return r == CUDA_SUCCESS ? set(node, &op) : r;
}

SIM_API(cuGraphMemsetNodeSetParams, (CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *params),
        (node, params))
{
    struct sim_op op;
    CUresult r = sim_op_from_memset_params(&op, params);
    return r == CUDA_SUCCESS ? set(node, &op) : r;
}

SIM_API(cuGraphMemcpyNodeSetParams, (CUgraphNode node, const CUDA_MEMCPY3D *params), (node, params))
{
    struct sim_op op = {0};
    CUresult r = sim_op_from_copy_params(&op, params);
    return r == CUDA_SUCCESS ? set(node, &op) : r;
}

SIM_API(cuGraphHostNodeSetParams, (CUgraphNode node, const CUDA_HOST_NODE_PARAMS *params),
        (node, params))
{
    if (!params || !params->fn)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_op op = {.kind = SIM_OP_HOST, .host = {.fn = params->fn, .data = params->userData}};
    return set(node, &op);
}

SIM_API(cuGraphKernelNodeSetAttribute,
        (CUgraphNode node, CUkernelNodeAttrID id, const CUkernelNodeAttrValue *value),
        (node, id, value))
{
    struct sim_node *n = node_of(node, SIM_OP_KERNEL);
    if (!n || !value)
        return CUDA_ERROR_INVALID_VALUE;
    if (id == CU_LAUNCH_ATTRIBUTE_PRIORITY)
        n->op.launch.priority = value->priority;
    else if (id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
        n->op.launch.cooperative = value->cooperative;
    return CUDA_SUCCESS;
}

SIM_API(cuGraphKernelNodeGetAttribute,
        (CUgraphNode node, CUkernelNodeAttrID id, CUkernelNodeAttrValue *value), (node, id, value))
{
    struct sim_node *n = node_of(node, SIM_OP_KERNEL);
    if (!n || !value)
        return CUDA_ERROR_INVALID_VALUE;
    memset(value, 0, sizeof *value);
    if (id == CU_LAUNCH_ATTRIBUTE_PRIORITY)
        value->priority = n->op.launch.priority;
    else if (id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
        value->cooperative = n->op.launch.cooperative;
    return CUDA_SUCCESS;
}

SIM_API(cuGraphKernelNodeCopyAttributes, (CUgraphNode dst, CUgraphNode src), (dst, src))
{
    struct sim_node *d = node_of(dst, SIM_OP_KERNEL), *s = node_of(src, SIM_OP_KERNEL);
    if (!d || !s)
        return CUDA_ERROR_INVALID_VALUE;
    d->op.launch.priority = s->op.launch.priority;
    d->op.launch.cooperative = s->op.launch.cooperative;
    return CUDA_SUCCESS;
}
