/*
 * pace.cu - what a kernel takes in a graph, by what was done before. Without the library.
 *
 * Its arguments are done one after the other; graphs and streams are numbered as they are made:
 *   s, b          a stream: non-blocking, blocking
 *   e:S:N:Y       N launches on stream S, waiting after every Y of them (0: only in the end)
 *   l:N           N launches on the legacy stream
 *   g:N:C:S       C graphs of N nodes in a chain, uploaded on stream S;  o:N:C without that
 *   update        all nodes of all graphs get the arguments that they have
 *   busy          the same while the graphs are under way
 *   launch:S      every graph once on stream S
 *   t:K:S         graph K once on stream S, and no other
 *   idle:K:S      the same with all its nodes disabled
 *   d:K           graph K is destroyed
 *   turn:C        prints us a kernel of the first C graphs in turn on stream 0, best of 5 rounds
 *   alone:K       the same of graph K
 */
#include "check.h"

#include <string.h>

enum { MOST = 64, THREADS = 512, KERNELS = 6000, ROUNDS = 5 };

struct graph {
    cudaGraphExec_t exec;
    cudaGraphNode_t *nodes;
    int count;
};

static struct graph graphs[MOST];
static cudaStream_t streams[MOST];
static int num_graphs, num_streams;
static float *data;

__global__ void step(float *x)
{
    x[threadIdx.x] = x[threadIdx.x] * 1.0001f + 1.0f;
}

static cudaKernelNodeParams params(void)
{
    static void *args[] = {&data};
    cudaKernelNodeParams p = {};
    p.func = (void *)step;
    p.gridDim = dim3(1);
    p.blockDim = dim3(THREADS);
    p.kernelParams = args;
    return p;
}

static void eager(cudaStream_t stream, int n, int wait_every)
{
    for (int i = 0; i < n; i++) {
        step<<<1, THREADS, 0, stream>>>(data);
        if (wait_every && i % wait_every == wait_every - 1)
            CHECK(cudaStreamSynchronize(stream));
    }
    CHECK(cudaStreamSynchronize(stream));
}

static void make(int nodes, bool upload, cudaStream_t stream)
{
    struct graph *g = &graphs[num_graphs++];
    cudaKernelNodeParams p = params();
    cudaGraph_t graph;
    g->count = nodes;
    g->nodes = (cudaGraphNode_t *)calloc((size_t)nodes, sizeof *g->nodes);
    CHECK(cudaGraphCreate(&graph, 0));
    for (int i = 0; i < nodes; i++)
        CHECK(cudaGraphAddKernelNode(&g->nodes[i], graph, i ? &g->nodes[i - 1] : NULL, i > 0, &p));
    CHECK(cudaGraphInstantiate(&g->exec, graph, 0));
    if (upload)
        CHECK(cudaGraphUpload(g->exec, stream));
    CHECK(cudaDeviceSynchronize());
}

static void update(void)
{
    cudaKernelNodeParams p = params();
    for (int g = 0; g < num_graphs; g++)
        for (int i = 0; i < graphs[g].count; i++)
            CHECK(cudaGraphExecKernelNodeSetParams(graphs[g].exec, graphs[g].nodes[i], &p));
}

static void launch_all(cudaStream_t stream, int times)
{
    for (int t = 0; t < times; t++)
        for (int g = 0; g < num_graphs; g++)
            CHECK(cudaGraphLaunch(graphs[g].exec, stream));
}

static void launch_idle(const struct graph *g, cudaStream_t stream)
{
    for (int i = 0; i < g->count; i++)
        CHECK(cudaGraphNodeSetEnabled(g->exec, g->nodes[i], 0));
    CHECK(cudaGraphLaunch(g->exec, stream));
    for (int i = 0; i < g->count; i++)
        CHECK(cudaGraphNodeSetEnabled(g->exec, g->nodes[i], 1));
}

static void measure(const char *word, int first, int count)
{
    int launches = KERNELS / graphs[first].count;
    double best = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        CHECK(cudaDeviceSynchronize());
        double began = now_us();
        for (int i = 0; i < launches; i++)
            CHECK(cudaGraphLaunch(graphs[first + i % count].exec, streams[0]));
        CHECK(cudaStreamSynchronize(streams[0]));
        double us = (now_us() - began) / launches / graphs[first].count;
        best = us < best ? us : best;
    }
    printf("  %s %.3f", word, best);
}

static bool act(const char *word)
{
    int a, b, c;
    if (!strcmp(word, "s") && num_streams < MOST)
        CHECK(cudaStreamCreateWithFlags(&streams[num_streams++], cudaStreamNonBlocking));
    else if (!strcmp(word, "b") && num_streams < MOST)
        CHECK(cudaStreamCreate(&streams[num_streams++]));
    else if (sscanf(word, "e:%d:%d:%d", &a, &b, &c) == 3 && a < num_streams)
        eager(streams[a], b, c);
    else if (sscanf(word, "l:%d", &a) == 1)
        eager(0, a, 0);
    else if (sscanf(word, "g:%d:%d:%d", &a, &b, &c) == 3 && c < num_streams &&
             num_graphs + b <= MOST)
        while (b--)
            make(a, true, streams[c]);
    else if (sscanf(word, "o:%d:%d", &a, &b) == 2 && num_graphs + b <= MOST)
        while (b--)
            make(a, false, 0);
    else if (!strcmp(word, "update"))
        update();
    else if (!strcmp(word, "busy") && num_streams) {
        launch_all(streams[0], 60);
        update();
        launch_all(streams[0], 10);
    } else if (sscanf(word, "launch:%d", &a) == 1 && a < num_streams)
        launch_all(streams[a], 1);
    else if (sscanf(word, "t:%d:%d", &a, &b) == 2 && a < num_graphs && b < num_streams)
        CHECK(cudaGraphLaunch(graphs[a].exec, streams[b]));
    else if (sscanf(word, "idle:%d:%d", &a, &b) == 2 && a < num_graphs && b < num_streams)
        launch_idle(&graphs[a], streams[b]);
    else if (sscanf(word, "d:%d", &a) == 1 && a < num_graphs)
        CHECK(cudaGraphExecDestroy(graphs[a].exec));
    else if (sscanf(word, "turn:%d", &a) == 1 && a > 0 && a <= num_graphs && num_streams)
        measure(word, 0, a);
    else if (sscanf(word, "alone:%d", &a) == 1 && a < num_graphs && num_streams)
        measure(word, a, 1);
    else
        return false;
    CHECK(cudaDeviceSynchronize());
    return true;
}

int main(int argc, char **argv)
{
    CHECK(cudaMalloc(&data, THREADS * sizeof *data));
    for (int i = 1; i < argc; i++)
        if (!act(argv[i])) {
            fprintf(stderr, "pace: what is %s?\n", argv[i]);
            return 2;
        }
    printf("\n");
    return 0;
}
