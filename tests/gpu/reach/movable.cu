// Steps of kernels, fills and copies, in memory that the program maps itself (argument `mapped`),
// in memory of a pool (`pool`), or in both in turn (`both`).
#include "library.cuh"

#include <cuda.h>

#include <cstring>

static const int count = 16384, kernels = 6; // words; of each kind in a step
static const size_t piece = 2 << 20, bytes = count * sizeof(unsigned int);

// Loses nothing of what was there before: a launch too many or too few is seen in the end.
__global__ void mix(unsigned int *x, unsigned int more)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        x[i] = x[i] * 1664525u + more;
    }
}

__global__ void fold(unsigned int *x, const unsigned int *copied, const unsigned int *filled)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        x[i] = (x[i] ^ copied[i]) * 22695477u + filled[i];
    }
}

// Where a step works: the third of them is filled.
struct place {
    unsigned int *x, *copied, *filled;
};

// Two pieces side by side; what is filled lies across their border.
static place in_mapped_memory()
{
    CUdeviceptr base;
    CUmemAllocationProp prop = {};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUmemAccessDesc access = {};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    CHECK_LIBRARY(cuMemAddressReserve(&base, 2 * piece, 0, 0, 0), CUDA_SUCCESS);
    for (int i = 0; i < 2; i++) {
        CUmemGenericAllocationHandle handle;
        CHECK_LIBRARY(cuMemCreate(&handle, piece, &prop, 0), CUDA_SUCCESS);
        CHECK_LIBRARY(cuMemMap(base + i * piece, piece, 0, handle, 0), CUDA_SUCCESS);
    }
    CHECK_LIBRARY(cuMemSetAccess(base, 2 * piece, &access, 1), CUDA_SUCCESS);
    return {reinterpret_cast<unsigned int *>(base),
            reinterpret_cast<unsigned int *>(base + 2 * bytes),
            reinterpret_cast<unsigned int *>(base + piece - bytes / 2)};
}

static place in_a_pool(CUstream stream)
{
    CUdeviceptr p[3];
    for (auto &one : p) {
        CHECK_LIBRARY(cuMemAllocAsync(&one, bytes + 64, stream), CUDA_SUCCESS);
    }
    return {reinterpret_cast<unsigned int *>(p[0]), reinterpret_cast<unsigned int *>(p[1]),
            reinterpret_cast<unsigned int *>(p[2])};
}

static void one_step(const place &at, unsigned int number, CUstream stream)
{
    const int blocks = (count + 255) / 256;
    auto x = reinterpret_cast<CUdeviceptr>(at.x), copied = reinterpret_cast<CUdeviceptr>(at.copied),
         filled = reinterpret_cast<CUdeviceptr>(at.filled);
    for (int k = 0; k < kernels; k++) {
        mix<<<blocks, 256, 0, stream>>>(at.x, ex_hash(number + k));
        CHECK_LIBRARY(cuMemcpyDtoDAsync(copied + 4 * (k % 3), x, bytes - 64, stream), CUDA_SUCCESS);
        CHECK_LIBRARY(cuMemsetD32Async(filled, number + k, count, stream), CUDA_SUCCESS);
        fold<<<blocks, 256, 0, stream>>>(at.x, at.copied, at.filled);
        CHECK_LIBRARY(cuMemsetD8Async(copied, k, bytes, stream), CUDA_SUCCESS);
    }
}

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "both";
    bool mapped = strcmp(kind, "pool") != 0, pooled = strcmp(kind, "mapped") != 0;
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    std::vector<place> places;
    if (mapped) {
        places.push_back(in_mapped_memory());
    }
    if (pooled) {
        places.push_back(in_a_pool(stream));
    }
    for (const auto &at : places) {
        CHECK(cudaMemset(at.x, 7, bytes));
        CHECK(cudaMemset(at.copied, 0, bytes));
    }
    auto *result = library_device(std::vector<unsigned int>(count * places.size(), 0));
    CHECK(cudaDeviceSynchronize());
    unsigned int number = 0;
    auto step = [&]() mutable {
        for (size_t i = 0; i < places.size(); i++) {
            one_step(places[i], number, stream);
            CHECK(cudaMemcpyAsync(result + i * count, places[i].x, bytes, cudaMemcpyDeviceToDevice,
                                  stream));
        }
        number = (number + 1) % 5;
    };
    return library_run(argc - 1, argv + 1, "movable", stream, result, places.size() * bytes, step);
}
