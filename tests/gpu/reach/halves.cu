// A field of which two GPUs have half each. In each step both smooth theirs, exchange the rows at
// the edges, and the host reads how much has changed, as solvers on several GPUs do.
//
//   halves HOW: copies, stores, thread-copies or thread-stores
//
// copies: the rows go by copies between the devices, in streams of their own. stores: the kernel
// writes its edges into the other device's memory. thread-: a thread for each device.
#include "library.cuh"

#include <pthread.h>
#include <string.h>
#include <thread>

static const int columns = 256, rows = 128, threads = 128; // of a half, without the rows around it

struct half {
    float *field[2];                   // one is read and one is written, in turn
    unsigned long long *change, *read; // on the device, on the host
    cudaStream_t stream, edges[2];
    cudaEvent_t smoothed[2], copied[2][2]; // of steps in turn
} halves[2];

static bool stores, threaded;
static int steps = 30, at;
static unsigned long long sum;
static pthread_barrier_t both;

// `other`: the other device's field, for the edges; nullptr: they are copied later.
__global__ void smooth(float *to, const float *from, unsigned long long *change, float *other)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x + columns, x = i % columns, y = i / columns;
    float v = 0.25f * (from[i - columns] + from[i + columns] + from[i - x + (x + 1) % columns] +
                       from[i - x + (x + columns - 1) % columns]);
    to[i] = v;
    if (other && y == 1) {
        other[(rows + 1) * columns + x] = v;
    }
    if (other && y == rows) {
        other[x] = v;
    }
    atomicAdd(change, static_cast<unsigned long long>(fabsf(v - from[i]) * 1e6f));
}

static void make(int device)
{
    half &h = halves[device];
    int can = 0;
    CHECK(cudaSetDevice(device));
    CHECK(cudaDeviceCanAccessPeer(&can, device, !device));
    if (can) {
        CHECK(cudaDeviceEnablePeerAccess(!device, 0));
    } else if (stores) {
        fprintf(stderr, "this GPU cannot write to the other\n");
        exit(1);
    }
    for (float *&field : h.field) {
        field = library_device(library_values(columns * (rows + 2)));
    }
    h.change = library_device(std::vector<unsigned long long>(1));
    CHECK(cudaMallocHost(&h.read, sizeof *h.read));
    CHECK(cudaStreamCreate(&h.stream));
    for (int k = 0; k < 2; k++) {
        CHECK(cudaStreamCreate(&h.edges[k]));
        CHECK(cudaEventCreateWithFlags(&h.smoothed[k], cudaEventDisableTiming));
        for (int edge = 0; edge < 2; edge++) {
            CHECK(cudaEventCreateWithFlags(&h.copied[k][edge], cudaEventDisableTiming));
        }
    }
}

// What the other half needs of the step before has been written, and what it read has been read.
static void compute(int device, int step)
{
    half &h = halves[device], &other = halves[!device];
    int was = !(step & 1), is = step & 1;
    CHECK(cudaStreamWaitEvent(h.stream, other.smoothed[was], 0));
    for (int edge = 0; !stores && edge < 2; edge++) {
        CHECK(cudaStreamWaitEvent(h.stream, other.copied[was][edge], 0));
    }
    CHECK(cudaMemsetAsync(h.change, 0, sizeof *h.change, h.stream));
    smooth<<<columns * rows / threads, threads, 0, h.stream>>>(h.field[!is], h.field[is], h.change,
                                                               stores ? other.field[!is] : nullptr);
    CHECK(cudaMemcpyAsync(h.read, h.change, sizeof *h.read, cudaMemcpyDeviceToHost, h.stream));
    CHECK(cudaEventRecord(h.smoothed[is], h.stream));
}

static void exchange(int device, int step)
{
    half &h = halves[device], &other = halves[!device];
    int is = step & 1;
    for (int edge = 0; !stores && edge < 2; edge++) {
        cudaStream_t s = h.edges[edge];
        CHECK(cudaStreamWaitEvent(s, h.smoothed[is], 0));
        CHECK(cudaStreamWaitEvent(s, other.smoothed[is], 0));
        CHECK(cudaMemcpyAsync(other.field[!is] + (edge ? 0 : (rows + 1) * columns),
                              h.field[!is] + (edge ? rows : 1) * columns, columns * sizeof(float),
                              cudaMemcpyDeviceToDevice, s));
        CHECK(cudaEventRecord(h.copied[is][edge], s));
    }
}

static void wait_for(int device)
{
    CHECK(cudaStreamSynchronize(halves[device].stream));
}

static void one_device(int device)
{
    CHECK(cudaSetDevice(device));
    for (int step = at; step < at + steps; step++) {
        for (auto *part : {compute, exchange}) {
            part(device, step);
            pthread_barrier_wait(&both); // the other waits for events that must have been recorded
        }
        wait_for(device);
        pthread_barrier_wait(&both);
        if (!device) {
            sum = sum * 31 + *halves[0].read + 7 * *halves[1].read;
        }
        pthread_barrier_wait(&both);
    }
}

static double repetition(void *)
{
    if (threaded) {
        std::thread second(one_device, 1);
        one_device(0);
        second.join();
    }
    for (int step = at; !threaded && step < at + steps; step++) {
        for (auto *part : {compute, exchange}) {
            for (int device = 0; device < 2; device++) {
                CHECK(cudaSetDevice(device));
                part(device, step);
            }
        }
        wait_for(0);
        wait_for(1);
        sum = sum * 31 + *halves[0].read + 7 * *halves[1].read;
    }
    at += steps;
    return steps;
}

int main(int argc, char **argv)
{
    ex_pace pace = {1, false};
    const ex_option options[] = {{"steps", &steps, 1, nullptr, nullptr}, {}};
    const char *how = argc > 1 ? argv[1] : "";
    threaded = !strncmp(how, "thread-", 7);
    stores = !strcmp(how + 7 * threaded, "stores");
    ex_options(argc - 1, argv + 1, "halves HOW --steps=N a repetition, --reps=N, --paced\n", &pace,
               options);
    pthread_barrier_init(&both, nullptr, 2);
    make(0);
    make(1);
    CHECK(cudaDeviceSynchronize());
    double us = ex_measure(&pace, repetition, nullptr);
    std::vector<float> host(2 * columns * rows);
    for (int device = 0; device < 2; device++) {
        CHECK(cudaSetDevice(device));
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaMemcpy(host.data() + device * columns * rows,
                         halves[device].field[at & 1] + columns, columns * rows * sizeof(float),
                         cudaMemcpyDeviceToHost));
    }
    uint64_t result[] = {sum, ex_checksum(host.data(), host.size() * sizeof(float))};
    return ex_result("halves", BINDING, how, us, ex_checksum(result, sizeof result), true);
}
