/*
 * graph_exec.c - executable graphs: instantiate, update, launch.
 *
 * An exec holds an image: the flat list of steps in launch order. A launch takes a reference to it;
 * a change while a launch still has one goes to a copy, so that changes affect later launches only.
 */
#include "sim.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static unsigned int flat_count(const struct sim_graph *g)
{
    unsigned int n = 0;
    for (unsigned int i = 0; i < g->count; i++)
        n += g->nodes[i]->op.kind == SIM_OP_CHILD ? flat_count(g->nodes[i]->op.child) : 1;
    return n;
}

/* Appends the graph's nodes in launch order, children in place. */
static bool flatten(struct sim_graph *g, struct sim_exec *e)
{
    struct sim_node **order = malloc((g->count + 1) * sizeof *order);
    bool ok = order && sim_graph_sort(g, order);
    for (unsigned int i = 0; ok && i < g->count; i++) {
        if (order[i]->op.kind == SIM_OP_CHILD) {
            ok = flatten(order[i]->op.child, e);
            continue;
        }
        struct sim_step *step = &e->image->steps[e->image->count];
        e->nodes[e->image->count++] = order[i];
        step->op = order[i]->op;
        step->enabled = true;
        sim_op_hold(&step->op);
    }
    free(order);
    return ok;
}

static void exec_free(struct sim_exec *e)
{
    if (sim_object_is(e->ctx, SIM_CONTEXT))
        e->ctx->graphs--;
    sim_mem_give(e->ctx, e->bytes);
    if (e->image)
        sim_image_drop(e->image);
    free(e->nodes);
    e->image = NULL;
    e->nodes = NULL;
    sim_object_destroy(e, SIM_EXEC);
}

