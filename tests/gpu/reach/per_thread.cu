// Built with --default-stream=per-thread: what is launched into no stream goes to a stream of the
// thread's own.
#include "library.cuh"

static const int count = 4096, kernels = 20;

__global__ void scale_and_add(float *x, float factor, int size)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) {
        x[i] = x[i] * factor + 0.25f;
    }
}

int main(int argc, char **argv)
{
    float *x = library_device(library_values(count));
    return library_run(argc, argv, "per_thread", cudaStreamPerThread, x, count * sizeof *x, [&] {
        for (int k = 0; k < kernels; k++) {
            scale_and_add<<<count / 128, 128>>>(x, 0.5f + 0.02f * static_cast<float>(k), count);
        }
    });
}
