// Linear systems by an LU decomposition: cuSOLVER's kernels, cuBLAS's and copies.
#include "library.cuh"

#include <cusolverDn.h>

__global__ void add_up(float *sum, const float *x, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        sum[i] += x[i];
    }
}

int main(int argc, char **argv)
{
    const int n = 96;
    cudaStream_t stream;
    cusolverDnHandle_t solver;
    auto matrix = library_values(n * n);
    for (int i = 0; i < n; i++) {
        matrix[i * n + i] += 20.0f;
    }
    float *original = library_device(matrix), *a = library_device(matrix);
    float *side = library_device(library_values(n)), *b = library_device(library_values(n));
    float *sum = library_device(std::vector<float>(n));
    int *pivots = library_device(std::vector<int>(n)), *info = library_device(std::vector<int>(1));
    CHECK(cudaStreamCreate(&stream));
    CHECK_LIBRARY(cusolverDnCreate(&solver), CUSOLVER_STATUS_SUCCESS);
    CHECK_LIBRARY(cusolverDnSetStream(solver, stream), CUSOLVER_STATUS_SUCCESS);
    int words;
    CHECK_LIBRARY(cusolverDnSgetrf_bufferSize(solver, n, n, a, n, &words), CUSOLVER_STATUS_SUCCESS);
    float *work = library_device(std::vector<float>(words));
    return library_run(argc, argv, "cusolver", stream, sum, n * sizeof *sum, [&] {
        CHECK(cudaMemcpyAsync(a, original, n * n * sizeof *a, cudaMemcpyDeviceToDevice, stream));
        CHECK(cudaMemcpyAsync(b, side, n * sizeof *b, cudaMemcpyDeviceToDevice, stream));
        CHECK_LIBRARY(cusolverDnSgetrf(solver, n, n, a, n, work, pivots, info),
                      CUSOLVER_STATUS_SUCCESS);
        CHECK_LIBRARY(cusolverDnSgetrs(solver, CUBLAS_OP_N, n, 1, a, n, pivots, b, n, info),
                      CUSOLVER_STATUS_SUCCESS);
        add_up<<<1, n, 0, stream>>>(sum, b, n);
    });
}
