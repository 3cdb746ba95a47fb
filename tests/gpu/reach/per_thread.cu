// Built with --default-stream=per-thread: what is launched into no stream goes to a stream of the
// thread's own.
#include "library.cuh"

static const int count = 4096, kernels = 20;

// Loses nothing of what was there before: a launch too many or too few is seen in the end.
__global__ void mix(unsigned int *x, unsigned int more, int size)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) {
        x[i] = x[i] * 1664525u + more;
    }
}

int main(int argc, char **argv)
{
    auto *x = library_device(std::vector<unsigned int>(count, 1));
    return library_run(argc, argv, "per_thread", cudaStreamPerThread, x, count * sizeof *x, [&] {
        for (int k = 0; k < kernels; k++) {
            mix<<<count / 128, 128>>>(x, ex_hash(static_cast<uint32_t>(k)), count);
        }
    });
}
