/*
 * build.c - makes an executable graph of recorded ops.
 *
 * It adds the nodes one by one. Capturing a private stream instead would be less code. But while
 * any stream of a context captures, cuCtxSynchronize and the like fail in every thread of the
 * program (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, seen on an H100, driver 580). This code runs in
 * the builder's thread, or in the launching thread in inline mode. The stream's context is current.
 */
#include "capture/graphs/build.h"
#include "capture/tracking/count.h"
#include "capture/graphs/graph.h"
#include "capture/settings/log.h"
#include "capture/graphs/node.h"
#include "capture/tracking/signature.h"
#include "capture/tracking/stream.h"
#include "driver/entries.h"
#include <stdlib.h>
#include <string.h>

static bool add_nodes(const struct ag_graphs *g, const uint8_t *bytes, struct ag_variant *v)
{
    if (AG_REAL(cuGraphCreate)(&v->graph, 0) != CUDA_SUCCESS)
        return false;
    for (uint32_t i = 0; i < g->count; i++) {
        const struct ag_recorded *op = &g->ops[i];
        CUresult r = ag_node_add(v->graph, g, ag_key_signature(op->key), bytes + op->offset,
                                 i ? &v->nodes[i - 1] : NULL, &v->nodes[i]);
        if (r != CUDA_SUCCESS) {
            ag_info("build", "op %u of %u could not be added, error %d", i, g->count, (int)r);
            return false;
        }
    }
    return true;
}

/* Whether a launch has asked for a priority of its own. */
static bool names_priority(const struct ag_graphs *g)
{
    for (uint32_t i = 0; i < g->count; i++) {
        const struct ag_signature *signature = ag_key_signature(g->ops[i].key);
        for (uint32_t k = 0; k < signature->num_attrs; k++)
            if (signature->attrs[k].id == CU_LAUNCH_ATTRIBUTE_PRIORITY)
                return true;
    }
    return false;
}

/* By default a graph has the priority of the stream that it is launched into, whatever its nodes
 * say (CUDA Driver API, CUgraphInstantiate_flags). */
static CUresult instantiate(const struct ag_graphs *g, struct ag_variant *v)
{
    unsigned long long flags =
        names_priority(g) ? CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY : 0;
    return AG_REAL(cuGraphInstantiateWithFlags)(&v->exec, v->graph, flags);
}

static void variant_destroy(struct ag_variant *v)
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

struct ag_variant *ag_variant_build(const struct ag_graphs *g, const uint8_t *bytes)
{
    struct ag_variant *v = calloc(1, sizeof(*v));
    if (!v)
        goto fail;
    v->nodes = calloc(g->count, sizeof(*v->nodes));
    v->bytes = malloc(g->num_bytes + 1);
    if (!v->nodes || !v->bytes)
        goto fail;
    memcpy(v->bytes, bytes, g->num_bytes);
    if (!add_nodes(g, bytes, v))
        goto fail;
    CUresult r = instantiate(g, v);
    if (r != CUDA_SUCCESS) {
        v->exec = NULL;
        ag_info("build", "cuGraphInstantiate failed with error %d", (int)r);
        goto fail;
    }
    return v;
fail:
    variant_destroy(v);
    ag_count(AG_COUNT_BUILD_FAILED);
    return NULL;
}

void ag_graphs_destroy(struct ag_graphs *g)
{
    for (uint32_t i = 0; i < g->num_variants; i++)
        variant_destroy(g->variants[i]);
    variant_destroy(atomic_load(&g->incoming));
    free(g->history);
    free(g->ops);
    free(g);
}
