/*
 * waits.cu - what a copy from pinned memory waits for.
 *
 *     waits ROUNDS BYTES
 *
 * A kernel that takes half a millisecond writes the last word of pinned memory; then a copy of BYTES
 * of it goes to the device. Between the two stands what should make the copy wait: being in the
 * same stream, an event, or the order that CUDA promises between the legacy default stream and
 * blocking ones. Prints for each how many of ROUNDS copies brought what was there before. And the
 * same for a second kernel behind the launches of one executable graph, with a kernel in it and with
 * nothing. Without the library.
 */
#include "check.h"

#include <string.h>

enum { LEGACY, PER_THREAD, BLOCKING, OTHER_BLOCKING, APART, STREAMS };
enum { BY_ORDER, BY_EVENT, BY_EVENT_IN_LEGACY, BY_GRAPH, BY_EMPTY_GRAPH };

static cudaStream_t streams[STREAMS];
static cudaEvent_t event;
static volatile unsigned long long *word, *mapped; /* the host's address of it, and the device's */
static unsigned long long *copied;
static size_t words;
static cudaGraphExec_t graphs[2];

__global__ void nothing(void)
{
}

__global__ void write_late(volatile unsigned long long *x, unsigned long long value, long long clocks)
{
    long long begin = clock64();
    while (clock64() - begin < clocks) {
    }
    *x = value;
    __threadfence_system();
}

__global__ void read_now(const volatile unsigned long long *x, unsigned long long *seen)
{
    *seen = *x;
}

static cudaGraphExec_t graph_of(int nodes)
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaGraphNode_t node;
    cudaKernelNodeParams p = {};
    p.func = (void *)nothing;
    p.gridDim = p.blockDim = dim3(1);
    CHECK(cudaGraphCreate(&graph, 0));
    if (nodes)
        CHECK(cudaGraphAddKernelNode(&node, graph, NULL, 0, &p));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    return exec;
}

/* What was copied, or seen by a kernel, in `then` behind a kernel in `first`. */
static unsigned long long seen_behind(int first, int then, int by, bool kernel, unsigned long long value)
{
    unsigned long long seen = 0;
    write_late<<<1, 1, 0, streams[first]>>>(mapped + words - 1, value, 900000);
    if (by == BY_EVENT || by == BY_EVENT_IN_LEGACY) {
        CHECK(cudaEventRecord(event, streams[first]));
        CHECK(cudaStreamWaitEvent(streams[by == BY_EVENT ? then : LEGACY], event, 0));
    }
    if (by == BY_EVENT_IN_LEGACY)
        nothing<<<1, 1, 0, streams[LEGACY]>>>();
    if (by == BY_GRAPH || by == BY_EMPTY_GRAPH) {
        CHECK(cudaGraphLaunch(graphs[by == BY_GRAPH], streams[first]));
        CHECK(cudaGraphLaunch(graphs[by == BY_GRAPH], streams[then]));
    }
    if (kernel)
        read_now<<<1, 1, 0, streams[then]>>>(mapped + words - 1, copied + words - 1);
    else
        CHECK(cudaMemcpyAsync(copied, (const void *)word, words * 8, cudaMemcpyHostToDevice, streams[then]));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(&seen, copied + words - 1, 8, cudaMemcpyDeviceToHost));
    return seen;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int first, then, by;
        bool kernel;
    } cases[] = {
        {"same stream", BLOCKING, BLOCKING, BY_ORDER, false},
        {"blocking, event, other", BLOCKING, OTHER_BLOCKING, BY_EVENT, false},
        {"legacy, event, non-blocking", LEGACY, APART, BY_EVENT, false},
        {"legacy, blocking", LEGACY, BLOCKING, BY_ORDER, false},
        {"blocking, legacy", BLOCKING, LEGACY, BY_ORDER, false},
        {"legacy, per-thread", LEGACY, PER_THREAD, BY_ORDER, false},
        {"per-thread, legacy", PER_THREAD, LEGACY, BY_ORDER, false},
        {"non-blocking, event, legacy, blocking", APART, BLOCKING, BY_EVENT_IN_LEGACY, false},
        {"legacy, blocking, a kernel", LEGACY, BLOCKING, BY_ORDER, true},
        {"blocking, legacy, a kernel", BLOCKING, LEGACY, BY_ORDER, true},
        {"blocking, graph, other, a kernel", BLOCKING, OTHER_BLOCKING, BY_GRAPH, true},
        {"blocking, empty graph, other, a kernel", BLOCKING, OTHER_BLOCKING, BY_EMPTY_GRAPH, true},
    };
    int rounds = argc == 3 ? atoi(argv[1]) : 0;
    words = argc == 3 ? (size_t)atol(argv[2]) / 8 : 0;
    if (rounds < 1 || words < 1) {
        fprintf(stderr, "usage: waits ROUNDS BYTES (8 or more)\n");
        return 2;
    }
    streams[LEGACY] = cudaStreamLegacy;
    streams[PER_THREAD] = cudaStreamPerThread;
    CHECK(cudaStreamCreate(&streams[BLOCKING]));
    CHECK(cudaStreamCreate(&streams[OTHER_BLOCKING]));
    CHECK(cudaStreamCreateWithFlags(&streams[APART], cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    CHECK(cudaHostAlloc((void **)&word, words * 8, cudaHostAllocMapped));
    CHECK(cudaHostGetDevicePointer((void **)&mapped, (void *)word, 0));
    CHECK(cudaMalloc((void **)&copied, words * 8));
    graphs[0] = graph_of(0);
    graphs[1] = graph_of(1);
    memset((void *)word, 0, words * 8);
    unsigned long long value = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int late = 0;
        for (int r = 0; r < rounds; r++) {
            value++;
            late += seen_behind(cases[i].first, cases[i].then, cases[i].by, cases[i].kernel, value) != value;
        }
        printf("%s%s: %d of %d", i ? "; " : "", cases[i].name, late, rounds);
    }
    printf("\n");
    return 0;
}
