// What each of the programs around a CUDA library does alike: a repeating step, and a checksum of
// its result.
#ifndef LIBRARY_CUH
#define LIBRARY_CUH

#include "examples/common/cudart_check.h"
#include "examples/common/example.h"

#include <vector>

static const int library_steps = 60;

// Stops the program where a library's call did not return `good`.
#define CHECK_LIBRARY(call, good)                                                                  \
    do {                                                                                           \
        int status_ = static_cast<int>(call);                                                      \
        if (status_ != static_cast<int>(good)) {                                                   \
            fprintf(stderr, "%s:%d: %s: status %d\n", __FILE__, __LINE__, #call, status_);         \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

// Reproducible values in [-1, 1).
static inline std::vector<float> library_values(size_t count)
{
    std::vector<float> values(count);
    for (size_t i = 0; i < count; i++) {
        values[i] =
            static_cast<float>(ex_hash(static_cast<uint32_t>(i) + 1) >> 8) / 8388608.0f - 1.0f;
    }
    return values;
}

template <typename T> static T *library_device(const std::vector<T> &values)
{
    T *device;
    CHECK(cudaMalloc(&device, values.size() * sizeof(T)));
    CHECK(cudaMemcpy(device, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
    return device;
}

// Runs `step(stream)` library_steps times, a sync after each; prints the checksum of `bytes` at
// `result`.
template <typename Step>
static int library_run(const char *name, cudaStream_t stream, const void *result, size_t bytes,
                       Step step)
{
    std::vector<unsigned char> host(bytes);
    for (int i = 0; i < library_steps; i++) {
        step();
        CHECK(cudaStreamSynchronize(stream));
    }
    CHECK(cudaMemcpy(host.data(), result, bytes, cudaMemcpyDeviceToHost));
    printf("RESULT name=%s checksum=0x%016llx\n", name,
           static_cast<unsigned long long>(ex_checksum(host.data(), bytes)));
    return 0;
}

#endif
