// What each of the programs around a CUDA library does alike: its options, a repeating step, and a
// checksum of its result.
#ifndef LIBRARY_CUH
#define LIBRARY_CUH

#include "examples/common/cudart_check.h"
#include "examples/common/example.h"

#include <vector>

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

template <typename Step> struct library_loop {
    Step step;
    cudaStream_t stream;
    int steps;
};

// `steps` steps, a sync after each.
template <typename Step> static double library_repetition(void *arg)
{
    auto *loop = static_cast<library_loop<Step> *>(arg);
    for (int i = 0; i < loop->steps; i++) {
        loop->step();
        CHECK(cudaStreamSynchronize(loop->stream));
    }
    return loop->steps;
}

// Runs `step()` as the command line says; prints the checksum of `bytes` at `result`.
template <typename Step>
static int library_run(int argc, char **argv, const char *name, cudaStream_t stream,
                       const void *result, size_t bytes, Step step)
{
    ex_pace pace = {1, false};
    library_loop<Step> loop = {step, stream, 30};
    const ex_option options[] = {{"steps", &loop.steps, 1, nullptr, nullptr}, {}};
    ex_options(argc, argv, "options: --steps=N a repetition, --reps=N, --paced\n", &pace, options);
    double us = ex_measure(&pace, library_repetition<Step>, &loop);
    std::vector<unsigned char> host(bytes);
    CHECK(cudaMemcpy(host.data(), result, bytes, cudaMemcpyDeviceToHost));
    return ex_result(name, BINDING, "-", us, ex_checksum(host.data(), bytes), true);
}

#endif
