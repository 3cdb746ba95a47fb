/* node.c - graph nodes for ops: adding and updating them. */
#include "capture/graphs/node.h"
#include "capture/graphs/lower.h"
#include "capture/graphs/ownkernels.h"
#include "capture/tracking/count.h"
#include <alloca.h>

static void kernel_params(const struct ag_graphs *g, const struct ag_signature *signature,
                          const uint8_t *recorded, void **params, CUDA_KERNEL_NODE_PARAMS *p)
{
    unsigned int grid[3];
    ag_signature_grid(signature, recorded, grid);
    *p = (CUDA_KERNEL_NODE_PARAMS){.gridDimX = grid[0],
                                   .gridDimY = grid[1],
                                   .gridDimZ = grid[2],
                                   .blockDimX = signature->dims[3],
                                   .blockDimY = signature->dims[4],
                                   .blockDimZ = signature->dims[5],
                                   .sharedMemBytes = signature->dims[6],
                                   .kernelParams = params};
    if (signature->function->is_kernel) { /* a CUkernel in .func fails with error 400 */
        p->kern = (CUkernel)signature->func;
        p->ctx = g->context->handle;
    } else {
        p->func = signature->func;
    }
}

static void memset_params(const struct ag_signature *signature, const uint8_t *recorded,
                          CUDA_MEMSET_NODE_PARAMS *p)
{
    struct ag_recorded_fill fill;
    memcpy(&fill, recorded, sizeof(fill));
    *p = (CUDA_MEMSET_NODE_PARAMS){.dst = fill.dst,
                                   .pitch = signature->rows.dst_pitch,
                                   .value = (unsigned int)fill.value,
                                   .elementSize = signature->elem_size,
                                   .width = signature->width,
                                   .height = signature->rows.height};
}

static void copy_params(const struct ag_signature *signature, const uint8_t *recorded,
                        CUDA_MEMCPY3D *p)
{
    struct ag_recorded_copy copy;
    memcpy(&copy, recorded, sizeof(copy));
    memset(p, 0, sizeof(*p));
    p->srcMemoryType = CU_MEMORYTYPE_DEVICE;
    p->srcDevice = copy.src;
    p->dstMemoryType = CU_MEMORYTYPE_DEVICE;
    p->dstDevice = copy.dst;
    p->WidthInBytes = signature->width;
    p->Height = 1;
    p->Depth = 1;
}

/* Gives the node the priority that its launch would have had from the stream. */
static CUresult set_priority(CUgraphNode node, const struct ag_graphs *g)
{
    CUlaunchAttributeValue value;
    if (!g->priority)
        return CUDA_SUCCESS;
    memset(&value, 0, sizeof(value));
    value.priority = g->priority;
    return AG_REAL(cuGraphKernelNodeSetAttribute)(node, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value);
}

/* Sets launch attributes as node attributes. Programmatic serialization becomes an edge,
 * see below. */
