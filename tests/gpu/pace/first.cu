/*
 * first.cu - what the first launch of a graph takes the host, and that it does not wait for the
 * GPU.
 *
 *     first GRAPHS NODES BEHIND [changed]
 *
 * Makes GRAPHS graphs of NODES kernels in a chain, none of them uploaded. Then something waits for
 * a word that the host writes only when all graphs have been launched once: a kernel in another
 * stream (BEHIND other), a kernel in the same stream (same), or the same stream itself by
 * cuStreamWaitValue32 (value). With `changed` each graph is uploaded to the stream and has its
 * nodes set before that launch, as the library does where arguments differ from what was built.
 * Prints microseconds of the first launches and of second ones. Without the library.
 */
#include "check.h"

#include <string.h>

enum { THREADS = 64, SECOND = 8 };

struct graph {
    cudaGraphExec_t exec;
    cudaGraphNode_t *nodes;
};

__global__ void step(float *x)
{
    x[threadIdx.x] = x[threadIdx.x] * 1.0001f + 1.0f;
}

__global__ void wait_for(volatile int *word)
{
    while (!*word) {
    }
}

static cudaKernelNodeParams params(float **data, void **args)
{
    cudaKernelNodeParams p = {};
    args[0] = data;
    p.func = (void *)step;
    p.gridDim = dim3(1);
    p.blockDim = dim3(THREADS);
    p.kernelParams = args;
    return p;
}

static struct graph make(int nodes, float *data)
{
    cudaGraph_t graph;
    struct graph g;
    void *args[1];
    cudaKernelNodeParams p = params(&data, args);
    g.nodes = (cudaGraphNode_t *)calloc((size_t)nodes, sizeof *g.nodes);
    CHECK(cudaGraphCreate(&graph, 0));
    for (int i = 0; i < nodes; i++)
        CHECK(cudaGraphAddKernelNode(&g.nodes[i], graph, i ? &g.nodes[i - 1] : NULL, i > 0, &p));
    CHECK(cudaGraphInstantiate(&g.exec, graph, 0));
    return g;
}

static void upload_and_change(const struct graph *g, int nodes, float *data, cudaStream_t stream)
{
    void *args[1];
    cudaKernelNodeParams p = params(&data, args);
    CHECK(cudaGraphUpload(g->exec, stream));
    for (int i = 0; i < nodes; i++)
        CHECK(cudaGraphExecKernelNodeSetParams(g->exec, g->nodes[i], &p));
}

int main(int argc, char **argv)
{
    bool changed = argc == 5 && !strcmp(argv[4], "changed");
    if (argc != 4 + changed) {
        fprintf(stderr, "usage: first GRAPHS NODES other|same|value [changed]\n");
        return 2;
    }
    int count = atoi(argv[1]), nodes = atoi(argv[2]);
    bool same = !strcmp(argv[3], "same"), value = !strcmp(argv[3], "value");
    volatile int *word, *device_word;
    cudaStream_t waits, stream;
    float *data, *other;
    CHECK(cudaHostAlloc((void **)&word, sizeof *word, cudaHostAllocMapped));
    CHECK(cudaHostGetDevicePointer((void **)&device_word, (void *)word, 0));
    CHECK(cudaMalloc(&data, THREADS * sizeof *data));
    CHECK(cudaMalloc(&other, THREADS * sizeof *other));
    CHECK(cudaStreamCreateWithFlags(&waits, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    *word = 1; /* both kernels are loaded by their first launches */
    wait_for<<<1, 1, 0, waits>>>(device_word);
    step<<<1, THREADS, 0, stream>>>(data);
    CHECK(cudaDeviceSynchronize());
    struct graph *graphs = (struct graph *)calloc((size_t)count, sizeof *graphs);
    for (int i = 0; i < count; i++)
        graphs[i] = make(nodes, data);
    *word = 0;
    if (value)
        CHECK(cuStreamWaitValue32(stream, (CUdeviceptr)device_word, 1, CU_STREAM_WAIT_VALUE_EQ));
    else
        wait_for<<<1, 1, 0, same ? stream : waits>>>(device_word);
    double longest = 0, total = 0;
    for (int i = 0; i < count; i++) {
        double began = now_us();
        if (changed)
            upload_and_change(&graphs[i], nodes, other, stream);
        CHECK(cudaGraphLaunch(graphs[i].exec, stream));
        double us = now_us() - began;
        total += us;
        longest = us > longest ? us : longest;
    }
    double began = now_us();
    for (int i = 0; i < SECOND; i++)
        CHECK(cudaGraphLaunch(graphs[i % count].exec, stream));
    double second = (now_us() - began) / SECOND;
    *word = 1;
    CHECK(cudaDeviceSynchronize());
    printf("first launches %.1f us, longest %.1f, second launches %.1f\n", total / count, longest,
           second);
    return 0;
}
