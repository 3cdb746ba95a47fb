// Launches with attributes, as programs by others make them: the array lies on the stack, of each
// attribute only the id and the one member that the id means are set, and all other bytes are what
// was there before. Here they differ in every launch.
#include "library.cuh"

#include <cstring>
#include <cuda.h>

static const int count = 4096, threads = 128, blocks = count / threads, kernels = 20;

// Loses nothing of what was there before: a launch too many or too few is seen in the end.
__global__ void mix(unsigned int *x, unsigned int more, int size)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
#if __CUDA_ARCH__ >= 900
    cudaGridDependencySynchronize();
#endif
    if (i < size) {
        x[i] = x[i] * 1664525u + more;
    }
}

// As far as a cluster or a cooperative grid is concerned the kernel is a plain one: what is looked
// at is the launch.
using Fill = int (*)(cudaLaunchAttribute *);

static int none(cudaLaunchAttribute *)
{
    return 0;
}

static int cluster(cudaLaunchAttribute *attributes)
{
    attributes[0].id = cudaLaunchAttributeClusterDimension;
    attributes[0].val.clusterDim.x = 2;
    attributes[0].val.clusterDim.y = 1;
    attributes[0].val.clusterDim.z = 1;
    attributes[1].id = cudaLaunchAttributeClusterSchedulingPolicyPreference;
    attributes[1].val.clusterSchedulingPolicyPreference = cudaClusterSchedulingPolicySpread;
    return 2;
}

static int cooperative(cudaLaunchAttribute *attributes)
{
    attributes[0].id = cudaLaunchAttributeCooperative;
    attributes[0].val.cooperative = 1;
    return 1;
}

static int programmatic(cudaLaunchAttribute *attributes)
{
    attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[0].val.programmaticStreamSerializationAllowed = 1;
    return 1;
}

// Bytes that no two calls have in common. noinline, and read back by memory, so that they are
// really written.
static __attribute__((noinline)) void poison(void *where, size_t bytes)
{
    static uint32_t calls = 0;
    uint32_t state = ex_hash(++calls);
    for (size_t i = 0; i < bytes; i++) {
        state = state * 1664525u + 1013904223u;
        static_cast<unsigned char *>(where)[i] = static_cast<unsigned char>(state >> 24);
    }
    asm volatile("" : : "r"(where) : "memory");
}

static void launch_by_runtime(Fill fill, cudaStream_t stream, void **arguments)
{
    cudaLaunchAttribute attributes[4];
    cudaLaunchConfig_t config;
    poison(attributes, sizeof attributes);
    poison(&config, sizeof config);
    config.gridDim = dim3(blocks);
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = 0;
    config.stream = stream;
    config.attrs = attributes;
    config.numAttrs = static_cast<unsigned>(fill(attributes));
    CHECK(cudaLaunchKernelExC(&config, reinterpret_cast<const void *>(mix), arguments));
}

static_assert(sizeof(cudaLaunchAttribute) == sizeof(CUlaunchAttribute),
              "the runtime's attributes are the driver's");

static void launch_by_driver(Fill fill, cudaStream_t stream, void **arguments)
{
    static decltype(&cuLaunchKernelEx) launch;
    static cudaFunction_t function;
    if (!launch) {
        cudaDriverEntryPointQueryResult found;
        CHECK(cudaGetDriverEntryPointByVersion("cuLaunchKernelEx",
                                               reinterpret_cast<void **>(&launch), 12000,
                                               cudaEnableDefault, &found));
        CHECK(cudaGetFuncBySymbol(&function, reinterpret_cast<const void *>(mix)));
    }
    cudaLaunchAttribute attributes[4];
    CUlaunchConfig config;
    poison(attributes, sizeof attributes);
    poison(&config, sizeof config);
    config.gridDimX = blocks;
    config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = threads;
    config.blockDimY = config.blockDimZ = 1;
    config.sharedMemBytes = 0;
    config.hStream = stream;
    config.attrs = reinterpret_cast<CUlaunchAttribute *>(attributes);
    config.numAttrs = static_cast<unsigned>(fill(attributes));
    CHECK_LIBRARY(launch(&config, function, arguments, nullptr), CUDA_SUCCESS);
}

static const struct {
    const char *name;
    Fill fill;
    void (*launch)(Fill, cudaStream_t, void **);
} kinds[] = {
    {"none", none, launch_by_runtime},
    {"cluster", cluster, launch_by_runtime},
    {"cooperative", cooperative, launch_by_runtime},
    {"programmatic", programmatic, launch_by_runtime},
    {"driver", programmatic, launch_by_driver},
};

int main(int argc, char **argv)
{
    for (const auto &kind : kinds) {
        if (argc < 2 || strcmp(argv[1], kind.name)) {
            continue;
        }
        auto *x = library_device(std::vector<unsigned int>(count, 1));
        cudaStream_t stream;
        CHECK(cudaStreamCreate(&stream));
        return library_run(argc - 1, argv + 1, kind.name, stream, x, count * sizeof *x, [&] {
            for (int k = 0; k < kernels; k++) {
                unsigned int more = ex_hash(static_cast<uint32_t>(k));
                int size = count;
                void *arguments[] = {&x, &more, &size};
                kind.launch(kind.fill, stream, arguments);
            }
        });
    }
    fprintf(stderr, "usage: attributes none|cluster|cooperative|programmatic|driver\n");
    return 2;
}
