// later.cu - a kernel that waits for a word which the program writes only behind further launches.
//   later [LOOPS]
// LOOPS loops (60 is assumed), each with kernels of its own, go into another stream while the
// kernel waits, so that more graphs are due than the driver has room for. Then the program writes
// the word, and makes all loops once more.
#include "examples/common/cudart_check.h"

enum { TURNS = 60, KERNELS = 20, THREADS = 32 };

__global__ void wait_for(volatile int *word)
{
    while (!*word) {
    }
}

__global__ void count_on(unsigned int *count)
{
    if (!threadIdx.x && !blockIdx.x) {
        ++*count;
    }
}

static void loop(unsigned int *count, int number, cudaStream_t stream)
{
    for (int turn = 0; turn < TURNS; turn++) {
        for (int i = 0; i < KERNELS; i++) {
            count_on<<<1 + (7 * i + number) % 13, THREADS + number, 0, stream>>>(count);
        }
        CHECK(cudaStreamSynchronize(stream));
    }
}

int main(int argc, char **argv)
{
    int loops = argc > 1 ? atoi(argv[1]) : 60;
    volatile int *word, *device_word;
    unsigned int *count, counted;
    cudaStream_t waits, stream;
    CHECK(cudaStreamCreateWithFlags(&waits, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaHostAlloc((void **)&word, sizeof *word, cudaHostAllocMapped));
    CHECK(cudaHostGetDevicePointer((void **)&device_word, (void *)word, 0));
    CHECK(cudaMalloc(&count, sizeof *count));
    CHECK(cudaMemset(count, 0, sizeof *count));
    *word = 1; // The first launches load the kernels.
    wait_for<<<1, 1, 0, waits>>>(device_word);
    count_on<<<1, THREADS, 0, stream>>>(count);
    CHECK(cudaDeviceSynchronize());
    *word = 0;
    wait_for<<<1, 1, 0, waits>>>(device_word);
    for (int i = 0; i < loops; i++) {
        loop(count, i, stream);
    }
    *word = 1;
    CHECK(cudaStreamSynchronize(waits));
    for (int i = 0; i < loops; i++) {
        loop(count, i, stream);
    }
    CHECK(cudaMemcpy(&counted, count, sizeof counted, cudaMemcpyDeviceToHost));
    printf("%u of %d counted\n", counted, 1 + 2 * loops * TURNS * KERNELS);
    return 0;
}