static CUresult set_attributes(CUgraphNode node, const struct ag_graphs *g,
                               const struct ag_signature *signature)
{
    bool has_priority = false;
    for (unsigned int i = 0; i < signature->num_attrs; i++) {
        const CUlaunchAttribute *a = &signature->attrs[i];
        if (a->id == CU_LAUNCH_ATTRIBUTE_IGNORE ||
            a->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
            continue;
        has_priority |= a->id == CU_LAUNCH_ATTRIBUTE_PRIORITY;
        CUresult r = AG_REAL(cuGraphKernelNodeSetAttribute)(node, a->id, &a->value);
        if (r != CUDA_SUCCESS)
            return r;
    }
    return has_priority ? CUDA_SUCCESS : set_priority(node, g);
}

static bool overlaps_predecessor(const struct ag_signature *signature)
{
    for (unsigned int i = 0; i < signature->num_attrs; i++)
        if (signature->attrs[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION &&
            signature->attrs[i].value.programmaticStreamSerializationAllowed)
            return true;
    return false;
}

static CUresult add_full_edges(CUgraph graph, const struct ag_node *const *before, uint32_t n,
                               const struct ag_node *node)
{
    CUresult r = CUDA_SUCCESS;
    for (uint32_t i = 0; i < n && r == CUDA_SUCCESS; i++)
        r = AG_REAL(cuGraphAddDependencies)(graph, &before[i]->node, &node->node, 1);
    return r;
}

typedef CUresult (*add_edges_fn)(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                 const CUgraphEdgeData *data, size_t n);

/* Adds the edges that stand for the stream's order, and for that of events. A launch with
 * programmatic serialization behind a kernel gets the edge that the driver would have captured
 * (cuda.h, CUgraphEdgeData; from 12.3): it may start when its predecessor triggers. Any other
 * launch gets full edges, as does every launch on an older driver, and one that waits for an event.
 */
static CUresult add_edges(CUgraph graph, const struct ag_node *const *before, uint32_t n,
                          bool waited, const struct ag_node *node,
                          const struct ag_signature *signature)
{
    const struct ag_node *after = n == 1 && !waited ? before[0] : NULL;
    add_edges_fn add = (add_edges_fn)ag_real[AG_SYM_cuGraphAddDependencies_v2];
    /* behind a memset or a copy the driver makes a full edge, so a kernel that stands for one gets
     * one too */
    if (add && after && after->is_kernel && !after->own && overlaps_predecessor(signature)) {
        CUgraphEdgeData data;
        memset(&data, 0, sizeof(data));
        data.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
        data.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
        return add(graph, &after->node, &node->node, &data, 1);
    }
    return add_full_edges(graph, before, n, node);
}

CUresult ag_node_add(CUgraph graph, const struct ag_graphs *g, const struct ag_signature *signature,
                     const uint8_t *recorded, const struct ag_node *const *after, uint32_t n,
                     bool waited, struct ag_node *node)
{
    CUresult r;
    CUDA_KERNEL_NODE_PARAMS p;
    node->own = ag_lowering(g->context, signature);
    if (signature->kind == AG_OP_LAUNCH) {
        void **params = alloca((signature->layout.num_params + 1) * sizeof(*params));
        ag_signature_params(signature, recorded, params);
        kernel_params(g, signature, recorded, params, &p);
        r = AG_REAL(cuGraphAddKernelNode_v2)(&node->node, graph, NULL, 0, &p);
        node->is_kernel = true;
        if (r == CUDA_SUCCESS)
            r = set_attributes(node->node, g, signature);
    } else if (node->own) {
        struct ag_lowered lowered;
        ag_lower(signature, recorded, node->own, &lowered);
        r = AG_REAL(cuGraphAddKernelNode_v2)(&node->node, graph, NULL, 0, &lowered.launch);
        node->is_kernel = true;
        if (r == CUDA_SUCCESS)
            r = set_priority(node->node, g);
    } else if (signature->movable) {
        r = CUDA_ERROR_NOT_FOUND; /* the context has lost the library's kernels since */
    } else if (signature->kind == AG_OP_MEMSET) {
        CUDA_MEMSET_NODE_PARAMS m;
        memset_params(signature, recorded, &m);
        r = AG_REAL(cuGraphAddMemsetNode)(&node->node, graph, NULL, 0, &m, g->context->handle);
    } else {
        CUDA_MEMCPY3D c;
        copy_params(signature, recorded, &c);
        r = AG_REAL(cuGraphAddMemcpyNode)(&node->node, graph, NULL, 0, &c, g->context->handle);
    }
    return r == CUDA_SUCCESS ? add_edges(graph, after, n, waited, node, signature) : r;
}

CUresult ag_node_add_fence(CUgraph graph, const struct ag_graphs *g,
                           const struct ag_node *const *after, uint32_t n, struct ag_node *node)
{
    CUDA_KERNEL_NODE_PARAMS p = {.func = ag_own_kernel(g->context, AG_OWN_FENCE),
                                 .gridDimX = 1,
                                 .gridDimY = 1,
                                 .gridDimZ = 1,
                                 .blockDimX = 1,
                                 .blockDimY = 1,
                                 .blockDimZ = 1};
    CUresult r = p.func ? AG_REAL(cuGraphAddKernelNode_v2)(&node->node, graph, NULL, 0, &p)
                        : CUDA_ERROR_NOT_FOUND;
    *node = (struct ag_node){.node = node->node, .own = p.func, .is_kernel = true};
    if (r == CUDA_SUCCESS)
        r = set_priority(node->node, g);
    if (r == CUDA_SUCCESS)
        r = add_full_edges(graph, after, n, node);
    ag_count(r == CUDA_SUCCESS ? AG_COUNT_FENCES : AG_COUNT_FENCE_FAILED);
    return r;
}

CUresult ag_node_update(CUgraphExec exec, const struct ag_graphs *g, const struct ag_node *node,
                        const struct ag_signature *signature, const uint8_t *recorded)
{
    CUDA_KERNEL_NODE_PARAMS p;
    if (signature->kind == AG_OP_LAUNCH) {
        void **params = alloca((signature->layout.num_params + 1) * sizeof(*params));
        ag_signature_params(signature, recorded, params);
        kernel_params(g, signature, recorded, params, &p);
        return AG_REAL(cuGraphExecKernelNodeSetParams_v2)(exec, node->node, &p);
    }
    if (node->own) {
        struct ag_lowered lowered;
        ag_lower(signature, recorded, node->own, &lowered);
        return AG_REAL(cuGraphExecKernelNodeSetParams_v2)(exec, node->node, &lowered.launch);
    }
    if (signature->kind == AG_OP_MEMSET) {
        CUDA_MEMSET_NODE_PARAMS m;
        memset_params(signature, recorded, &m);
        return AG_REAL(cuGraphExecMemsetNodeSetParams)(exec, node->node, &m, g->context->handle);
    }
    CUDA_MEMCPY3D c;
    copy_params(signature, recorded, &c);
    return AG_REAL(cuGraphExecMemcpyNodeSetParams)(exec, node->node, &c, g->context->handle);
}
