/* node.c - the nodes of ops in graphs. */
#include "capture/graphs/node.h"
#include "driver/call.h"
#include "capture/graphs/fillkernel.h"
#include "capture/graphs/graph.h"
#include "capture/tracking/shape.h"
#include "driver/entries.h"
#include <alloca.h>
#include <string.h>

static void kernel_params(const struct ag_graphs *g, const struct ag_shape *shape, void **params,
                          CUDA_KERNEL_NODE_PARAMS *p)
{
    *p = (CUDA_KERNEL_NODE_PARAMS){.gridDimX = shape->dims[0],
                                   .gridDimY = shape->dims[1],
                                   .gridDimZ = shape->dims[2],
                                   .blockDimX = shape->dims[3],
                                   .blockDimY = shape->dims[4],
                                   .blockDimZ = shape->dims[5],
                                   .sharedMemBytes = shape->dims[6],
                                   .kernelParams = params};
    if (shape->function->is_kernel) { /* a CUkernel in .func answers error 400 */
        p->kern = (CUkernel)shape->func;
        p->ctx = g->context->handle;
    } else {
        p->func = shape->func;
    }
}

static void fill_params(const struct ag_node *node, const struct ag_shape *shape,
                        const uint8_t *staged, struct ag_fill_params *fill, void **params,
                        CUDA_KERNEL_NODE_PARAMS *p)
{
    ag_fill_launch(shape, staged, fill, p);
    p->func = node->fill;
    p->kernelParams = params;
    params[0] = &fill->dst;
    params[1] = &fill->pitch;
    params[2] = &fill->width;
    params[3] = &fill->height;
    params[4] = &fill->pattern;
}

static void memset_params(const struct ag_shape *shape, const uint8_t *staged,
                          CUDA_MEMSET_NODE_PARAMS *p)
{
    struct ag_staged_fill fill;
    memcpy(&fill, staged, sizeof(fill));
    *p = (CUDA_MEMSET_NODE_PARAMS){.dst = fill.dst,
                                   .pitch = shape->pitch,
                                   .value = (unsigned int)fill.value,
                                   .elementSize = shape->elem_size,
                                   .width = shape->width,
                                   .height = shape->height};
}

static void copy_params(const struct ag_shape *shape, const uint8_t *staged, CUDA_MEMCPY3D *p)
{
    struct ag_staged_copy copy;
    memcpy(&copy, staged, sizeof(copy));
    memset(p, 0, sizeof(*p));
    p->srcMemoryType = CU_MEMORYTYPE_DEVICE;
    p->srcDevice = copy.src;
    p->dstMemoryType = CU_MEMORYTYPE_DEVICE;
    p->dstDevice = copy.dst;
    p->WidthInBytes = shape->width;
    p->Height = 1;
    p->Depth = 1;
}

