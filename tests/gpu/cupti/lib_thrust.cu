// A scan, a sort and a reduction by Thrust, which allocates memory in between.
#include "library.cuh"

#include <thrust/device_ptr.h>
#include <thrust/execution_policy.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sort.h>

int main(int argc, char **argv)
{
    const int count = 20000;
    std::vector<unsigned int> values(count);
    for (int i = 0; i < count; i++) {
        values[i] = ex_hash(static_cast<uint32_t>(i));
    }
    cudaStream_t stream;
    thrust::device_ptr<unsigned int> x(library_device(values));
    unsigned int total = 0;
    CHECK(cudaStreamCreate(&stream));
    return library_run(argc, argv, "thrust", stream, x.get(), count * sizeof(unsigned int), [&] {
        auto policy = thrust::cuda::par.on(stream);
        thrust::inclusive_scan(policy, x, x + count, x);
        thrust::sort(policy, x, x + count / 2);
        total += thrust::reduce(policy, x, x + count, 0u);
        thrust::fill(policy, x + count - 1, x + count, total);
    });
}
