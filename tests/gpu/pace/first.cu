/*
 * first.cu - what the first launch of a graph takes the host, and that it does not wait for the
 * GPU.
 *
 *     first GRAPHS NODES SAME
 *
 * Makes GRAPHS graphs of NODES kernels in a chain, none of them uploaded. Then a kernel waits for a
 * word that the host writes only when all graphs have been launched once: in the same stream (SAME
 * 1) or another. Prints microseconds of the first launches and of second ones. Without the library.
 */
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        cudaError_t error = (call);                                                                \
        if (error != cudaSuccess) {                                                                \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));                         \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

enum { THREADS = 64, SECOND = 8 };

__global__ void step(float *x)
{
    x[threadIdx.x] = x[threadIdx.x] * 1.0001f + 1.0f;
}

__global__ void wait_for(volatile int *word)
{
    while (!*word) {
    }
}

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static cudaGraphExec_t make(int nodes, float *data)
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaGraphNode_t node, last;
    void *args[] = {&data};
    cudaKernelNodeParams p = {};
    p.func = (void *)step;
    p.gridDim = dim3(1);
    p.blockDim = dim3(THREADS);
    p.kernelParams = args;
    CHECK(cudaGraphCreate(&graph, 0));
    for (int i = 0; i < nodes; i++) {
        CHECK(cudaGraphAddKernelNode(&node, graph, i ? &last : NULL, i > 0, &p));
        last = node;
    }
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    return exec;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: first GRAPHS NODES SAME\n");
        return 2;
    }
    int count = atoi(argv[1]), nodes = atoi(argv[2]), same = atoi(argv[3]);
    volatile int *word, *device_word;
    cudaStream_t waits, stream;
    float *data;
    CHECK(cudaHostAlloc((void **)&word, sizeof *word, cudaHostAllocMapped));
    CHECK(cudaHostGetDevicePointer((void **)&device_word, (void *)word, 0));
    CHECK(cudaMalloc(&data, THREADS * sizeof *data));
    CHECK(cudaStreamCreateWithFlags(&waits, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    *word = 1; /* both kernels are loaded by their first launches */
    wait_for<<<1, 1, 0, waits>>>(device_word);
    step<<<1, THREADS, 0, stream>>>(data);
    CHECK(cudaDeviceSynchronize());
    cudaGraphExec_t *execs = (cudaGraphExec_t *)calloc((size_t)count, sizeof *execs);
    for (int i = 0; i < count; i++) {
        execs[i] = make(nodes, data);
    }
    *word = 0;
    wait_for<<<1, 1, 0, same ? stream : waits>>>(device_word);
    double longest = 0, total = 0;
    for (int i = 0; i < count; i++) {
        double began = now_us();
        CHECK(cudaGraphLaunch(execs[i], stream));
        double us = now_us() - began;
        total += us;
        longest = us > longest ? us : longest;
    }
    double began = now_us();
    for (int i = 0; i < SECOND; i++) {
        CHECK(cudaGraphLaunch(execs[i % count], stream));
    }
    double second = (now_us() - began) / SECOND;
    *word = 1;
    CHECK(cudaDeviceSynchronize());
    printf("first launches %.1f us, longest %.1f, second launches %.1f\n", total / count, longest,
           second);
    return 0;
}