/* Whether it may be launched or changed: its kernels went with its context. */
static CUresult check(CUgraphExec exec)
{
    if (!sim_object_is(exec, SIM_EXEC))
        return CUDA_ERROR_INVALID_VALUE;
    return sim_object_is(((struct sim_exec *)exec)->ctx, SIM_CONTEXT)
               ? CUDA_SUCCESS
               : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

static CUresult instantiate(CUgraphExec *out, CUgraph graph, cuuint64_t flags, size_t node_bytes)
{
    struct sim_context *ctx;
    CUresult r = sim_current(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    if (!out || !sim_object_is(graph, SIM_GRAPH))
        return CUDA_ERROR_INVALID_VALUE;
    if (atomic_load(&sim_captures)) {
        r = sim_capture_unsafe();
        if (r != CUDA_SUCCESS)
            return r;
    }
    sim_wait_for_graph(ctx);
    pthread_mutex_lock(&sim_lock);
    unsigned int n = flat_count((struct sim_graph *)graph);
    struct sim_exec *e = sim_object_new(SIM_EXEC, sizeof *e);
    e->ctx = ctx->root;
    e->flags = flags;
    e->image = calloc(1, sizeof *e->image + n * sizeof e->image->steps[0]);
    e->nodes = calloc(n + 1, sizeof *e->nodes);
    if (!e->image || !e->nodes) {
        r = CUDA_ERROR_OUT_OF_MEMORY;
    } else {
        atomic_init(&e->image->refs, 1);
        e->image->node_priorities = flags & CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
        if (!flatten((struct sim_graph *)graph, e))
            r = CUDA_ERROR_INVALID_VALUE;
        else
            r = sim_mem_take(ctx->root, n * node_bytes);
        e->bytes = r == CUDA_SUCCESS ? n * node_bytes : 0;
    }
    ctx->root->graphs++;
    if (r == CUDA_SUCCESS)
        *out = (CUgraphExec)e;
    else
        exec_free(e);
    pthread_mutex_unlock(&sim_lock);
    return r;
}

SIM_API(cuGraphInstantiateWithFlags, (CUgraphExec * out, CUgraph graph, unsigned long long flags),
        (out, graph, flags))
{
    return flags > 15 ? CUDA_ERROR_INVALID_VALUE
                      : instantiate(out, graph, flags, sim_settings.node_bytes);
}

static CUresult instantiate_log(CUgraphExec *out, CUgraph graph, CUgraphNode *bad, char *log,
                                size_t size)
{
    if (bad)
        *bad = NULL;
    if (log && size)
        *log = '\0';
    return instantiate(out, graph, 0, sim_settings.node_bytes);
}

SIM_API(cuGraphInstantiate,
        (CUgraphExec * out, CUgraph graph, CUgraphNode *bad, char *log, size_t size),
        (out, graph, bad, log, size))
{
    return instantiate_log(out, graph, bad, log, size);
}

SIM_API(cuGraphInstantiate_v2,
        (CUgraphExec * out, CUgraph graph, CUgraphNode *bad, char *log, size_t size),
        (out, graph, bad, log, size))
{
    return instantiate_log(out, graph, bad, log, size);
}

SIM_API2(cuGraphInstantiateWithParams, cuGraphInstantiateWithParams_ptsz,
         (CUgraphExec * out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params),
         (out, graph, params))
{
    (void)ptsz;
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    params->hErrNode_out = NULL;
    CUresult r = instantiate(out, graph, params->flags, sim_settings.node_bytes);
    params->result_out =
        r == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
    return r;
}

SIM_API(cuGraphExecDestroy, (CUgraphExec exec), (exec))
{
    if (sim_running)
        return CUDA_ERROR_NOT_PERMITTED;
    if (!sim_object_is(exec, SIM_EXEC))
        return CUDA_ERROR_INVALID_VALUE;
    sim_wait_alone(((struct sim_exec *)exec)->ctx);
    pthread_mutex_lock(&sim_lock);
    exec_free((struct sim_exec *)exec);
    pthread_mutex_unlock(&sim_lock);
    if (sim_settings.slow_us)
        usleep(sim_settings.slow_us);
    return CUDA_SUCCESS;
}

SIM_API(cuGraphExecGetFlags, (CUgraphExec exec, cuuint64_t *flags), (exec, flags))
{
    if (!flags || !sim_object_is(exec, SIM_EXEC))
        return CUDA_ERROR_INVALID_VALUE;
    *flags = ((struct sim_exec *)exec)->flags;
    return CUDA_SUCCESS;
}

SIM_API2(cuGraphUpload, cuGraphUpload_ptsz, (CUgraphExec exec, CUstream stream), (exec, stream))
{
    struct sim_stream *s;
    CUresult r = sim_stream_find(stream, ptsz, &s);
    if (r == CUDA_SUCCESS)
        r = check(exec);
    if (r != CUDA_SUCCESS)
        return r;
    SIM_USES(exec, true);
    if (atomic_load(&s->capture))
        return sim_capture_refuse(s);
    return (CUresult)atomic_load(&s->ctx->error);
}

SIM_API2(cuGraphLaunch, cuGraphLaunch_ptsz, (CUgraphExec exec, CUstream stream), (exec, stream))
{
    struct sim_stream *s;
    CUresult r = sim_stream_find(stream, ptsz, &s);
    if (r == CUDA_SUCCESS)
        r = check(exec);
    if (r != CUDA_SUCCESS)
        return r;
    struct sim_exec *e = (struct sim_exec *)exec;
    if (sim_settings.mode == SIM_NULL && !atomic_load(&sim_captures)) {
        if (sim_pace.on)
            sim_pace_submit(s, sim_pace.graph_ns, e->image->count);
        return CUDA_SUCCESS;
    }
    SIM_USES(exec, true);
    r = atomic_load(&s->capture) ? CUDA_SUCCESS : sim_wait_for_room(s);
    if (r != CUDA_SUCCESS)
        return r;
    struct sim_op op = {.kind = SIM_OP_IMAGE};
    pthread_mutex_lock(&sim_lock);
    if (!e->image) { /* destroyed meanwhile */
        pthread_mutex_unlock(&sim_lock);
        return CUDA_ERROR_INVALID_HANDLE;
    }
    op.image = e->image;
    sim_op_hold(&op);
    if (atomic_load(&s->capture) || atomic_load(&s->ctx->error) ||
        (s->legacy && atomic_load(&s->ctx->blocking_captures))) {
        pthread_mutex_unlock(&sim_lock);
        return sim_submit(s, &op, NULL); /* a node of the capture, or an error */
    }
    for (unsigned int i = 0; i < e->image->count; i++)
        if (e->image->steps[i].op.kind == SIM_OP_ALLOC)
            sim_mem_graph_takes(e->image->steps[i].op.memory.address);
    r = sim_submit_exec(s, &op, e);
    uint64_t seq = e->last_seq;
    pthread_mutex_unlock(&sim_lock);
    if (r != CUDA_SUCCESS || !sim_settings.blocking)
        return r;
    sim_stream_wait(s, seq);
    return (CUresult)atomic_load(&s->ctx->error);
}

/* ---- changing an exec
 * ------------------------------------------------------------------------------- */

/* The step of a node, ready to be written. Called under sim_lock. NULL: not of this exec. */
static struct sim_step *writable_step(struct sim_exec *e, struct sim_node *node, bool write)
{
    unsigned int n = e->image ? e->image->count : 0; /* NULL: destroyed meanwhile */
    /* Captured graphs have their nodes in launch order: try the node's own place first. */
    unsigned int i = node->index < n && e->nodes[node->index] == node ? node->index : 0;
    while (i < n && e->nodes[i] != node)
        i++;
    if (i == n)
        return NULL;
    if (write && atomic_load(&e->image->refs) > 1) {
        size_t bytes = sizeof *e->image + n * sizeof e->image->steps[0];
        struct sim_image *copy = malloc(bytes);
        memcpy(copy->steps, e->image->steps, n * sizeof copy->steps[0]);
        copy->count = n;
        copy->node_priorities = e->image->node_priorities;
        atomic_init(&copy->refs, 1);
        for (unsigned int k = 0; k < n; k++)
            sim_op_hold(&copy->steps[k].op);
        sim_image_drop(e->image);
        e->image = copy;
    }
    return &e->image->steps[i];
}

static CUresult replace(CUgraphExec exec, CUgraphNode node, struct sim_op *op)
{
    CUresult r = check(exec);
    if (r == CUDA_SUCCESS && !sim_object_is(node, SIM_NODE))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS) {
        sim_op_drop(op);
        return r;
    }
    r = CUDA_ERROR_INVALID_VALUE;
    SIM_USES(exec, true);
    sim_pace_call(sim_pace.update_ns);
    pthread_mutex_lock(&sim_lock);
    struct sim_step *step = writable_step((struct sim_exec *)exec, (struct sim_node *)node, true);
    if (step && step->op.kind == op->kind) {
        if (op->kind == SIM_OP_KERNEL) { /* attributes of the node, no parameters */
            op->launch.priority = step->op.launch.priority;
            op->launch.cooperative = step->op.launch.cooperative;
        }
        sim_op_drop(&step->op);
        step->op = *op;
        r = CUDA_SUCCESS;
    } else {
        sim_op_drop(op);
    }
    pthread_mutex_unlock(&sim_lock);
    return r;
}

static CUresult replace_kernel(CUgraphExec exec, CUgraphNode node,
                               const CUDA_KERNEL_NODE_PARAMS *params)
{
    struct sim_op op;
    CUresult r = sim_op_from_kernel_params(&op, params);
    return r == CUDA_SUCCESS ? replace(exec, node, &op) : r;
}

SIM_API(cuGraphExecKernelNodeSetParams_v2,
        (CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params),
        (exec, node, params))
{
    return replace_kernel(exec, node, params);
}

SIM_API(cuGraphExecKernelNodeSetParams,
        (CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *params),
        (exec, node, params))
{
    CUDA_KERNEL_NODE_PARAMS now = {0};
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&now, params, sizeof *params);
    return replace_kernel(exec, node, &now);
}

