/*
 * leader.c - graphs of two nodes that do nothing, uploaded ahead of the graphs that are built and
 * launched behind them. graph.h says what for; one node does not help, nor does launching a leader
 * twice, but one leads all graphs that are uploaded between its upload and its launch.
 *
 * They are launched in a stream of their own, which nothing waits for: a program may keep the GPU
 * busy for as long as it likes. Called by the builder, or while that is paused.
 */
#include "capture/graph.h"
#include "capture/op.h"
#include "capture/stats.h"
#include <pthread.h>
#include <stdlib.h>

enum {
    NODES = 2,
    GRAPHS = 8, /* that one leads: what they slow down meanwhile (graph.h) is to end soon */
    KEPT = 16   /* that have been launched; destroying them early would take the driver's locks */
};

struct leader {
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode nodes[NODES];
};

/* Of one context. */
static struct leaders {
    CUcontext ctx;
    CUstream stream; /* they are launched in */
    struct leader ahead, behind[KEPT];
    bool uploaded;             /* `ahead` has been, ahead of `graphs` graphs */
    uint32_t graphs, launched; /* behind[launched % KEPT] is the oldest */
    struct leaders *next;
} * all;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint32_t num_uploaded;

static struct leaders *find(CUcontext ctx)
{
    struct leaders *l = all;
    while (l && l->ctx != ctx)
        l = l->next;
    return l;
}

void ag_leader_prepare(CUcontext ctx)
{
    pthread_mutex_lock(&mutex);
    struct leaders *l = find(ctx) ? NULL : calloc(1, sizeof(*l));
    if (l && AG_REAL(cuStreamCreateWithPriority)(&l->stream, CU_STREAM_NON_BLOCKING, 0) ==
                 CUDA_SUCCESS) {
        l->ctx = ctx;
        l->next = all;
        all = l;
    } else {
        free(l);
    }
    pthread_mutex_unlock(&mutex);
}

static void destroy(struct leader *leader)
{
    if (leader->exec)
        AG_REAL(cuGraphExecDestroy)(leader->exec);
    if (leader->graph)
        AG_REAL(cuGraphDestroy)(leader->graph);
    *leader = (struct leader){0};
}

static bool make(struct leader *leader, CUfunction fill)
{
    struct ag_fill_params nothing = {.height = 0};
    void *params[AG_FILL_PARAMS];
    CUDA_KERNEL_NODE_PARAMS p = {.func = fill,
                                 .gridDimX = 1,
                                 .gridDimY = 1,
                                 .gridDimZ = 1,
                                 .blockDimX = 1,
                                 .blockDimY = 1,
                                 .blockDimZ = 1,
                                 .kernelParams = ag_fill_pointers(&nothing, params)};
    if (AG_REAL(cuGraphCreate)(&leader->graph, 0) != CUDA_SUCCESS) {
        leader->graph = NULL;
        return false;
    }
    for (int i = 0; i < NODES; i++)
        if (AG_REAL(cuGraphAddKernelNode_v2)(&leader->nodes[i], leader->graph,
                                             i ? &leader->nodes[i - 1] : NULL, i > 0,
                                             &p) != CUDA_SUCCESS)
            return false;
    if (AG_REAL(cuGraphInstantiateWithFlags)(&leader->exec, leader->graph, 0) != CUDA_SUCCESS) {
        leader->exec = NULL;
        return false;
    }
    return true;
}

/* Nodes that do nothing are still kernels that a profiler would show: they are disabled first. */
static bool launch(struct leader *leader, CUstream stream)
{
    for (int i = 0; i < NODES; i++)
        if (AG_REAL(cuGraphNodeSetEnabled)(leader->exec, leader->nodes[i], 0) != CUDA_SUCCESS)
            return false;
    return AG_REAL(cuGraphLaunch)(leader->exec, stream) == CUDA_SUCCESS;
}

/* Makes place for one that is launched; false: they may all be under way still. */
static bool make_place(struct leaders *l)
{
    struct leader *oldest = &l->behind[l->launched % KEPT];
    if (!oldest->graph)
        return true;
    if (AG_REAL(cuStreamQuery)(l->stream) != CUDA_SUCCESS)
        return false;
    destroy(oldest);
    return true;
}

/* The current context is its. */
static void launch_ahead(struct leaders *l)
{
    if (!l->uploaded || ag_build_upload(l->ctx) != AG_UPLOAD_DONE)
        return;
    if (!launch(&l->ahead, l->stream))
        ag_count(AG_COUNT_LAUNCH_FAILED);
    l->behind[l->launched++ % KEPT] = l->ahead;
    l->ahead = (struct leader){0};
    l->uploaded = false;
    num_uploaded--;
}

bool ag_leader_go_ahead(CUcontext ctx, CUstream upload)
{
    CUfunction fill = ag_fill_kernel(ctx);
    bool good = true;
    pthread_mutex_lock(&mutex);
    struct leaders *l = fill ? find(ctx) : NULL;
    if (l && l->uploaded && l->graphs >= GRAPHS)
        launch_ahead(l);
    if (l && !l->uploaded && make_place(l)) {
        good =
            make(&l->ahead, fill) && AG_REAL(cuGraphUpload)(l->ahead.exec, upload) == CUDA_SUCCESS;
        if (!good)
            destroy(&l->ahead);
        l->uploaded = good;
        l->graphs = 0;
        num_uploaded += good;
    }
    if (l && l->uploaded)
        l->graphs++;
    pthread_mutex_unlock(&mutex);
    return good;
}

static void in_context(struct leaders *l, void (*what)(struct leaders *))
{
    struct ag_context context = {.handle = l->ctx};
    bool entered = ag_context_enter(&(struct ag_stream){.context = &context});
    CUstreamCaptureMode mode = ag_capture_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
    what(l);
    ag_capture_mode(mode);
    ag_context_leave(entered);
}

void ag_leaders_launch(void)
{
    if (!ag_leaders_wait())
        return;
    pthread_mutex_lock(&mutex);
    for (struct leaders *l = all; l; l = l->next)
        if (l->uploaded)
            in_context(l, launch_ahead);
    pthread_mutex_unlock(&mutex);
}

bool ag_leaders_wait(void)
{
    return num_uploaded > 0;
}

/* What is under way the driver destroys with the context. */
static void destroy_all(struct leaders *l)
{
    if (AG_REAL(cuStreamQuery)(l->stream) == CUDA_SUCCESS)
        for (int i = 0; i < KEPT; i++)
            destroy(&l->behind[i]);
    if (l->uploaded && ag_build_upload(l->ctx) == AG_UPLOAD_DONE)
        destroy(&l->ahead);
    AG_REAL(cuStreamDestroy_v2)(l->stream);
}

void ag_leaders_forget(CUcontext ctx)
{
    pthread_mutex_lock(&mutex);
    for (struct leaders **link = &all; *link;) {
        struct leaders *l = *link;
        if (ctx && l->ctx != ctx) {
            link = &l->next;
            continue;
        }
        in_context(l, destroy_all);
        num_uploaded -= l->uploaded;
        *link = l->next;
        free(l);
    }
    pthread_mutex_unlock(&mutex);
}