/* Launch attributes as node attributes; the programmatic serialization is an edge, see below. */
static CUresult set_attributes(CUgraphNode node, const struct ag_graphs *g,
                               const struct ag_shape *shape)
{
    bool has_priority = false;
    for (unsigned int i = 0; i < shape->num_attrs; i++) {
        const CUlaunchAttribute *a = &shape->attrs[i];
        if (a->id == CU_LAUNCH_ATTRIBUTE_IGNORE ||
            a->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
            continue;
        has_priority |= a->id == CU_LAUNCH_ATTRIBUTE_PRIORITY;
        CUresult r = AG_REAL(cuGraphKernelNodeSetAttribute)(node, a->id, &a->value);
        if (r != CUDA_SUCCESS)
            return r;
    }
    if (has_priority || !g->priority)
        return CUDA_SUCCESS;
    CUlaunchAttributeValue value;
    memset(&value, 0, sizeof(value));
    value.priority = g->priority; /* in a stream the launch would have had it */
    return AG_REAL(cuGraphKernelNodeSetAttribute)(node, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value);
}

static bool overlaps_predecessor(const struct ag_shape *shape)
{
    for (unsigned int i = 0; i < shape->num_attrs; i++)
        if (shape->attrs[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION &&
            shape->attrs[i].value.programmaticStreamSerializationAllowed)
            return true;
    return false;
}

typedef CUresult (*add_edges_fn)(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                 const CUgraphEdgeData *data, size_t n);

/* The edge that a stream's order is. Behind a kernel, a launch with programmatic serialization gets
 * the edge that the driver would have captured (cuda.h, CUgraphEdgeData; from 12.3): it may start
 * when its predecessor triggers. Otherwise, and on an older driver, a full one. */
static CUresult add_edge(CUgraph graph, const struct ag_node *after, const struct ag_node *node,
                         const struct ag_shape *shape)
{
    if (!after)
        return CUDA_SUCCESS;
    add_edges_fn add = (add_edges_fn)ag_real[AG_SYM_cuGraphAddDependencies_v2];
    /* behind a memset the driver makes a full one, whatever kernel stands for the memset here */
    if (add && after->is_kernel && !after->fill && overlaps_predecessor(shape)) {
        CUgraphEdgeData data;
        memset(&data, 0, sizeof(data));
        data.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
        data.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
        return add(graph, &after->node, &node->node, &data, 1);
    }
    return AG_REAL(cuGraphAddDependencies)(graph, &after->node, &node->node, 1);
}

CUresult ag_node_add(CUgraph graph, const struct ag_graphs *g, const struct ag_shape *shape,
                     const uint8_t *staged, const struct ag_node *after, struct ag_node *node)
{
    CUresult r;
    CUDA_KERNEL_NODE_PARAMS p;
    if (shape->kind == AG_OP_LAUNCH) {
        void **params = alloca((shape->function->num_params + 1) * sizeof(*params));
        ag_shape_params(shape, staged, params);
        kernel_params(g, shape, params, &p);
        r = AG_REAL(cuGraphAddKernelNode_v2)(&node->node, graph, NULL, 0, &p);
        node->is_kernel = true;
        if (r == CUDA_SUCCESS)
            r = set_attributes(node->node, g, shape);
    } else if (shape->kind == AG_OP_MEMSET) {
        node->fill = ag_fill_kernel(g->context->handle);
        if (node->fill) {
            struct ag_fill_params fill;
            void *params[5];
            fill_params(node, shape, staged, &fill, params, &p);
            r = AG_REAL(cuGraphAddKernelNode_v2)(&node->node, graph, NULL, 0, &p);
            node->is_kernel = true;
        } else {
            CUDA_MEMSET_NODE_PARAMS m;
            memset_params(shape, staged, &m);
            r = AG_REAL(cuGraphAddMemsetNode)(&node->node, graph, NULL, 0, &m, g->context->handle);
        }
    } else {
        CUDA_MEMCPY3D c;
        copy_params(shape, staged, &c);
        r = AG_REAL(cuGraphAddMemcpyNode)(&node->node, graph, NULL, 0, &c, g->context->handle);
    }
    return r == CUDA_SUCCESS ? add_edge(graph, after, node, shape) : r;
}

CUresult ag_node_update(CUgraphExec exec, const struct ag_graphs *g, const struct ag_node *node,
                        const struct ag_shape *shape, const uint8_t *staged)
{
    CUDA_KERNEL_NODE_PARAMS p;
    if (shape->kind == AG_OP_LAUNCH) {
        void **params = alloca((shape->function->num_params + 1) * sizeof(*params));
        ag_shape_params(shape, staged, params);
        kernel_params(g, shape, params, &p);
        return AG_REAL(cuGraphExecKernelNodeSetParams_v2)(exec, node->node, &p);
    }
    if (node->fill) {
        struct ag_fill_params fill;
        void *params[5];
        fill_params(node, shape, staged, &fill, params, &p);
        return AG_REAL(cuGraphExecKernelNodeSetParams_v2)(exec, node->node, &p);
    }
    if (shape->kind == AG_OP_MEMSET) {
        CUDA_MEMSET_NODE_PARAMS m;
        memset_params(shape, staged, &m);
        return AG_REAL(cuGraphExecMemsetNodeSetParams)(exec, node->node, &m, g->context->handle);
    }
    CUDA_MEMCPY3D c;
    copy_params(shape, staged, &c);
    return AG_REAL(cuGraphExecMemcpyNodeSetParams)(exec, node->node, &c, g->context->handle);
}

void ag_fill_launch(const struct ag_shape *shape, const uint8_t *staged,
                    struct ag_fill_params *fill, CUDA_KERNEL_NODE_PARAMS *launch)
{
    struct ag_staged_fill args;
    memcpy(&args, staged, sizeof(args));
    enum { THREADS = 256, SLOT = 16, MOST_BLOCKS = 2048, MOST_ROWS = 65535 };
    uint32_t element = (uint32_t)args.value;
    if (shape->elem_size == 1)
        element = (element & 0xff) * 0x01010101u;
    else if (shape->elem_size == 2)
        element = (element & 0xffff) * 0x00010001u;
    *fill = (struct ag_fill_params){.dst = args.dst,
                                    .pitch = shape->pitch,
                                    .width = shape->width * shape->elem_size,
                                    .height = shape->height,
                                    .pattern = element};
    /* a slot of 16 bytes a thread, one more for a row that does not begin at a multiple of 16; the
     * kernel strides over what the grid does not reach */
    uint64_t blocks = (fill->width / SLOT + 2 + THREADS - 1) / THREADS;
    *launch = (CUDA_KERNEL_NODE_PARAMS){
        .gridDimX = blocks < MOST_BLOCKS ? (unsigned int)blocks : MOST_BLOCKS,
        .gridDimY = shape->height < MOST_ROWS ? (unsigned int)shape->height : MOST_ROWS,
        .gridDimZ = 1,
        .blockDimX = THREADS,
        .blockDimY = 1,
        .blockDimZ = 1};
}
