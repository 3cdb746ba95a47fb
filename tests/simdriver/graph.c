/* graph.c - the structure of graphs: creation, nodes, edges, clones. */
#include "sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Atomic uint64_t next_id = 1;

struct sim_graph *sim_graph_new(void)
{
    struct sim_graph *g = sim_object_new(SIM_GRAPH, sizeof *g);
    if (g)
        g->id = atomic_fetch_add(&next_id, 1);
    return g;
}

static void node_free(struct sim_node *n)
{
    if (n->op.kind == SIM_OP_CHILD && n->op.child)
        sim_graph_free(n->op.child);
    sim_op_drop(&n->op);
    n->op.kind = SIM_OP_EMPTY;
    free(n->from);
    free(n->shown);
    n->from = NULL;
    n->shown = NULL;
    sim_object_destroy(n, SIM_NODE);
}

void sim_graph_free(struct sim_graph *g)
{
    for (unsigned int i = 0; i < g->count; i++)
        node_free(g->nodes[i]);
    free(g->nodes);
    g->nodes = NULL;
    g->count = 0;
    sim_object_destroy(g, SIM_GRAPH);
}

CUresult sim_graph_add(struct sim_graph *g, CUgraphNode const *from, size_t count,
                       struct sim_op *op, struct sim_node **out)
{
    CUresult r = count && !from ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    for (size_t i = 0; r == CUDA_SUCCESS && i < count; i++)
        if (!sim_object_is(from[i], SIM_NODE) || ((struct sim_node *)from[i])->graph != g)
            r = CUDA_ERROR_INVALID_VALUE;
    struct sim_node *n = r == CUDA_SUCCESS ? sim_object_new(SIM_NODE, sizeof *n) : NULL;
    if (!n) {
        sim_op_drop(op);
        return r == CUDA_SUCCESS ? CUDA_ERROR_OUT_OF_MEMORY : r;
    }
    if ((g->count & (g->count - 1)) == 0) /* room doubles at every power of two */
        g->nodes = realloc(g->nodes, (g->count ? g->count * 2 : 1) * sizeof *g->nodes);
    n->graph = g;
    n->op = *op;
    n->index = g->count;
    sim_tips_set(&n->from, &n->from_count, (struct sim_node *const *)from, (unsigned int)count);
    g->nodes[g->count++] = n;
    *out = n;
    return CUDA_SUCCESS;
}

bool sim_graph_sort(struct sim_graph *g, struct sim_node **out)
{
    unsigned int done = 0;
    bool *placed = calloc(g->count + 1, sizeof *placed);
    bool progress = true;
    while (done < g->count && progress) {
        progress = false;
        for (unsigned int k = 0; k < g->count; k++) {
            /* one at a time, from the end, so that what no edge orders comes the other way round */
            unsigned int i = sim_settings.graphs_last_first ? g->count - 1 - k : k;
            if (progress && sim_settings.graphs_last_first)
                break;
            bool ready = !placed[i];
            for (unsigned int from = 0; ready && from < g->nodes[i]->from_count; from++)
                ready = placed[g->nodes[i]->from[from]->index];
            if (ready) {
                placed[i] = progress = true;
                out[done++] = g->nodes[i];
            }
        }
    }
    free(placed);
    return done == g->count;
}

CUresult sim_graph_clone(struct sim_graph *g, struct sim_graph **out)
{
    struct sim_graph *copy = sim_graph_new();
    if (!copy)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (unsigned int i = 0; i < g->count; i++) {
        struct sim_op op = g->nodes[i]->op;
        struct sim_node *n;
        sim_op_hold(&op);
        if (op.kind == SIM_OP_CHILD) {
            CUresult r = sim_graph_clone(op.child, &op.child);
            if (r != CUDA_SUCCESS)
                return r;
            op.child->child = true;
        }
        CUresult r = sim_graph_add(copy, NULL, 0, &op, &n);
        if (r != CUDA_SUCCESS)
            return r;
        n->original = g->nodes[i];
    }
    for (unsigned int i = 0; i < g->count; i++) {
        struct sim_node *from = g->nodes[i], *to = copy->nodes[i];
        sim_tips_set(&to->from, &to->from_count, from->from, from->from_count);
        for (unsigned int k = 0; k < to->from_count; k++)
            to->from[k] = copy->nodes[to->from[k]->index];
    }
    *out = copy;
    return CUDA_SUCCESS;
}

SIM_API(cuGraphCreate, (CUgraph * out, unsigned int flags), (out, flags))
{
    if (!out || flags)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUgraph)sim_graph_new();
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

