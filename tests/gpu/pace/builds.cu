/*
 * builds.cu - which builds of graphs wait for a kernel that is at work.
 *
 *     builds GRAPHS NODES [destroyed]
 *
 * A kernel waits for a word of the host. Meanwhile GRAPHS graphs of NODES kernels in a chain are
 * instantiated and launched once in another stream. They stay, or with `destroyed` each is
 * destroyed before the next. If a call takes WAITS_MS, another thread writes the word, and the
 * kernel is launched anew. Prints how many instantiations waited, and which (from 0), and how many
 * other calls did. Without the library.
 */
#include "check.h"

#include <atomic>
#include <string.h>
#include <thread>
#include <time.h>
#include <vector>

enum { WAITS_MS = 150, NAMED = 8 };

__global__ void step(float *x)
{
    x[threadIdx.x] += 1.0f;
}

__global__ void wait_for(volatile int *word)
{
    while (!*word) {
    }
}

static volatile int *word, *device_word;
static cudaStream_t waiting, stream;
static std::atomic<long> began; /* when the call under way began, ns; 0: none */
static std::atomic<bool> helped, over;

static long now()
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

/* The other thread. */
static void help()
{
    while (!over) {
        struct timespec nap = {0, 1000000};
        nanosleep(&nap, NULL);
        long since = began;
        if (since && now() - since > WAITS_MS * 1000000L && since == began &&
            !helped.exchange(true))
            *word = 1;
    }
}

static void wait_anew()
{
    CHECK(cudaStreamSynchronize(waiting));
    *word = 0;
    std::atomic_thread_fence(std::memory_order_seq_cst);
    wait_for<<<1, 1, 0, waiting>>>(device_word);
    helped = false;
}

/* Whether the call waited. */
template <typename Call> static bool waits(Call call)
{
    began = now();
    CHECK(call());
    began = 0;
    bool waited = helped;
    if (waited)
        wait_anew();
    return waited;
}

int main(int argc, char **argv)
{
    bool destroyed = argc == 4 && !strcmp(argv[3], "destroyed");
    if (argc != 3 + destroyed) {
        fprintf(stderr, "usage: builds GRAPHS NODES [destroyed]\n");
        return 2;
    }
    int count = atoi(argv[1]), nodes = atoi(argv[2]), others = 0;
    float *data;
    std::vector<int> waited;
    std::vector<cudaGraphExec_t> execs(count);
    CHECK(cudaMalloc(&data, 64 * sizeof *data));
    CHECK(cudaHostAlloc((void **)&word, sizeof *word, cudaHostAllocMapped));
    CHECK(cudaHostGetDevicePointer((void **)&device_word, (void *)word, 0));
    CHECK(cudaStreamCreateWithFlags(&waiting, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    *word = 1; /* the first launches load the kernels */
    wait_for<<<1, 1, 0, waiting>>>(device_word);
    step<<<1, 64, 0, stream>>>(data);
    CHECK(cudaDeviceSynchronize());
    wait_anew();
    std::thread helper(help);
    for (int i = 0; i < count; i++) {
        cudaGraph_t graph;
        cudaGraphNode_t node, last;
        void *args[] = {&data};
        cudaKernelNodeParams p = {};
        p.func = (void *)step;
        p.gridDim = dim3(1);
        p.blockDim = dim3(64);
        p.kernelParams = args;
        CHECK(cudaGraphCreate(&graph, 0));
        for (int k = 0; k < nodes; k++, last = node)
            CHECK(cudaGraphAddKernelNode(&node, graph, k ? &last : NULL, k > 0, &p));
        if (waits([&] { return cudaGraphInstantiate(&execs[i], graph, 0); }))
            waited.push_back(i);
        others += waits([&] { return cudaGraphLaunch(execs[i], stream); });
        others += waits([&] { return cudaStreamSynchronize(stream); });
        if (destroyed)
            others += waits([&] { return cudaGraphExecDestroy(execs[i]); });
        CHECK(cudaGraphDestroy(graph));
    }
    *word = 1;
    over = true;
    helper.join();
    CHECK(cudaDeviceSynchronize());
    printf("%zu of %d builds wait:", waited.size(), count);
    for (size_t i = 0; i < waited.size() && i < NAMED; i++)
        printf(" %d", waited[i]);
    printf("%s; %d other calls\n", waited.size() > NAMED ? " ..." : "", others);
    return 0;
}
