/*
 * leader.c - a graph of two nodes that do nothing, uploaded ahead of another one and launched
 * behind it. graph.h says what for; one node does not help, nor does launching a leader twice.
 */
#include "capture/op.h"
#include "capture/stats.h"
#include <stdlib.h>

enum { NODES = 2 };

struct ag_leader {
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode nodes[NODES];
    bool launched;
};

static bool add_nodes(struct ag_leader *l, CUfunction fill)
{
    struct ag_fill_params nothing = {.height = 0};
    void *params[] = {&nothing.dst, &nothing.pitch, &nothing.width, &nothing.height,
                      &nothing.pattern};
    CUDA_KERNEL_NODE_PARAMS p = {.func = fill,
                                 .gridDimX = 1,
                                 .gridDimY = 1,
                                 .gridDimZ = 1,
                                 .blockDimX = 1,
                                 .blockDimY = 1,
                                 .blockDimZ = 1,
                                 .kernelParams = params};
    for (int i = 0; i < NODES; i++)
        if (AG_REAL(cuGraphAddKernelNode_v2)(&l->nodes[i], l->graph, i ? &l->nodes[i - 1] : NULL,
                                             i > 0, &p) != CUDA_SUCCESS)
            return false;
    return true;
}

bool ag_leader_upload(CUcontext ctx, CUstream stream, struct ag_leader **leader)
{
    CUfunction fill = ag_fill_kernel(ctx);
    *leader = NULL;
    if (!fill)
        return true;
    struct ag_leader *l = calloc(1, sizeof(*l));
    if (l && AG_REAL(cuGraphCreate)(&l->graph, 0) != CUDA_SUCCESS)
        l->graph = NULL;
    if (l && l->graph && add_nodes(l, fill) &&
        AG_REAL(cuGraphInstantiateWithFlags)(&l->exec, l->graph, 0) == CUDA_SUCCESS) {
        if (AG_REAL(cuGraphUpload)(l->exec, stream) == CUDA_SUCCESS) {
            *leader = l;
            return true;
        }
    } else if (l) {
        l->exec = NULL;
    }
    ag_leader_destroy(l);
    return false;
}

/* Its nodes do nothing; disabled, they are no kernels that the GPU runs either. */
void ag_leader_launch(struct ag_leader *l, CUstream stream)
{
    l->launched = true;
    for (int i = 0; i < NODES && ag_real[AG_SYM_cuGraphNodeSetEnabled]; i++) /* from CUDA 11.6 */
        AG_REAL(cuGraphNodeSetEnabled)(l->exec, l->nodes[i], 0);
    if (AG_REAL(cuGraphLaunch)(l->exec, stream) != CUDA_SUCCESS)
        ag_count(AG_COUNT_LAUNCH_FAILED);
}

bool ag_leader_launched(const struct ag_leader *l)
{
    return !l || l->launched;
}

void ag_leader_destroy(struct ag_leader *l)
{
    if (!l)
        return;
    if (l->exec)
        AG_REAL(cuGraphExecDestroy)(l->exec);
    if (l->graph)
        AG_REAL(cuGraphDestroy)(l->graph);
    free(l);
}
