// visible.cu - what the host is told must not come before what an earlier kernel wrote.
//   visible [ROUNDS] [WAY] [MEMORY]
// In each round, for each part of the data, a kernel writes the number of the round to host memory,
// without a fence. Then a kernel, a fill or a small copy writes the number to a word that the host
// polls, or the program records an event that it queries. The host then counts data that is older.
// WAY says how the ops are launched: `stream` (what is assumed) in a stream, `graph` in one graph a
// round, `fences` so with a fence in front of each word, `graphs` each in a graph of its own,
// `mixed` in a graph and in the stream by turns.
// MEMORY says where data and words lie: `mapped` (what is assumed) in pinned memory, `managed` in
// managed memory, `host` so, and the program advises that it stays with the host.
#include "examples/common/cudart_check.h"

#include <atomic>
#include <cstring>

enum { LINE = 32 }; // Data lies in words that are 128 bytes apart.
enum how { KERNEL, FILL, COPY, EVENT };

static const struct {
    unsigned int words;
    enum how how;
} kinds[] = {{1056, KERNEL}, {8192, KERNEL}, {8192, FILL}, {8192, COPY}, {8192, EVENT}};
enum { PARTS = sizeof kinds / sizeof *kinds };
static const char *const names[] = {"a kernel", "a fill", "a copy", "an event"};

static struct part {
    volatile unsigned int *data, *word; // In host memory.
    unsigned int *count;                // On the device: the round.
    cudaEvent_t event;
} parts[PARTS];

__global__ void write_data(volatile unsigned int *data, unsigned int words, unsigned int *count)
{
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < words) {
        data[i * LINE] = *count;
    }
}

__global__ void write_word(volatile unsigned int *word, unsigned int *count)
{
    *word = *count;
}

__global__ void fence()
{
    __threadfence_system();
}

__global__ void count_on(unsigned int *count)
{
    ++*count;
}

static void issue_data(const struct part *part, unsigned int words, cudaStream_t stream)
{
    const unsigned int threads = 32;
    count_on<<<1, 1, 0, stream>>>(part->count);
    write_data<<<words / threads, threads, 0, stream>>>(part->data, words, part->count);
}

// A graph holds one byte only, so a fill is of another one in each of two rounds.
static void issue_word(const struct part *part, enum how how, unsigned int round, bool captured,
                       cudaStream_t stream)
{
    if (how == KERNEL) {
        write_word<<<1, 1, 0, stream>>>(part->word, part->count);
    } else if (how == FILL) {
        CHECK(cudaMemsetAsync((void *)part->word, 1 + round % 2, sizeof(unsigned int), stream));
    } else if (how == COPY) {
        CHECK(cudaMemcpyAsync((void *)part->word, part->count, sizeof(unsigned int),
                              cudaMemcpyDeviceToHost, stream));
    } else {
        CHECK(cudaEventRecordWithFlags(
            part->event, stream, captured ? cudaEventRecordExternal : cudaEventRecordDefault));
    }
}

static void wait_for_word(const struct part *part, enum how how, unsigned int round)
{
    if (how == EVENT) {
        while (cudaEventQuery(part->event) == cudaErrorNotReady) {
        }
    } else {
        unsigned int value = how == FILL ? (1 + round % 2) * 0x01010101u : round;
        while (*part->word != value) {
        }
    }
    std::atomic_thread_fence(std::memory_order_acquire);
}

enum { DATA = 1, WORD = 2, FENCE = 4 };

static cudaGraphExec_t capture(int first, int last, int ops, unsigned int round,
                               cudaStream_t stream)
{
    cudaGraph_t graph;
    cudaGraphExec_t graph_exec;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int p = first; p < last; p++) {
        if (ops & DATA) {
            issue_data(&parts[p], kinds[p].words, stream);
        }
        if (ops & FENCE) {
            fence<<<1, 1, 0, stream>>>();
        }
        if (ops & WORD) {
            issue_word(&parts[p], kinds[p].how, round, true, stream);
        }
    }
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&graph_exec, graph, 0));
    return graph_exec;
}

