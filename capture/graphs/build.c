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
#include "capture/settings/log.h"
#include "capture/graphs/node.h"
#include "capture/tracking/fork.h"
#include "capture/tracking/hostmemory.h"
#include <stdlib.h>

/* What must have ended before something begins: of each branch its ops up to this one, which count
 * from 1. */
struct before {
    uint32_t ops[AG_BRANCHES];
};

/* Where each branch is, and behind what each of the last records was made. */
struct front {
    struct before next[AG_BRANCHES], records[AG_MOST_DISTANCE + 1];
    uint32_t num_records;
    uint32_t waited; /* bits by branch: it has waited for an event since its last op */
};

/* A wait for a record that lies before the chunk is one for what the chunk is behind anyway. */
static void add_event(struct front *front, const struct ag_signature *signature)
{
    struct before *next = &front->next[signature->branch];
    uint32_t places = AG_MOST_DISTANCE + 1;
    if (signature->kind == AG_OP_RECORD) {
        front->records[front->num_records++ % places] = *next;
        return;
    }
    uint32_t distance = (uint32_t)signature->width;
    front->waited |= 1u << signature->branch;
    if (distance >= front->num_records)
        return;
    const struct before *record = &front->records[(front->num_records - 1 - distance) % places];
    for (uint32_t i = 0; i < AG_BRANCHES; i++)
        if (next->ops[i] < record->ops[i])
            next->ops[i] = record->ops[i];
}

/* A graph with several beginnings takes the GPU longer (docs/results-log.md), so one best begins
 * where the branches have just joined, and not between a fork and the first op behind it. And a
 * graph goes behind all of the one before: so a chunk that ends while some branch has not joined
 * would make the ops of the next wait for more than the program asked for. */
enum ag_ends ag_graphs_ends(void *context, const ag_key *keys, uint32_t n, uint8_t *ends)
{
    struct front front = {.num_records = 0};
    struct before last = {.ops = {0}};
    bool branches = false, reads = false;
    (void)context;
    for (uint32_t i = 0; i < n; i++) {
        const struct ag_signature *signature = ag_key_signature(keys[i]);
        uint8_t branch = signature->branch;
        branches |= branch;
        if (ag_signature_is_event(signature)) {
            add_event(&front, signature);
        } else {
            front.next[branch].ops[branch] = last.ops[branch] = i + 1;
            front.waited &= ~(1u << branch);
        }
        bool joined = true, forks = front.waited & ~1u;
        for (uint32_t k = 0; k < AG_BRANCHES; k++)
            joined &= front.next[0].ops[k] >= last.ops[k];
        bool joins = (signature->kind == AG_OP_WAIT || signature->reads) && !branch;
        ends[i] = joined && joins ? AG_BEST_END : joined && !forks ? AG_GOOD_END : AG_NO_END;
        for (uint32_t k = i; signature->reads && k; k--) { /* no graph begins with it (request.c) */
            ends[k - 1] = AG_NO_END;
            if (!ag_signature_is_event(ag_key_signature(keys[k - 1])))
                break; /* a record is no node */
        }
        reads |= signature->reads;
    }
    return branches ? AG_OWN_ENDS : reads ? AG_SOME_ENDS : AG_ANY_ENDS;
}

/* Adds a fence in front of an op that may write to memory of the host or of another device, if one
 * before it in the graph may: who polls a word of the second may then read what the first wrote. */
static CUresult add_fence(const struct ag_graphs *g, struct ag_variant *v, struct ag_node *fence,
                          const struct ag_node **after, uint32_t *n)
{
    CUresult r = *n ? ag_node_add_fence(v->graph, g, after, *n, fence) : CUDA_SUCCESS;
    if (*n) {
        after[0] = fence;
        *n = 1;
    }
    return r;
}

static bool add_nodes(const struct ag_graphs *g, const uint8_t *bytes, struct ag_variant *v,
                      uint32_t *nodes)
{
    struct front front = {.num_records = 0};
    bool named = false; /* memory outside, by an op before */
    if (AG_REAL(cuGraphCreate)(&v->graph, 0) != CUDA_SUCCESS ||
        AG_REAL(cuCtxGetDevice)(&v->device) != CUDA_SUCCESS)
        return false;
    *nodes = 0;
    for (uint32_t i = 0; i < g->count; i++) {
        const struct ag_recorded *op = &g->ops[i];
        const struct ag_signature *signature = ag_key_signature(op->key);
        const struct ag_node *after[AG_BRANCHES];
        struct before *next = &front.next[signature->branch];
        uint32_t n = 0;
        if (ag_signature_is_event(signature)) {
            add_event(&front, signature);
            continue;
        }
        for (uint32_t k = 0; k < AG_BRANCHES; k++)
            if (next->ops[k])
                after[n++] = &v->nodes[next->ops[k] - 1];
        bool waited = front.waited & 1u << signature->branch;
        bool names = ag_signature_needs_fence(signature) ||
                     ag_outside_is_named(signature, bytes + op->offset, v->device);
        struct ag_node fence;
        CUresult r = names && named ? add_fence(g, v, &fence, after, &n) : CUDA_SUCCESS;
        if (r == CUDA_SUCCESS)
            r = ag_node_add(v->graph, g, signature, bytes + op->offset, after, n, waited,
                            &v->nodes[i]);
        if (r != CUDA_SUCCESS) {
            ag_info("build", "op %u of %u could not be added, error %d", i, g->count, (int)r);
            return false;
        }
        v->nodes[i].names_outside = names;
        named |= names;
        *next = (struct before){.ops = {[0] = 0}};
        next->ops[signature->branch] = i + 1;
        front.waited &= ~(1u << signature->branch);
        ++*nodes;
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
    uint32_t nodes;
    struct ag_variant *v = calloc(1, sizeof(*v));
    if (!v)
        goto fail;
    v->nodes = calloc(g->count, sizeof(*v->nodes));
    v->bytes = malloc(g->num_bytes + 1);
    if (!v->nodes || !v->bytes)
        goto fail;
    memcpy(v->bytes, bytes, g->num_bytes);
    v->host_memory_epoch = atomic_load(&ag_host_memory_epoch); /* first: more may come meanwhile */
    if (!add_nodes(g, bytes, v, &nodes))
        goto fail;
    if (!nodes) /* records and waits alone */
        return v;
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
