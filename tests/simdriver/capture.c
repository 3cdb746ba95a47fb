/*
 * capture.c - stream capture: which calls a capture takes in, forbids, or is broken by.
 *
 * A capturing stream keeps its tips: the nodes that its next op will depend on. An event recorded
 * there takes a copy of them, and a stream that waits for the event joins the capture.
 */
#include "sim.h"
#include "newer.h"
#include <stdlib.h>
#include <string.h>

_Atomic int sim_captures;
static struct sim_capture *captures;
static uint64_t next_id = 1;
static _Thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

void sim_tips_set(struct sim_node ***tips, unsigned int *count, struct sim_node *const *nodes,
                  unsigned int n)
{
    struct sim_node **copy = n ? malloc(n * sizeof *copy) : NULL;
    if (n)
        memcpy(copy, nodes, n * sizeof *copy);
    free(*tips);
    *tips = copy;
    *count = n;
}

static void tips_join(struct sim_stream *s, struct sim_node *const *nodes, unsigned int n)
{
    struct sim_node **all = malloc((s->tip_count + n + 1) * sizeof *all);
    unsigned int count = s->tip_count;
    if (count)
        memcpy(all, s->tips, count * sizeof *all);
    for (unsigned int i = 0; i < n; i++) {
        unsigned int k = 0;
        while (k < count && all[k] != nodes[i])
            k++;
        if (k == count)
            all[count++] = nodes[i];
    }
    sim_tips_set(&s->tips, &s->tip_count, all, count);
    free(all);
}

static void join(struct sim_capture *c, struct sim_stream *s)
{
    c->streams = realloc(c->streams, (c->stream_count + 1) * sizeof *c->streams);
    c->streams[c->stream_count++] = s;
    if (!(s->flags & CU_STREAM_NON_BLOCKING))
        atomic_fetch_add(&s->ctx->blocking_captures, 1);
    atomic_store(&s->capture, c);
}

/* Takes the capture apart; its graph is the caller's. */
static void dissolve(struct sim_capture *c)
{
    for (struct sim_capture **p = &captures; *p; p = &(*p)->next)
        if (*p == c) {
            *p = c->next;
            break;
        }
    for (unsigned int i = 0; i < c->stream_count; i++) {
        struct sim_stream *s = c->streams[i];
        if (!(s->flags & CU_STREAM_NON_BLOCKING))
            atomic_fetch_sub(&s->ctx->blocking_captures, 1);
        sim_tips_set(&s->tips, &s->tip_count, NULL, 0);
        atomic_store(&s->capture, NULL);
    }
    atomic_fetch_sub(&sim_captures, 1);
    free(c->streams);
    free(c);
}

