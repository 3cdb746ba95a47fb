// children.cu - dynamic parallelism: what follows a kernel in its stream sees what the kernel's
// children did.
#include "examples/common/cudart_check.h"

__global__ void mix(unsigned int *x, unsigned int k)
{
    *x = *x * 31 + k;
}

__global__ void mix_late(unsigned int *x, unsigned int k)
{
    for (long long begin = clock64(); clock64() - begin < 5000;) {
    }
    *x = *x * 31 + k;
}

__global__ void parent(unsigned int *x, unsigned int k)
{
    mix_late<<<1, 1>>>(x, k);
    mix_late<<<1, 1, 0, cudaStreamTailLaunch>>>(x, k + 1);
}

int main()
{
    unsigned int *x, value;
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&x, sizeof *x));
    CHECK(cudaMemset(x, 0, sizeof *x));
    CHECK(cudaDeviceSynchronize());
    for (unsigned int step = 0; step < 500; step++) {
        for (unsigned int k = 0; k < 6; k++) {
            parent<<<1, 1, 0, stream>>>(x, 3 * k);
            mix<<<1, 1, 0, stream>>>(x, step);
        }
        CHECK(cudaStreamSynchronize(stream));
    }
    CHECK(cudaMemcpy(&value, x, sizeof value, cudaMemcpyDeviceToHost));
    printf("%u\n", value);
    return 0;
}
