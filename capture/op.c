/* op.c - calling, staging, re-submitting ops, and their nodes in graphs. */
#include "capture/op.h"
#include <alloca.h>
#include <string.h>

/* Staged arguments of memsets and copies. */
struct staged_fill {
    uint64_t dst, value;
};
struct staged_copy {
    uint64_t dst, src;
};

static bool is_2d(enum ag_sym sym)
{
    return sym == AG_SYM_cuMemsetD2D8Async || sym == AG_SYM_cuMemsetD2D8Async_ptsz ||
           sym == AG_SYM_cuMemsetD2D16Async || sym == AG_SYM_cuMemsetD2D16Async_ptsz ||
           sym == AG_SYM_cuMemsetD2D32Async || sym == AG_SYM_cuMemsetD2D32Async_ptsz;
}

/* ---- the program's own call ------------------------------------------------------------- */

static CUresult call_launch(const struct ag_launch *l)
{
    if (l->sym == AG_SYM_cuLaunchKernel || l->sym == AG_SYM_cuLaunchKernel_ptsz) {
        AG_PFN_cuLaunchKernel real = (AG_PFN_cuLaunchKernel)ag_real[l->sym];
        return real(l->func, l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1],
                    l->block[2], l->shared_bytes, l->stream, l->params, l->extra);
    }
    CUlaunchConfig config = {.gridDimX = l->grid[0],
                             .gridDimY = l->grid[1],
                             .gridDimZ = l->grid[2],
                             .blockDimX = l->block[0],
                             .blockDimY = l->block[1],
                             .blockDimZ = l->block[2],
                             .sharedMemBytes = l->shared_bytes,
                             .hStream = l->stream,
                             .attrs = (CUlaunchAttribute *)l->attrs,
                             .numAttrs = l->num_attrs};
    return ((AG_PFN_cuLaunchKernelEx)ag_real[l->sym])(&config, l->func, l->params, l->extra);
}

static CUresult call_fill(const struct ag_memset *f)
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

static CUresult call_once(const struct ag_incoming *in)
{
    switch (in->kind) {
    case AG_OP_LAUNCH:
        return call_launch(in->launch);
    case AG_OP_MEMSET:
        return call_fill(in->fill);
    case AG_OP_COPY:
        break;
    }
    const struct ag_copy *c = in->copy;
    return ((AG_PFN_cuMemcpyDtoDAsync_v2)ag_real[c->sym])(c->dst, c->src, c->bytes, c->stream);
}

CUresult ag_op_call(const struct ag_incoming *in)
{
    CUresult r = call_once(in);
    if (__builtin_expect(r == CUDA_ERROR_OUT_OF_MEMORY, 0) && ag_capture_gives_memory())
        r = call_once(in);
    return r;
}

void ag_op_stage(uint8_t *staged, const struct ag_shape *shape, const struct ag_incoming *in)
{
    if (in->kind == AG_OP_LAUNCH) {
        ag_stage_launch(staged, shape, in->launch);
    } else if (in->kind == AG_OP_MEMSET) {
        struct staged_fill fill = {in->fill->dst, in->fill->value};
        memcpy(staged, &fill, sizeof(fill));
    } else {
        struct staged_copy copy = {in->copy->dst, in->copy->src};
        memcpy(staged, &copy, sizeof(copy));
    }
}

/* ---- again, from staged arguments ------------------------------------------------------- */

static void staged_params(const struct ag_shape *shape, const uint8_t *staged, void **params)
{
    const struct ag_function *f = shape->function;
    for (uint32_t i = 0; i < f->num_params; i++)
        params[i] = (void *)(staged + f->params[i].staged);
}

static CUresult submit_launch(const struct ag_stream *s, const struct ag_shape *shape,
                              const uint8_t *staged)
{
    const unsigned int *d = shape->dims;
    void **params = alloca((shape->function->num_params + 1) * sizeof(*params));
    staged_params(shape, staged, params);
    if (!shape->num_attrs)
        return AG_REAL(cuLaunchKernel)(shape->func, d[0], d[1], d[2], d[3], d[4], d[5], d[6],
                                       s->handle, params, NULL);
    CUlaunchConfig config = {.gridDimX = d[0],
                             .gridDimY = d[1],
                             .gridDimZ = d[2],
                             .blockDimX = d[3],
                             .blockDimY = d[4],
                             .blockDimZ = d[5],
                             .sharedMemBytes = d[6],
                             .hStream = s->handle,
                             .attrs = shape->attrs,
                             .numAttrs = shape->num_attrs};
    return AG_REAL(cuLaunchKernelEx)(&config, shape->func, params, NULL);
}

static enum ag_sym fill_symbol(const struct ag_shape *shape)
{
    bool flat = shape->height == 1;
    if (shape->elem_size == 1)
        return flat ? AG_SYM_cuMemsetD8Async : AG_SYM_cuMemsetD2D8Async;
    if (shape->elem_size == 2)
        return flat ? AG_SYM_cuMemsetD16Async : AG_SYM_cuMemsetD2D16Async;
    return flat ? AG_SYM_cuMemsetD32Async : AG_SYM_cuMemsetD2D32Async;
}

CUresult ag_op_submit(const struct ag_stream *s, const struct ag_shape *shape,
                      const uint8_t *staged)
{
    if (shape->kind == AG_OP_LAUNCH)
        return submit_launch(s, shape, staged);
    if (shape->kind == AG_OP_MEMSET) {
        struct staged_fill fill;
        memcpy(&fill, staged, sizeof(fill));
        struct ag_memset call = {.sym = fill_symbol(shape),
                                 .dst = fill.dst,
                                 .value = (unsigned int)fill.value,
                                 .pitch = shape->pitch,
                                 .elem_size = shape->elem_size,
                                 .width = shape->width,
                                 .height = shape->height,
                                 .stream = s->handle};
        return call_fill(&call);
    }
    struct staged_copy copy;
    memcpy(&copy, staged, sizeof(copy));
    return AG_REAL(cuMemcpyDtoDAsync_v2)(copy.dst, copy.src, shape->width, s->handle);
}

/* ---- nodes ------------------------------------------------------------------------------ */

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
    struct staged_fill fill;
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
    struct staged_copy copy;
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

CUresult ag_op_add_node(CUgraph graph, const struct ag_graphs *g, const struct ag_shape *shape,
                        const uint8_t *staged, const struct ag_node *after, struct ag_node *node)
{
    CUresult r;
    CUDA_KERNEL_NODE_PARAMS p;
    if (shape->kind == AG_OP_LAUNCH) {
        void **params = alloca((shape->function->num_params + 1) * sizeof(*params));
        staged_params(shape, staged, params);
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

CUresult ag_op_update_node(CUgraphExec exec, const struct ag_graphs *g, const struct ag_node *node,
                           const struct ag_shape *shape, const uint8_t *staged)
{
    CUDA_KERNEL_NODE_PARAMS p;
    if (shape->kind == AG_OP_LAUNCH) {
        void **params = alloca((shape->function->num_params + 1) * sizeof(*params));
        staged_params(shape, staged, params);
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
    struct staged_fill args;
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
