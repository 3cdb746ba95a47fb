// Transforms there and back, scaled so that the values stay where they are.
#include "library.cuh"

#include <cufft.h>

__global__ void scale(cufftComplex *x, int count, float factor)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        x[i].x *= factor;
        x[i].y *= factor;
    }
}

int main(int argc, char **argv)
{
    const int size = 6000, batch = 4, count = size * batch;
    cudaStream_t stream;
    cufftHandle plan;
    auto *x = reinterpret_cast<cufftComplex *>(library_device(library_values(2 * count)));
    CHECK(cudaStreamCreate(&stream));
    CHECK_LIBRARY(cufftPlan1d(&plan, size, CUFFT_C2C, batch), CUFFT_SUCCESS);
    CHECK_LIBRARY(cufftSetStream(plan, stream), CUFFT_SUCCESS);
    return library_run(argc, argv, "cufft", stream, x, count * sizeof *x, [&] {
        for (int i = 0; i < 3; i++) {
            CHECK_LIBRARY(cufftExecC2C(plan, x, x, CUFFT_FORWARD), CUFFT_SUCCESS);
            scale<<<(count + 255) / 256, 256, 0, stream>>>(x, count, 1.0f / size);
            CHECK_LIBRARY(cufftExecC2C(plan, x, x, CUFFT_INVERSE), CUFFT_SUCCESS);
        }
    });
}
