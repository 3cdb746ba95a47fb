// device.cu - orders and promises that only a real GPU can break; `device CASE`. What is printed
// must be the same with the library and without.
#include "examples/common/cudart_check.h"

#include <cooperative_groups.h>
#include <csignal>
#include <cstring>
#include <sys/wait.h>
#include <unistd.h>

namespace cg = cooperative_groups;

__global__ void mix(unsigned int *x, unsigned int k)
{
    *x = *x * 31 + k;
}

static cudaStream_t new_stream()
{
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

static unsigned int *words(size_t count)
{
    unsigned int *x;
    CHECK(cudaMalloc(&x, count * sizeof *x));
    CHECK(cudaMemset(x, 0, count * sizeof *x));
    CHECK(cudaDeviceSynchronize());
    return x;
}

static unsigned int read(const unsigned int *x)
{
    unsigned int value;
    CHECK(cudaMemcpy(&value, x, sizeof value, cudaMemcpyDeviceToHost));
    return value;
}

// ---- programmatic: an ordinary launch waits for all before it
// ------------------------------------

__global__ void write_late(volatile unsigned int *x, unsigned int value)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
    for (long long begin = clock64(); clock64() - begin < 40000;) {
    }
    *x = value;
}

// It neither reads nor waits, so it may end before the launch in front of it has.
__global__ void pass(unsigned int *x)
{
    if (x[1] == ~0u) {
        x[1] = 0;
    }
}

__global__ void compare(const volatile unsigned int *x, unsigned int value, unsigned int *wrong)
{
    if (*x != value) {
        atomicAdd(wrong, 1);
    }
}

static int programmatic()
{
    unsigned int *x = words(16);
    cudaStream_t stream = new_stream();
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = config.blockDim = dim3(1);
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    for (unsigned int value = 1; value <= 10000; value++) {
        write_late<<<1, 1, 0, stream>>>(x, value);
        CHECK(cudaLaunchKernelEx(&config, pass, x));
        compare<<<1, 1, 0, stream>>>(x, value, x + 8);
        if (value % 5 == 0) {
            CHECK(cudaStreamSynchronize(stream));
        }
    }
    printf("launches that ran before all in front had ended: %u\n", read(x + 8));
    return 0;
}

// ---- cooperative: grids on two streams, with arguments that change
// --------------------------------

struct large {
    unsigned int word[2000];
};

__global__ void sum_over_grid(unsigned int *parts, unsigned int *out, unsigned int k)
{
    cg::grid_group grid = cg::this_grid();
    if (!threadIdx.x) {
        parts[blockIdx.x] = k + blockIdx.x;
    }
    grid.sync();
    if (!blockIdx.x && !threadIdx.x) {
        unsigned int sum = 0;
        for (unsigned int block = 0; block < gridDim.x; block++) {
            sum += parts[block];
        }
        *out = *out * 31 + sum;
    }
    grid.sync();
    if (blockIdx.x == gridDim.x - 1 && !threadIdx.x) {
        *out = *out * 31 + k;
    }
}

__global__ void in_cluster(unsigned int *out, unsigned int k)
{
#if __CUDA_ARCH__ >= 900
    cg::cluster_group cluster = cg::this_cluster();
    cluster.sync();
    if (!blockIdx.x && !threadIdx.x) {
        *out = *out * 31 + k * 100 + cluster.num_blocks();
    }
#endif
}

__global__ void read_large(unsigned int *out, const __grid_constant__ large argument)
{
    unsigned int sum = 0;
    for (unsigned int word : argument.word) {
        sum = sum * 7 + word;
    }
    *out = *out * 31 + sum;
}

static int cooperative()
{
    const unsigned int blocks = 60;
    cudaStream_t streams[] = {new_stream(), new_stream()};
    unsigned int *memory[] = {words(blocks + 1), words(blocks + 1)};
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = 4;
    attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
    static large argument;
    for (unsigned int step = 0; step < 400; step++) {
        for (int lane = 0; lane < 2; lane++) {
            for (unsigned int k = step; k < step + 4; k++) {
                unsigned int *parts = memory[lane], *out = parts + blocks;
                void *arguments[] = {&parts, &out, &k};
                CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<void *>(sum_over_grid),
                                                  dim3(blocks), dim3(64), arguments, 0,
                                                  streams[lane]));
                cudaLaunchConfig_t config = {};
                config.gridDim = dim3(8);
                config.blockDim = dim3(32);
                config.stream = streams[lane];
                config.attrs = &attribute;
                config.numAttrs = 1;
                CHECK(cudaLaunchKernelEx(&config, in_cluster, out, k));
                for (unsigned int word = 0; word < 2000; word++) {
                    argument.word[word] = k + word;
                }
                read_large<<<1, 1, 0, streams[lane]>>>(out, argument);
            }
        }
        CHECK(cudaStreamSynchronize(streams[0]));
        CHECK(cudaStreamSynchronize(streams[1]));
    }
    printf("%u %u\n", read(memory[0] + blocks), read(memory[1] + blocks));
    return 0;
}

