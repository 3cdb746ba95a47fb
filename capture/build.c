/*
 * build.c - makes an executable graph of recorded ops.
 *
 * The ops are launched into a private non-blocking stream that is being captured in relaxed mode:
 * so the driver itself translates launch attributes and programmatic edges (cuda.h, "Graph
 * Management"), and nothing of the program's own streams is touched. Runs in the builder's thread,
 * or in the launching one in inline mode; the stream's context is current.
 */
#include "capture/graph.h"
#include "capture/log.h"
#include "capture/stats.h"
#include <alloca.h>
#include <stdlib.h>
#include <string.h>

/* Private streams, one per context and priority: a captured kernel node takes its stream's
 * priority. */
struct workbench {
    CUcontext ctx;
    int priority;
    CUstream stream;
    struct workbench *next;
};
static struct workbench *workbenches; /* used by one builder at a time */

static CUstream workbench_get(CUcontext ctx, int priority)
{
    struct workbench *w;
    for (w = workbenches; w; w = w->next)
        if (w->ctx == ctx && w->priority == priority)
            return w->stream;
    w = calloc(1, sizeof(*w));
    if (!w || AG_REAL(cuStreamCreateWithPriority)(&w->stream, CU_STREAM_NON_BLOCKING, priority) !=
                  CUDA_SUCCESS) {
        free(w);
        return NULL;
    }
    w->ctx = ctx;
    w->priority = priority;
    w->next = workbenches;
    workbenches = w;
    return w->stream;
}

void ag_build_forget_context(CUcontext ctx)
{
    for (struct workbench **link = &workbenches; *link;) {
        struct workbench *w = *link;
        if (ctx && w->ctx != ctx) {
            link = &w->next;
            continue;
        }
        AG_REAL(cuStreamDestroy_v2)(w->stream);
        *link = w->next;
        free(w);
    }
}

static CUresult record_op(CUstream stream, const struct ag_shape *shape, const uint8_t *bytes)
{
    struct ag_stream target = {.handle = stream};
    return ag_submit_staged(&target, shape, bytes);
}

/* The node that the last captured op became: what the stream would depend on next. */
static CUgraphNode last_node(CUstream stream)
{
    CUstreamCaptureStatus status;
    cuuint64_t id;
    CUgraph graph;
    const CUgraphNode *dependencies;
    size_t n = 0;
    if (AG_REAL(cuStreamGetCaptureInfo_v2)(stream, &status, &id, &graph, &dependencies, &n) !=
            CUDA_SUCCESS ||
        status != CU_STREAM_CAPTURE_STATUS_ACTIVE || n != 1)
        return NULL;
    return dependencies[0];
}

static bool record(const struct ag_graphs *g, const uint8_t *bytes, CUstream stream,
                   struct ag_variant *v)
{
    bool good = true;
    if (AG_REAL(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_RELAXED) != CUDA_SUCCESS)
        return false;
    for (uint32_t i = 0; i < g->count && good; i++) {
        const struct ag_staged *op = &g->ops[i];
        CUresult r = record_op(stream, op->shape, bytes + op->offset);
        v->nodes[i].node = r == CUDA_SUCCESS ? last_node(stream) : NULL;
        good = v->nodes[i].node && (i == 0 || v->nodes[i].node != v->nodes[i - 1].node);
        if (!good)
            ag_info("build", "op %u of %u could not be recorded, error %d", i, g->count, (int)r);
    }
    CUresult r = AG_REAL(cuStreamEndCapture)(stream, &v->graph);
    return good && r == CUDA_SUCCESS && v->graph;
}

static bool read_nodes(const struct ag_graphs *g, struct ag_variant *v)
{
    for (uint32_t i = 0; i < g->count; i++) {
        CUDA_KERNEL_NODE_PARAMS p;
        memset(&p, 0, sizeof(p));
        if (AG_REAL(cuGraphKernelNodeGetParams_v2)(v->nodes[i].node, &p) != CUDA_SUCCESS)
            return false;
        v->nodes[i].func = p.func;
        v->nodes[i].kern = p.kern;
        v->nodes[i].ctx = p.ctx;
    }
    return true;
}

struct ag_variant *ag_variant_build(const struct ag_graphs *g, const uint8_t *bytes)
{
    CUstream stream = workbench_get(g->context->handle, g->priority);
    struct ag_variant *v = calloc(1, sizeof(*v));
    if (!stream || !v)
        goto fail;
    v->nodes = calloc(g->count, sizeof(*v->nodes));
    v->bytes = malloc(g->num_bytes + 1);
    if (!v->nodes || !v->bytes)
        goto fail;
    memcpy(v->bytes, bytes, g->num_bytes);
    if (!record(g, bytes, stream, v) || !read_nodes(g, v))
        goto fail;
    CUresult r = AG_REAL(cuGraphInstantiateWithFlags)(&v->exec, v->graph, 0);
    if (r != CUDA_SUCCESS) {
        v->exec = NULL;
        ag_info("build", "cuGraphInstantiate failed with error %d", (int)r);
        goto fail;
    }
    if (AG_REAL(cuGraphUpload)(v->exec, stream) != CUDA_SUCCESS)
        goto fail;
    return v;
fail:
    ag_variant_destroy(v);
    ag_count(AG_COUNT_BUILD_FAILED);
    return NULL;
}

void ag_variant_destroy(struct ag_variant *v)
{
    if (!v)
        return;
    if (v->exec)
        AG_REAL(cuGraphExecDestroy)(v->exec);
    if (v->graph)
        AG_REAL(cuGraphDestroy)(v->graph);
    free(v->nodes);
    free(v->bytes);
    free(v);
}

void ag_graphs_destroy(struct ag_graphs *g)
{
    for (uint32_t i = 0; i < g->num_variants; i++)
        ag_variant_destroy(g->variants[i]);
    ag_variant_destroy(atomic_load(&g->incoming));
    free(g->history);
    free(g->ops);
    free(g);
}