SIM_API(cuGraphDestroy, (CUgraph graph), (graph))
{
    if (!sim_object_is(graph, SIM_GRAPH) || ((struct sim_graph *)graph)->child)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim_lock);
    sim_graph_free((struct sim_graph *)graph);
    pthread_mutex_unlock(&sim_lock);
    return CUDA_SUCCESS;
}

SIM_API(cuGraphClone, (CUgraph * out, CUgraph graph), (out, graph))
{
    if (!out || !sim_object_is(graph, SIM_GRAPH))
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim_lock);
    CUresult r = sim_graph_clone((struct sim_graph *)graph, (struct sim_graph **)out);
    pthread_mutex_unlock(&sim_lock);
    return r;
}

SIM_API(cuGraphNodeFindInClone, (CUgraphNode * out, CUgraphNode original, CUgraph clone),
        (out, original, clone))
{
    if (!out || !sim_object_is(original, SIM_NODE) || !sim_object_is(clone, SIM_GRAPH))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_graph *g = (struct sim_graph *)clone;
    for (unsigned int i = 0; i < g->count; i++)
        if (g->nodes[i]->original == (struct sim_node *)original) {
            *out = (CUgraphNode)g->nodes[i];
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_INVALID_VALUE;
}

/* ---- lists: with no array the count is asked for; what does not fit is left out
 * --------------------- */

struct list {
    CUgraphNode *out;
    size_t room, found;
};

static void put(struct list *l, struct sim_node *n)
{
    if (l->out && l->found < l->room)
        l->out[l->found] = (CUgraphNode)n;
    l->found++;
}

static void finish(struct list *l, size_t *count)
{
    for (size_t i = l->found; l->out && i < l->room; i++)
        l->out[i] = NULL;
    *count = l->out && l->found > l->room ? l->room : l->found;
}

static CUresult nodes_of(CUgraph graph, CUgraphNode *out, size_t *count, bool roots)
{
    if (!count || !sim_object_is(graph, SIM_GRAPH))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_graph *g = (struct sim_graph *)graph;
    struct list l = {out, *count, 0};
    for (unsigned int i = 0; i < g->count; i++)
        if (!roots || !g->nodes[i]->from_count)
            put(&l, g->nodes[i]);
    finish(&l, count);
    return CUDA_SUCCESS;
}

SIM_API(cuGraphGetNodes, (CUgraph graph, CUgraphNode *nodes, size_t *count), (graph, nodes, count))
{
    return nodes_of(graph, nodes, count, false);
}

SIM_API(cuGraphGetRootNodes, (CUgraph graph, CUgraphNode *nodes, size_t *count),
        (graph, nodes, count))
{
    return nodes_of(graph, nodes, count, true);
}

static CUresult edges_of(CUgraph graph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *data,
                         size_t *count)
{
    if (!count || !sim_object_is(graph, SIM_GRAPH) || !from != !to)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_graph *g = (struct sim_graph *)graph;
    struct list a = {from, *count, 0}, b = {to, *count, 0};
    for (unsigned int i = 0; i < g->count; i++)
        for (unsigned int k = 0; k < g->nodes[i]->from_count; k++) {
            if (data && a.found < a.room)
                memset(&data[a.found], 0, sizeof *data);
            put(&a, g->nodes[i]->from[k]);
            put(&b, g->nodes[i]);
        }
    size_t same = *count;
    finish(&b, &same);
    finish(&a, count);
    return CUDA_SUCCESS;
}

SIM_API(cuGraphGetEdges, (CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count),
        (graph, from, to, count))
{
    return edges_of(graph, from, to, NULL, count);
}

SIM_API(cuGraphGetEdges_v2,
        (CUgraph graph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *data, size_t *count),
        (graph, from, to, data, count))
{
    return edges_of(graph, from, to, data, count);
}

static CUresult neighbours(CUgraphNode handle, CUgraphNode *out, size_t *count, bool before)
{
    if (!count || !sim_object_is(handle, SIM_NODE))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_node *n = (struct sim_node *)handle;
    struct list l = {out, *count, 0};
    for (unsigned int k = 0; before && k < n->from_count; k++)
        put(&l, n->from[k]);
    for (unsigned int i = 0; !before && i < n->graph->count; i++)
        for (unsigned int k = 0; k < n->graph->nodes[i]->from_count; k++)
            if (n->graph->nodes[i]->from[k] == n)
                put(&l, n->graph->nodes[i]);
    finish(&l, count);
    return CUDA_SUCCESS;
}

SIM_API(cuGraphNodeGetDependencies, (CUgraphNode node, CUgraphNode *out, size_t *count),
        (node, out, count))
{
    return neighbours(node, out, count, true);
}

SIM_API(cuGraphNodeGetDependencies_v2,
        (CUgraphNode node, CUgraphNode *out, CUgraphEdgeData *data, size_t *count),
        (node, out, data, count))
{
    if (data && count)
        memset(data, 0, *count * sizeof *data);
    return neighbours(node, out, count, true);
}

SIM_API(cuGraphNodeGetDependentNodes, (CUgraphNode node, CUgraphNode *out, size_t *count),
        (node, out, count))
{
    return neighbours(node, out, count, false);
}

SIM_API(cuGraphNodeGetDependentNodes_v2,
        (CUgraphNode node, CUgraphNode *out, CUgraphEdgeData *data, size_t *count),
        (node, out, data, count))
{
    if (data && count)
        memset(data, 0, *count * sizeof *data);
    return neighbours(node, out, count, false);
}

/* ---- edges
 * ---------------------------------------------------------------------------------------- */

static CUresult change_edges(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                             size_t count, bool add)
{
    if (!sim_object_is(graph, SIM_GRAPH) || (count && (!from || !to)))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = CUDA_SUCCESS;
    pthread_mutex_lock(&sim_lock);
    for (size_t i = 0; i < count && r == CUDA_SUCCESS; i++) {
        struct sim_node *a = (struct sim_node *)from[i], *b = (struct sim_node *)to[i];
        if (!sim_object_is(a, SIM_NODE) || !sim_object_is(b, SIM_NODE) || a == b ||
            a->graph != (struct sim_graph *)graph || b->graph != a->graph) {
            r = CUDA_ERROR_INVALID_VALUE;
            break;
        }
        unsigned int k = 0;
        while (k < b->from_count && b->from[k] != a)
            k++;
        if (add == (k < b->from_count)) {
            r = CUDA_ERROR_INVALID_VALUE; /* there already, or not there */
        } else if (add) {
            b->from = realloc(b->from, (b->from_count + 1) * sizeof *b->from);
            b->from[b->from_count++] = a;
        } else {
            b->from[k] = b->from[--b->from_count];
        }
    }
    pthread_mutex_unlock(&sim_lock);
    return r;
}

SIM_API(cuGraphAddDependencies,
        (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count),
        (graph, from, to, count))
{
    return change_edges(graph, from, to, count, true);
}

SIM_API(cuGraphAddDependencies_v2,
        (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, const CUgraphEdgeData *data,
         size_t count),
        (graph, from, to, data, count))
{
    (void)data;
    return change_edges(graph, from, to, count, true);
}

SIM_API(cuGraphRemoveDependencies,
        (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count),
        (graph, from, to, count))
{
    return change_edges(graph, from, to, count, false);
}

SIM_API(cuGraphRemoveDependencies_v2,
        (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, const CUgraphEdgeData *data,
         size_t count),
        (graph, from, to, data, count))
{
    (void)data;
    return change_edges(graph, from, to, count, false);
}

SIM_API(cuGraphDestroyNode, (CUgraphNode handle), (handle))
{
    if (!sim_object_is(handle, SIM_NODE))
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim_lock);
    struct sim_node *n = (struct sim_node *)handle;
    struct sim_graph *g = n->graph;
    for (unsigned int i = 0; i < g->count; i++) {
        struct sim_node *o = g->nodes[i];
        for (unsigned int k = 0; k < o->from_count; k++)
            if (o->from[k] == n)
                o->from[k--] = o->from[--o->from_count];
    }
    struct sim_node **slots = malloc((g->count * 2 + 1) * sizeof *slots);
    unsigned int kept = 0;
    for (unsigned int i = 0; i < g->count; i++)
        if (g->nodes[i] != n) {
            slots[kept] = g->nodes[i];
            slots[kept]->index = kept;
            kept++;
        }
    free(g->nodes);
    g->nodes = slots;
    g->count = kept;
    node_free(n);
    pthread_mutex_unlock(&sim_lock);
    return CUDA_SUCCESS;
}

SIM_API(cuGraphDebugDotPrint, (CUgraph graph, const char *path, unsigned int flags),
        (graph, path, flags))
{
    (void)flags;
    FILE *out = path && sim_object_is(graph, SIM_GRAPH) ? fopen(path, "w") : NULL;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_graph *g = (struct sim_graph *)graph;
    fprintf(out, "digraph dot {\n");
    for (unsigned int i = 0; i < g->count; i++) {
        const struct sim_op *op = &g->nodes[i]->op;
        fprintf(out, "\"%u\" [label=\"%s\"];\n", i,
                op->kind == SIM_OP_KERNEL ? op->launch.code->name : "");
        for (unsigned int k = 0; k < g->nodes[i]->from_count; k++)
            fprintf(out, "\"%u\" -> \"%u\";\n", g->nodes[i]->from[k]->index, i);
    }
    fprintf(out, "}\n");
    return fclose(out) == 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}