static void stays_with_host(void *p, size_t bytes)
{
#if CUDART_VERSION >= 13000
    cudaMemLocation host = {cudaMemLocationTypeHost, 0}, device = {cudaMemLocationTypeDevice, 0};
#else
    int host = cudaCpuDeviceId, device = 0;
#endif
    CHECK(cudaMemAdvise(p, bytes, cudaMemAdviseSetPreferredLocation, host));
    CHECK(cudaMemAdvise(p, bytes, cudaMemAdviseSetAccessedBy, device));
}

static volatile unsigned int *allocate(size_t bytes, const char *memory)
{
    void *p = NULL;
    if (!strcmp(memory, "mapped")) {
        CHECK(cudaHostAlloc(&p, bytes, cudaHostAllocMapped));
    } else {
        CHECK(cudaMallocManaged(&p, bytes));
    }
    if (!strcmp(memory, "host")) {
        stays_with_host(p, bytes);
    }
    memset(p, 0, bytes);
    return (volatile unsigned int *)p;
}

int main(int argc, char **argv)
{
    unsigned int rounds = argc > 1 ? (unsigned int)atoi(argv[1]) : 5000;
    const char *way = argc > 2 ? argv[2] : "stream", *memory = argc > 3 ? argv[3] : "mapped";
    for (int p = 0; p < PARTS; p++) {
        parts[p].data = allocate(kinds[p].words * LINE * sizeof(unsigned int), memory);
        parts[p].word = allocate(4096, memory);
        CHECK(cudaMalloc(&parts[p].count, sizeof(unsigned int)));
        CHECK(cudaMemset(parts[p].count, 0, sizeof(unsigned int)));
        CHECK(cudaEventCreateWithFlags(&parts[p].event, cudaEventDisableTiming));
    }
    CHECK(cudaDeviceSynchronize());
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    bool fences = !strcmp(way, "fences"), whole_rounds = fences || !strcmp(way, "graph");
    cudaGraphExec_t whole[2], data[PARTS], word[PARTS][2];
    for (int r = 0; r < 2 && strcmp(way, "stream"); r++) {
        whole[r] = capture(0, PARTS, DATA | WORD | (fences ? FENCE : 0), r, stream);
        for (int p = 0; p < PARTS; p++) {
            data[p] = capture(p, p + 1, DATA, r, stream);
            word[p][r] = capture(p, p + 1, WORD, r, stream);
        }
    }

    unsigned long long old[PARTS] = {};
    for (unsigned int round = 1; round <= rounds; round++) {
        if (whole_rounds) {
            CHECK(cudaGraphLaunch(whole[round % 2], stream));
        }
        for (int p = 0; p < PARTS && !whole_rounds; p++) {
            bool mixed = !strcmp(way, "mixed");
            if (!strcmp(way, "stream") || (mixed && round / 2 % 2)) {
                issue_data(&parts[p], kinds[p].words, stream);
            } else {
                CHECK(cudaGraphLaunch(data[p], stream));
            }
            if (!strcmp(way, "graphs") || (mixed && round / 2 % 2)) {
                CHECK(cudaGraphLaunch(word[p][round % 2], stream));
            } else {
                issue_word(&parts[p], kinds[p].how, round, false, stream);
            }
        }
        for (int p = 0; p < PARTS; p++) {
            wait_for_word(&parts[p], kinds[p].how, round);
            for (unsigned int i = kinds[p].words; i--;) {
                old[p] += parts[p].data[i * LINE] != round;
            }
        }
    }
    CHECK(cudaDeviceSynchronize());
    for (int p = 0; p < PARTS; p++) {
        printf("%u words, then %s: %llu came later\n", kinds[p].words, names[kinds[p].how], old[p]);
    }
    return 0;
}
