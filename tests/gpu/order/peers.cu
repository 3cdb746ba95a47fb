// peers.cu - a word in memory of another GPU must not come before what an earlier kernel wrote.
//   peers [ROUNDS] [WAY]
// In each round a kernel of the first GPU writes the number of the round to memory of the second,
// without a fence, and another one then writes it to a word there. A kernel of the second GPU polls
// the word, and then counts data that is older. WAY says how the first GPU's kernels are launched:
// `stream` (what is assumed), `graph` in one graph a round, `fences` so with a fence in between.
#include "examples/common/cudart_check.h"

#include <cstring>

enum { WORDS = 8192, LINE = 32 }; // Data lies in words that are 128 bytes apart.

__global__ void count_on(unsigned int *count)
{
    ++*count;
}

__global__ void write_data(volatile unsigned int *data, const unsigned int *count)
{
    data[(blockIdx.x * blockDim.x + threadIdx.x) * LINE] = *count;
}

__global__ void fence()
{
    __threadfence_system();
}

__global__ void write_word(volatile unsigned int *word, const unsigned int *count)
{
    *word = *count;
}

// One block.
__global__ void poll(const volatile unsigned int *word, const volatile unsigned int *data,
                     unsigned int round, unsigned int *late)
{
    if (threadIdx.x == 0) {
        while (*word != round) {
        }
        __threadfence_system();
    }
    __syncthreads();
    for (unsigned int i = threadIdx.x; i < WORDS; i += blockDim.x) {
        if (data[i * LINE] != round) {
            atomicAdd(late, 1);
        }
    }
}

static unsigned int *words(size_t count)
{
    unsigned int *x;
    CHECK(cudaMalloc(&x, count * sizeof *x));
    CHECK(cudaMemset(x, 0, count * sizeof *x));
    CHECK(cudaDeviceSynchronize());
    return x;
}

static cudaStream_t use(int device, int peer)
{
    cudaStream_t stream;
    CHECK(cudaSetDevice(device));
    CHECK(cudaDeviceEnablePeerAccess(peer, 0));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

int main(int argc, char **argv)
{
    unsigned int rounds = argc > 1 ? (unsigned int)atoi(argv[1]) : 3000;
    const char *way = argc > 2 ? argv[2] : "stream";
    int devices = 0, can = 0;
    CHECK(cudaGetDeviceCount(&devices));
    if (devices > 1) {
        CHECK(cudaDeviceCanAccessPeer(&can, 0, 1));
    }
    if (!can) {
        puts("SKIP: it takes two GPUs, of which one can write to the other's memory");
        return 0;
    }
    cudaStream_t polling = use(1, 0);
    unsigned int *data = words(WORDS * LINE), *word = words(1), *late = words(1);
    cudaStream_t stream = use(0, 1);
    unsigned int *count = words(1);

    auto issue = [=] {
        const unsigned int threads = 32;
        count_on<<<1, 1, 0, stream>>>(count);
        write_data<<<WORDS / threads, threads, 0, stream>>>(data, count);
        if (!strcmp(way, "fences")) {
            fence<<<1, 1, 0, stream>>>();
        }
        write_word<<<1, 1, 0, stream>>>(word, count);
    };
    cudaGraphExec_t graph_exec = nullptr;
    if (strcmp(way, "stream")) {
        cudaGraph_t graph;
        CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        issue();
        CHECK(cudaStreamEndCapture(stream, &graph));
        CHECK(cudaGraphInstantiate(&graph_exec, graph, 0));
    }
    for (unsigned int round = 1; round <= rounds; round++) {
        CHECK(cudaSetDevice(1));
        poll<<<1, 512, 0, polling>>>(word, data, round, late);
        if (cudaStreamQuery(polling) != cudaErrorNotReady) {
            CHECK(cudaErrorUnknown); // It polls before anything is written.
        }
        CHECK(cudaSetDevice(0));
        if (graph_exec) {
            CHECK(cudaGraphLaunch(graph_exec, stream));
        } else {
            issue();
        }
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaStreamSynchronize(polling));
    }
    unsigned int total;
    CHECK(cudaMemcpy(&total, late, sizeof total, cudaMemcpyDeviceToHost));
    printf("%u words came later\n", total);
    return 0;
}
