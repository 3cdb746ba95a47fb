// faults_cudart.cu - faults as a program on the CUDA runtime sees them. See faults.h.
#include <cstdio>
#include <cstring>
#include <cuda_runtime.h>
#include "faults_kernels.cuh"

static const int STEPS = 60, KERNELS = 20, SIZE = 512;

int main(int argc, char **argv)
{
    bool trap = argc == 2 && !strcmp(argv[1], "trap");
    if (argc != 2 || (!trap && strcmp(argv[1], "bad-launch"))) {
        fprintf(stderr, "usage: faults_cudart trap|bad-launch\n");
        return 2;
    }
    unsigned int *data;
    if (cudaMalloc(&data, SIZE * sizeof *data) || cudaMemset(data, 7, SIZE * sizeof *data)) {
        fprintf(stderr, "no memory on the GPU: %s\n", cudaGetErrorString(cudaGetLastError()));
        return 1;
    }
    for (int step = 0; step < STEPS; step++) {
        for (int k = 0; k < KERNELS; k++) {
            bool now = step == STEPS / 2 && k == 7;
            fault_kernel<<<1, now && !trap ? 2048 : SIZE>>>(data, 1664525u + 8 * k, 97u * k, SIZE,
                                                            now && trap, nullptr);
            cudaError_t error = cudaPeekAtLastError();
            if (!trap && error) {
                printf("step %d, launch %d: %s\n", step, k, cudaGetErrorName(cudaGetLastError()));
            }
        }
        cudaError_t error = cudaDeviceSynchronize();
        if (error) {
            printf("step %d: sync answers %s, afterwards %s\n", step, cudaGetErrorName(error),
                   cudaGetErrorName(cudaDeviceSynchronize()));
            return 5;
        }
    }
    unsigned int host[SIZE], sum = 0;
    if (cudaMemcpy(host, data, sizeof host, cudaMemcpyDeviceToHost)) {
        printf("copy: %s\n", cudaGetErrorName(cudaGetLastError()));
        return 6;
    }
    for (unsigned int value : host) {
        sum = 31 * sum + value;
    }
    printf("memory 0x%08x\n", sum);
    return 0;
}
