// Random numbers, added up. The generator keeps its state on the GPU and changes arguments by
// itself.
#include "library.cuh"

#include <curand.h>

__global__ void add_up(float *sum, const float *x, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        sum[i] += x[i];
    }
}

int main(int argc, char **argv)
{
    const int count = 8192;
    cudaStream_t stream;
    curandGenerator_t generator;
    float *x = library_device(std::vector<float>(count));
    float *sum = library_device(std::vector<float>(count));
    CHECK(cudaStreamCreate(&stream));
    CHECK_LIBRARY(curandCreateGenerator(&generator, CURAND_RNG_PSEUDO_PHILOX4_32_10),
                  CURAND_STATUS_SUCCESS);
    CHECK_LIBRARY(curandSetPseudoRandomGeneratorSeed(generator, 7), CURAND_STATUS_SUCCESS);
    CHECK_LIBRARY(curandSetStream(generator, stream), CURAND_STATUS_SUCCESS);
    return library_run(argc, argv, "curand", stream, sum, count * sizeof *sum, [&] {
        for (int i = 0; i < 6; i++) {
            CHECK_LIBRARY(curandGenerateUniform(generator, x, count), CURAND_STATUS_SUCCESS);
            add_up<<<(count + 255) / 256, 256, 0, stream>>>(sum, x, count);
        }
    });
}