SIM_API(cuGraphExecMemcpyNodeSetParams,
        (CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *params, CUcontext ctx),
        (exec, node, params, ctx))
{
    struct sim_op op = {0};
    (void)ctx;
    CUresult r = sim_op_from_copy_params(&op, params);
    if (r == CUDA_SUCCESS && (op.copy.height != 1 || op.copy.depth != 1))
        r = CUDA_ERROR_INVALID_VALUE;
    return r == CUDA_SUCCESS ? replace(exec, node, &op) : r;
}

SIM_API(cuGraphExecMemsetNodeSetParams,
        (CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *params, CUcontext ctx),
        (exec, node, params, ctx))
{
    struct sim_op op;
    (void)ctx;
    CUresult r = sim_op_from_memset_params(&op, params);
    if (r == CUDA_SUCCESS && op.fill.height != 1)
        r = CUDA_ERROR_INVALID_VALUE;
    return r == CUDA_SUCCESS ? replace(exec, node, &op) : r;
}

SIM_API(cuGraphExecHostNodeSetParams,
        (CUgraphExec exec, CUgraphNode node, const CUDA_HOST_NODE_PARAMS *params),
        (exec, node, params))
{
    if (!params || !params->fn)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_op op = {.kind = SIM_OP_HOST, .host = {.fn = params->fn, .data = params->userData}};
    return replace(exec, node, &op);
}

static CUresult replace_event(CUgraphExec exec, CUgraphNode node, CUevent event,
                              enum sim_op_kind kind)
{
    if (!sim_object_is(event, SIM_EVENT))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_op op = {.kind = kind, .record = {.event = (struct sim_event *)event}};
    return replace(exec, node, &op);
}

SIM_API(cuGraphExecEventRecordNodeSetEvent, (CUgraphExec exec, CUgraphNode node, CUevent event),
        (exec, node, event))
{
    return replace_event(exec, node, event, SIM_OP_RECORD);
}