// ---- connection: with CUDA_DEVICE_MAX_CONNECTIONS=1 the device starts work in the order of the
// launches ---------

__global__ void raise_word(volatile unsigned int *word, unsigned int value)
{
    *word = value;
    __threadfence();
}

__global__ void await_word(const volatile unsigned int *word, unsigned int value,
                           unsigned int *late)
{
    for (long long looks = 0; *word < value; looks++) {
        if (looks == 20000000) {
            atomicAdd(late, 1);
            return;
        }
    }
}

static int connection()
{
    unsigned int *x = words(256);
    cudaStream_t first = new_stream(), second = new_stream();
    for (unsigned int step = 1; step <= 500; step++) {
        mix<<<1, 1, 0, first>>>(x + 32, step);
        raise_word<<<1, 1, 0, first>>>(x, step);
        await_word<<<1, 1, 0, second>>>(x, step, x + 64);
        mix<<<1, 1, 0, second>>>(x + 96, step);
        mix<<<2, 1, 0, first>>>(x + 128, step);
        mix<<<3, 1, 0, first>>>(x + 128, step);
        CHECK(cudaStreamSynchronize(first));
        CHECK(cudaStreamSynchronize(second));
        if (read(x + 64)) {
            printf("step %u: the second stream's kernel waited in vain\n", step);
            return 0;
        }
    }
    printf("%u %u\n", read(x + 32), read(x + 96));
    return 0;
}

// ---- printing: more than printf's buffer holds, and no wait before the end
// ---------------------------

__global__ void say(int step, int k)
{
    printf("step %d kernel %d says something that takes room in the buffer\n", step, k);
}

static int printing()
{
    cudaStream_t stream = new_stream();
    for (int step = 0; step < 2000; step++) {
        for (int k = 0; k < 20; k++) {
            say<<<1, 1, 0, stream>>>(step, k);
        }
        usleep(100);
    }
    CHECK(cudaStreamSynchronize(stream));
    return 0;
}

// ---- forks: children end by exit() while the library's threads build and launch
// -----------------------

static int forks()
{
    unsigned int *x = words(1);
    cudaStream_t stream = new_stream();
    int hung = 0, failed = 0;
    for (int round = 0; round < 200 && hung < 3; round++) {
        for (int step = 0; step < 6;
             step++) { // sequences keep changing: there is always a graph to build
            for (int k = 0; k < 24; k++) {
                mix<<<1 + (round * 7 + k * (round % 5 + 1)) % 64, 1, 0, stream>>>(x, k);
            }
            if (step < 5) {
                CHECK(cudaStreamSynchronize(stream));
            }
        }
        pid_t child = fork();
        if (!child) {
            exit(0);
        }
        int status = 0, ended = 0;
        for (int look = 0; look < 5000 && !ended; look++) {
            ended = waitpid(child, &status, WNOHANG) == child;
            if (!ended) {
                usleep(1000);
            }
        }
        if (!ended) {
            hung++;
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
        } else {
            failed += !WIFEXITED(status) || WEXITSTATUS(status);
        }
    }
    printf("children that hung: %d, that failed: %d\n", hung, failed);
    CHECK(cudaDeviceSynchronize());
    return 0;
}

// ---- ends: the process ends with work deferred, handed over and being built
// ------------------------------

static int end(bool behind_reset)
{
    unsigned int *x = words(1);
    cudaStream_t stream = new_stream();
    for (int step = 0; step < 300; step++) {
        for (int k = 0; k < 20; k++) {
            mix<<<1 + k, 1, 0, stream>>>(x, step);
            for (volatile int work = 0; work < 3000;) {
                work = work + 1;
            }
        }
        if (step < 290) {
            CHECK(cudaStreamSynchronize(stream));
        }
        if (step == 295 && behind_reset) {
            CHECK(cudaDeviceReset());
            stream = new_stream();
            x = words(1);
        }
    }
    return 3;
}

static int end_by_return()
{
    return end(false);
}

static int end_behind_reset()
{
    return end(true);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)();
    } cases[] = {
        {"programmatic", programmatic},
        {"cooperative", cooperative},
        {"connection", connection},
        {"printing", printing},
        {"forks", forks},
        {"end-by-return", end_by_return},
        {"end-behind-reset", end_behind_reset},
    };
    for (const auto &one : cases) {
        if (argc == 2 && !strcmp(argv[1], one.name)) {
            return one.run();
        }
    }
    fprintf(stderr, "usage: device CASE\n");
    return 2;
}