static CUresult begin(CUstream handle, bool ptsz, CUstreamCaptureMode mode, struct sim_graph *into,
                      const CUgraphNode *from, size_t count, bool again)
{
    struct sim_stream *s;
    CUresult r = sim_stream_find(handle, ptsz, &s);
    if (r != CUDA_SUCCESS)
        return r;
    if ((unsigned int)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    if (s->legacy)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (atomic_load(&s->ctx->error))
        return (CUresult)atomic_load(&s->ctx->error);
    pthread_mutex_lock(&sim_lock);
    if (atomic_load(&s->capture)) {
        r = CUDA_ERROR_ILLEGAL_STATE;
    } else {
        struct sim_capture *c = calloc(1, sizeof *c);
        c->id = next_id++;
        c->mode = mode;
        c->thread = pthread_self();
        c->into_given_graph = into != NULL;
        c->again = again && into;
        c->graph = into ? into : sim_graph_new();
        c->origin = s;
        c->next = captures;
        captures = c;
        sim_tips_set(&s->tips, &s->tip_count, (struct sim_node *const *)from, (unsigned int)count);
        join(c, s);
        atomic_fetch_add(&sim_captures, 1);
    }
    pthread_mutex_unlock(&sim_lock);
    return r;
}

SIM_API2(cuStreamBeginCapture_v2, cuStreamBeginCapture_v2_ptsz,
         (CUstream stream, CUstreamCaptureMode mode), (stream, mode))
{
    return begin(stream, ptsz, mode, NULL, NULL, 0, false);
}

SIM_API2(cuStreamBeginCapture, cuStreamBeginCapture_ptsz, (CUstream stream), (stream))
{
    return begin(stream, ptsz, CU_STREAM_CAPTURE_MODE_GLOBAL, NULL, NULL, 0, false);
}

SIM_API2(cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph_ptsz,
         (CUstream stream, CUgraph graph, const CUgraphNode *from, const CUgraphEdgeData *edges,
          size_t count, CUstreamCaptureMode mode),
         (stream, graph, from, edges, count, mode))
{
    (void)edges;
    if (!sim_object_is(graph, SIM_GRAPH) || (count && !from))
        return CUDA_ERROR_INVALID_VALUE;
    return begin(stream, ptsz, mode, (struct sim_graph *)graph, from, count, false);
}

CUresult sim_capture_again(CUstream stream, bool ptsz, CUstreamCaptureMode mode,
                           struct sim_graph *graph)
{
    return begin(stream, ptsz, mode, graph, NULL, 0, true);
}

/* Whether `target` comes before, or is, one of the nodes. */
static bool reaches(struct sim_graph *g, struct sim_node *const *nodes, unsigned int n,
                    const struct sim_node *target, bool *seen)
{
    for (unsigned int i = 0; i < n; i++) {
        if (nodes[i] == target)
            return true;
        if (seen[nodes[i]->index])
            continue;
        seen[nodes[i]->index] = true;
        if (reaches(g, nodes[i]->from, nodes[i]->from_count, target, seen))
            return true;
    }
    return false;
}

static bool joined(const struct sim_capture *c)
{
    for (unsigned int i = 1; i < c->stream_count; i++)
        for (unsigned int t = 0; t < c->streams[i]->tip_count; t++) {
            bool *seen = calloc(c->graph->count + 1, 1);
            bool found = reaches(c->graph, c->origin->tips, c->origin->tip_count,
                                 c->streams[i]->tips[t], seen);
            free(seen);
            if (!found)
                return false;
        }
    return true;
}

SIM_API2(cuStreamEndCapture, cuStreamEndCapture_ptsz, (CUstream handle, CUgraph *out),
         (handle, out))
{
    struct sim_stream *s;
    CUresult r = sim_stream_find(handle, ptsz, &s);
    if (r == CUDA_SUCCESS && !out)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        return r;
    *out = NULL;
    pthread_mutex_lock(&sim_lock);
    struct sim_capture *c = atomic_load(&s->capture);
    struct sim_graph *unwanted = NULL;
    if (!c) {
        r = CUDA_ERROR_ILLEGAL_STATE;
    } else if (c->origin != s) {
        c->invalid = true;
        r = CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    } else if (c->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
               !pthread_equal(c->thread, pthread_self())) {
        r = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    } else {
        if (c->invalid)
            r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        else if (!joined(c))
            r = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
        else if (c->again && c->redone != c->graph->count)
            r = CUSIM_ERROR_GRAPH_RECAPTURE_FAILURE;
        else
            *out = (CUgraph)c->graph;
        if (r != CUDA_SUCCESS && !c->into_given_graph)
            unwanted = c->graph;
        dissolve(c);
    }
    if (unwanted)
        sim_graph_free(unwanted);
    pthread_mutex_unlock(&sim_lock);
    return r;
}

/* The stream is destroyed while it captures. */
void sim_capture_drop(struct sim_stream *s)
{
    pthread_mutex_lock(&sim_lock);
    struct sim_capture *c = atomic_load(&s->capture);
    if (c && c->origin == s) {
        struct sim_graph *g = c->into_given_graph ? NULL : c->graph;
        dissolve(c);
        if (g)
            sim_graph_free(g);
    } else if (c) {
        c->invalid = true;
    }
    pthread_mutex_unlock(&sim_lock);
}

/* ---- what happens to calls
 * ------------------------------------------------------------------------ */

/* The graph's next node takes the op over, if it is of that kind and at that place. */
static CUresult add_again(struct sim_capture *c, struct sim_stream *s, struct sim_op *op,
                          struct sim_node **out)
{
    struct sim_node *n = c->redone < c->graph->count ? c->graph->nodes[c->redone] : NULL;
    bool same = n && n->op.kind == op->kind && n->from_count == s->tip_count &&
                (!s->tip_count || !memcmp(n->from, s->tips, s->tip_count * sizeof *s->tips));
    if (!same) {
        sim_op_drop(op);
        c->invalid = true;
        return CUSIM_ERROR_GRAPH_RECAPTURE_FAILURE;
    }
    sim_op_drop(&n->op);
    n->op = *op;
    c->redone++;
    *out = n;
    return CUDA_SUCCESS;
}

CUresult sim_capture_add(struct sim_stream *s, struct sim_op *op)
{
    CUresult r;
    pthread_mutex_lock(&sim_lock);
    struct sim_capture *c = atomic_load(&s->capture);
    if (!c || c->invalid) {
        sim_op_drop(op);
        r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    } else {
        struct sim_node *node;
        if (c->again)
            r = add_again(c, s, op, &node);
        else
            r = sim_graph_add(c->graph, (const CUgraphNode *)s->tips, s->tip_count, op, &node);
        if (r == CUDA_SUCCESS)
            sim_tips_set(&s->tips, &s->tip_count, &node, 1);
    }
    pthread_mutex_unlock(&sim_lock);
    return r;
}

CUresult sim_capture_record(struct sim_stream *s, struct sim_event *e)
{
    CUresult r = CUDA_SUCCESS;
    pthread_mutex_lock(&sim_lock);
    struct sim_capture *c = atomic_load(&s->capture);
    if (!c || c->invalid) {
        r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    } else {
        pthread_mutex_lock(&e->lock);
        e->capture = c;
        e->capture_id = c->id;
        e->ticket++;
        sim_tips_set(&e->tips, &e->tip_count, s->tips, s->tip_count);
        pthread_mutex_unlock(&e->lock);
    }
    pthread_mutex_unlock(&sim_lock);
    return r;
}

CUresult sim_capture_wait(struct sim_stream *s, struct sim_event *e)
{
    CUresult r = CUDA_SUCCESS;
    pthread_mutex_lock(&sim_lock);
    struct sim_capture *mine = atomic_load(&s->capture), *theirs = captures;
    while (theirs && !(e->capture && theirs->id == e->capture_id))
        theirs = theirs->next;
    if (mine && mine->invalid) {
        r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    } else if (!e->capture) {
        if (e->stream) { /* recorded outside; a never recorded event is complete */
            mine->invalid = true;
            r = CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
        }
    } else if (!theirs) {
        if (mine)
            mine->invalid = true;
        r = mine ? CUDA_ERROR_STREAM_CAPTURE_ISOLATION : CUDA_ERROR_CAPTURED_EVENT;
    } else if (mine && mine != theirs) {
        mine->invalid = theirs->invalid = true;
        r = CUDA_ERROR_STREAM_CAPTURE_MERGE;
    } else if (s->legacy) {
        theirs->invalid = true;
        r = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    } else if (theirs->invalid) {
        r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    } else {
        if (!mine)
            join(theirs, s);
        tips_join(s, e->tips, e->tip_count);
    }
    pthread_mutex_unlock(&sim_lock);
    return r;
}

CUresult sim_capture_refuse(struct sim_stream *s)
{
    pthread_mutex_lock(&sim_lock);
    struct sim_capture *c = atomic_load(&s->capture);
    CUresult r = c && c->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                                 : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (c)
        c->invalid = true;
    pthread_mutex_unlock(&sim_lock);
    return r;
}

CUresult sim_capture_unsafe(void)
{
    CUresult r = CUDA_SUCCESS;
    if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return r;
    pthread_mutex_lock(&sim_lock);
    for (struct sim_capture *c = captures; c; c = c->next) {
        bool own =
            pthread_equal(c->thread, pthread_self()) && c->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
        bool global = c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                      thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
        if (own || global) {
            c->invalid = true;
            r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    }
    pthread_mutex_unlock(&sim_lock);
    return r;
}

CUresult sim_capture_refuse_in(const struct sim_context *ctx, struct sim_event *e)
{
    CUresult r = CUDA_SUCCESS;
    pthread_mutex_lock(&sim_lock);
    if (e)
        pthread_mutex_lock(&e->lock);
    for (struct sim_capture *c = captures; c; c = c->next) {
        bool concerned = e && e->capture && e->capture_id == c->id;
        for (unsigned int i = 0; i < c->stream_count; i++)
            concerned |= c->streams[i]->ctx == ctx || c->streams[i]->ctx->root == ctx;
        c->invalid |= concerned;
        if (concerned)
            r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    if (r == CUDA_SUCCESS && e && e->capture)
        r = CUDA_ERROR_CAPTURED_EVENT;
    if (e)
        pthread_mutex_unlock(&e->lock);
    pthread_mutex_unlock(&sim_lock);
    return r;
}

CUresult sim_capture_implicit(struct sim_context *ctx)
{
    if (!atomic_load(&ctx->blocking_captures))
        return CUDA_SUCCESS;
    pthread_mutex_lock(&sim_lock);
    for (struct sim_capture *c = captures; c; c = c->next)
        for (unsigned int i = 0; i < c->stream_count; i++)
            if (c->streams[i]->ctx == ctx && !(c->streams[i]->flags & CU_STREAM_NON_BLOCKING))
                c->invalid = true;
    pthread_mutex_unlock(&sim_lock);
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
}

SIM_API(cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode * mode), (mode))
{
    if (!mode || (unsigned int)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    CUstreamCaptureMode before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

/* ---- asking and steering
 * -------------------------------------------------------------------------- */

static CUresult info(CUstream handle, bool ptsz, CUstreamCaptureStatus *status, cuuint64_t *id,
                     CUgraph *graph, const CUgraphNode **tips, const CUgraphEdgeData **edges,
                     size_t *count)
{
    struct sim_stream *s;
    CUresult r = sim_stream_find(handle, ptsz, &s);
    if (r != CUDA_SUCCESS)
        return r;
    if (!status)
        return CUDA_ERROR_INVALID_VALUE;
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (!atomic_load(&sim_captures))
        return CUDA_SUCCESS;
    if (s->legacy && atomic_load(&s->ctx->blocking_captures))
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    pthread_mutex_lock(&sim_lock);
    struct sim_capture *c = atomic_load(&s->capture);
    if (c) {
        *status =
            c->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
        if (id)
            *id = c->id;
        if (graph)
            *graph = (CUgraph)c->graph;
        if (tips)
            *tips = (const CUgraphNode *)s->tips;
        if (edges)
            *edges = NULL;
        if (count)
            *count = s->tip_count;
    }
    pthread_mutex_unlock(&sim_lock);
    return CUDA_SUCCESS;
}

SIM_API2(cuStreamGetCaptureInfo, cuStreamGetCaptureInfo_ptsz,
         (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id), (stream, status, id))
{
    return info(stream, ptsz, status, id, NULL, NULL, NULL, NULL);
}

SIM_API2(cuStreamGetCaptureInfo_v2, cuStreamGetCaptureInfo_v2_ptsz,
         (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
          const CUgraphNode **tips, size_t *count),
         (stream, status, id, graph, tips, count))
{
    return info(stream, ptsz, status, id, graph, tips, NULL, count);
}

SIM_API2(cuStreamGetCaptureInfo_v3, cuStreamGetCaptureInfo_v3_ptsz,
         (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
          const CUgraphNode **tips, const CUgraphEdgeData **edges, size_t *count),
         (stream, status, id, graph, tips, edges, count))
{
    return info(stream, ptsz, status, id, graph, tips, edges, count);
}

SIM_API2(cuStreamIsCapturing, cuStreamIsCapturing_ptsz,
         (CUstream stream, CUstreamCaptureStatus *status), (stream, status))
{
    return info(stream, ptsz, status, NULL, NULL, NULL, NULL, NULL);
}

static CUresult update(CUstream handle, bool ptsz, const CUgraphNode *nodes, size_t count,
                       unsigned int flags)
{
    struct sim_stream *s;
    CUresult r = sim_stream_find(handle, ptsz, &s);
    if (r != CUDA_SUCCESS)
        return r;
    if ((count && !nodes) || flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim_lock);
    if (!atomic_load(&s->capture))
        r = CUDA_ERROR_ILLEGAL_STATE;
    else if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES)
        sim_tips_set(&s->tips, &s->tip_count, (struct sim_node *const *)nodes, (unsigned int)count);
    else
        tips_join(s, (struct sim_node *const *)nodes, (unsigned int)count);
    pthread_mutex_unlock(&sim_lock);
    return r;
}

SIM_API2(cuStreamUpdateCaptureDependencies, cuStreamUpdateCaptureDependencies_ptsz,
         (CUstream stream, CUgraphNode *nodes, size_t count, unsigned int flags),
         (stream, nodes, count, flags))
{
    return update(stream, ptsz, nodes, count, flags);
}

SIM_API2(cuStreamUpdateCaptureDependencies_v2, cuStreamUpdateCaptureDependencies_v2_ptsz,
         (CUstream stream, CUgraphNode *nodes, const CUgraphEdgeData *edges, size_t count,
          unsigned int flags),
         (stream, nodes, edges, count, flags))
{
    (void)edges;
    return update(stream, ptsz, nodes, count, flags);
}