SIM_API(cuGraphExecEventWaitNodeSetEvent, (CUgraphExec exec, CUgraphNode node, CUevent event),
        (exec, node, event))
{
    return replace_event(exec, node, event, SIM_OP_WAIT);
}

SIM_API(cuGraphNodeSetEnabled, (CUgraphExec exec, CUgraphNode node, unsigned int enabled),
        (exec, node, enabled))
{
    if (!sim_object_is(exec, SIM_EXEC) || !sim_object_is(node, SIM_NODE))
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim_lock);
    struct sim_step *step = writable_step((struct sim_exec *)exec, (struct sim_node *)node, true);
    bool can = step && (step->op.kind == SIM_OP_KERNEL || step->op.kind == SIM_OP_COPY ||
                        step->op.kind == SIM_OP_MEMSET);
    if (can)
        step->enabled = enabled != 0;
    pthread_mutex_unlock(&sim_lock);
    return can ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM_API(cuGraphNodeGetEnabled, (CUgraphExec exec, CUgraphNode node, unsigned int *enabled),
        (exec, node, enabled))
{
    if (!enabled || !sim_object_is(exec, SIM_EXEC) || !sim_object_is(node, SIM_NODE))
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim_lock);
    struct sim_step *step = writable_step((struct sim_exec *)exec, (struct sim_node *)node, false);
    if (step)
        *enabled = step->enabled;
    pthread_mutex_unlock(&sim_lock);
    return step ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- whole-graph update: the same topology, other parameters
 * ---------------------------------------- */

static CUgraphExecUpdateResult compare(struct sim_exec *e, struct sim_exec *now, CUgraphNode *bad)
{
    if (e->image->count != now->image->count)
        return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    for (unsigned int i = 0; i < e->image->count; i++) {
        const struct sim_node *a = e->nodes[i], *b = now->nodes[i];
        *bad = (CUgraphNode)(uintptr_t)b;
        if (e->image->steps[i].op.kind != b->op.kind)
            return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
        if (sim_object_is(a, SIM_NODE) && a->from_count != b->from_count)
            return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    }
    *bad = NULL;
    return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

static CUresult update(CUgraphExec exec, CUgraph graph, CUgraphNode *bad,
                       CUgraphExecUpdateResult *result)
{
    CUgraphExec fresh;
    *bad = NULL;
    *result = CU_GRAPH_EXEC_UPDATE_ERROR;
    CUresult r = check(exec);
    if (r != CUDA_SUCCESS)
        return r;
    r = instantiate(&fresh, graph, ((struct sim_exec *)exec)->flags,
                    0); /* it takes the other's place */
    if (r != CUDA_SUCCESS)
        return r;
    struct sim_exec *e = (struct sim_exec *)exec, *now = (struct sim_exec *)fresh;
    pthread_mutex_lock(&sim_lock);
    *result = compare(e, now, bad);
    if (*result == CU_GRAPH_EXEC_UPDATE_SUCCESS) {
        struct sim_image *old = e->image;
        e->image = now->image;
        now->image = old;
    } else {
        r = CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    }
    exec_free(now);
    pthread_mutex_unlock(&sim_lock);
    return r;
}

SIM_API(cuGraphExecUpdate,
        (CUgraphExec exec, CUgraph graph, CUgraphNode *bad, CUgraphExecUpdateResult *result),
        (exec, graph, bad, result))
{
    CUgraphNode node;
    CUgraphExecUpdateResult what;
    CUresult r = update(exec, graph, bad ? bad : &node, result ? result : &what);
    return r;
}

SIM_API(cuGraphExecUpdate_v2, (CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info),
        (exec, graph, info))
{
    if (!info)
        return CUDA_ERROR_INVALID_VALUE;
    info->errorFromNode = NULL;
    return update(exec, graph, &info->errorNode, &info->result);
}

SIM_API(cuGraphExecNodeSetParams, (CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *p),
        (exec, node, p))
{
    struct sim_op op = {0};
    CUresult r = CUDA_ERROR_NOT_SUPPORTED;
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    if (p->type == CU_GRAPH_NODE_TYPE_KERNEL) /* _v3 has the layout of _v2 */
        return replace_kernel(exec, node, (const CUDA_KERNEL_NODE_PARAMS *)&p->kernel);
    if (p->type == CU_GRAPH_NODE_TYPE_MEMSET)
        r = sim_op_from_memset_params(&op, (const CUDA_MEMSET_NODE_PARAMS *)&p->memset);
    else if (p->type == CU_GRAPH_NODE_TYPE_MEMCPY)
        r = sim_op_from_copy_params(&op, &p->memcpy.copyParams);
    return r == CUDA_SUCCESS ? replace(exec, node, &op) : r;
}
