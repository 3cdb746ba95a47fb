// A reduction, a scan and a radix sort by CUB, in memory that is asked for once.
#include "library.cuh"

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_reduce.cuh>
#include <cub/device/device_scan.cuh>

__global__ void mix(unsigned int *x, const unsigned int *sorted, const unsigned int *scanned,
                    const unsigned int *total, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        x[i] = (sorted[i] ^ scanned[i]) * 1664525u + *total;
    }
}

int main(int argc, char **argv)
{
    const int count = 20000;
    std::vector<unsigned int> values(count);
    for (int i = 0; i < count; i++) {
        values[i] = ex_hash(static_cast<uint32_t>(i));
    }
    cudaStream_t stream;
    unsigned int *x = library_device(values), *sorted = library_device(values);
    unsigned int *scanned = library_device(values), *total = library_device(values);
    size_t most = 0, bytes = 0;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cub::DeviceReduce::Sum(nullptr, bytes, x, total, count));
    most = std::max(most, bytes);
    CHECK(cub::DeviceScan::InclusiveSum(nullptr, bytes, x, scanned, count));
    most = std::max(most, bytes);
    CHECK(cub::DeviceRadixSort::SortKeys(nullptr, bytes, x, sorted, count));
    most = std::max(most, bytes);
    auto *work = library_device(std::vector<unsigned char>(most + 1));
    return library_run(argc, argv, "cub", stream, x, count * sizeof *x, [&] {
        for (int i = 0; i < 3; i++) {
            size_t room = most;
            CHECK(cub::DeviceReduce::Sum(work, room, x, total, count, stream));
            CHECK(cub::DeviceScan::InclusiveSum(work, room, x, scanned, count, stream));
            CHECK(cub::DeviceRadixSort::SortKeys(work, room, x, sorted, count, 0, 32, stream));
            mix<<<(count + 255) / 256, 256, 0, stream>>>(x, sorted, scanned, total, count);
        }
    });
}
