/*
 * forks.c - streams that fork and join in every step, and what meets their events; `forks CASE N`.
 *
 * Each prints what must be the same with the library and without. tests/fuzz has programs whose
 * results depend on such order; these hang, or need graphs of the program's with events.
 */
#include "tests/simdriver/simprog.h"
#include <stdatomic.h>
#include <stdbool.h>

static CUfunction hash, spin;
static CUstream origin, side, other;
static CUevent forked, joined;
static CUdeviceptr first, second, third; /* a word of each stream */
static uint64_t want;                    /* in `second` */

static void start(void)
{
    ag_prog_start();
    CUmodule module = ag_prog_module();
    hash = ag_prog_function(module, "hash");
    spin = ag_prog_function(module, "spin_us");
    first = ag_prog_alloc(8);
    second = ag_prog_alloc(8);
    third = ag_prog_alloc(8);
    CHECK(cuCtxSynchronize());
    CHECK(cuStreamCreate(&origin, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&forked, CU_EVENT_DISABLE_TIMING));
    CHECK(cuEventCreate(&joined, CU_EVENT_DISABLE_TIMING));
}

/* Work that takes so long that whatever does not wait for it is done before it. */
static void slowly(CUstream stream)
{
    int us = 2000;
    CHECK(ag_prog_launch(spin, stream, (void *[]){&us}));
}

/* The side waits for the origin, and the origin for the side. */
static void step(void)
{
    CHECK(ag_prog_hash(hash, origin, first, 1));
    CHECK(cuEventRecord(forked, origin));
    CHECK(cuStreamWaitEvent(side, forked, 0));
    CHECK(ag_prog_hash(hash, side, second, 2));
    CHECK(ag_prog_hash(hash, side, second, 3));
    CHECK(ag_prog_hash(hash, origin, first, 4));
    CHECK(cuEventRecord(joined, side));
    want = (want * 31 + 2) * 31 + 3;
    CHECK(cuStreamWaitEvent(origin, joined, 0));
    CHECK(ag_prog_hash(hash, origin, first, 5));
}

static int print(const char *what, bool right)
{
    printf("%s: %s\n", what, right ? "right" : "WRONG");
    return !right;
}

/* ---- the origin waits for the program, and the program for an event before that ----------- */

static atomic_bool go, late;

static void CUDA_CB waits_for_program(void *unused)
{
    (void)unused;
    for (double end = ag_prog_seconds() + 2; !atomic_load(&go);)
        if (ag_prog_seconds() > end) {
            atomic_store(&late, true);
            return;
        }
}

/* The driver must have the record before the host function: the program asks for it then. */
static int host_function_behind(int n)
{
    start();
    for (int i = 0; i < n && !atomic_load(&late); i++) {
        atomic_store(&go, false);
        step();
        CHECK(cuLaunchHostFunc(origin, waits_for_program, NULL));
        CHECK(cuEventSynchronize(joined));
        atomic_store(&go, true);
        CHECK(cuStreamSynchronize(origin));
    }
    return print("a record in front of a host function", !atomic_load(&late));
}

/* The same with a kernel, which is an op. It never repeats. Either stream may be the other's
 * branch. Nobody asks for an event in between: at first, and behind an ask, the library holds back
 * none of 128 records (AG_FORK_PROMPT), and a step has two. */
static int kernel_behind(int n)
{
    enum { UNASKED = 80 };
    unsigned int *flag;
    start();
    CUfunction poll = ag_prog_function(ag_prog_module(), "poll");
    CHECK(cuMemHostAlloc((void **)&flag, 8, 0));
    *flag = 0;
    bool right = true;
    for (int i = 1; i <= n && right; i++) {
        void *nothing = NULL;
        for (int k = 0; k < UNASKED; k++) {
            step();
            CHECK(cuStreamSynchronize(origin));
        }
        CHECK(cuLaunchKernel(poll, 1, 1, 1, (unsigned int)i, 1, 1, 0, i & 1 ? origin : side,
                             (void *[]){&flag, &i, &nothing}, NULL));
        CUresult r = CUDA_ERROR_NOT_READY;
        for (double end = ag_prog_seconds() + 2; r && ag_prog_seconds() < end;)
            r = cuEventQuery(joined);
        right = r == CUDA_SUCCESS;
        atomic_store((_Atomic unsigned int *)flag, (unsigned int)i);
        CHECK(cuStreamSynchronize(i & 1 ? origin : side));
    }
    return print("a record in front of a kernel that waits", right);
}

/* ---- graphs of the program's with events -------------------------------------------------- */

static CUgraphExec graph_of(CUgraph graph)
{
    CUgraphExec exec;
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    return exec;
}

/* The graph records an event in another stream, and the origin waits for that. */
static int graph_records(int n)
{
    CUgraph graph;
    CUgraphNode node;
    start();
    CUdeviceptr copied = ag_prog_alloc(8);
    CHECK(cuCtxSynchronize()); /* the fill of it */
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphAddEventRecordNode(&node, graph, NULL, 0, joined));
    CUgraphExec exec = graph_of(graph);
    uint64_t there = 0;
    bool right = true;
    for (int i = 0; i < n; i++) {
        step();
        slowly(other);
        CHECK(ag_prog_hash(hash, other, third, 7));
        there = there * 31 + 7;
        CHECK(cuGraphLaunch(exec, other));
        CHECK(cuStreamWaitEvent(origin, joined, 0));
        CHECK(cuMemcpyDtoDAsync_v2(copied, third, 8, origin));
        CHECK(cuStreamSynchronize(origin));
        right &= ag_prog_read64(copied) == there;
    }
    return print("a wait for a record of a graph", right);
}

/* The graph waits for the side. */
static int graph_waits(int n)
{
    CUgraph graph;
    CUgraphNode node, copy;
    CUcontext ctx;
    start();
    CHECK(cuCtxGetCurrent(&ctx));
    CUdeviceptr copied = ag_prog_alloc(8);
    CHECK(cuCtxSynchronize()); /* the fill of it */
    CUDA_MEMCPY3D c = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                       .srcDevice = second,
                       .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                       .dstDevice = copied,
                       .WidthInBytes = 8,
                       .Height = 1,
                       .Depth = 1};
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphAddEventWaitNode(&node, graph, NULL, 0, joined));
    CHECK(cuGraphAddMemcpyNode(&copy, graph, &node, 1, &c, ctx));
    CUgraphExec exec = graph_of(graph);
    bool right = true;
    for (int i = 0; i < n; i++) {
        slowly(origin);
        step();
        CHECK(cuGraphLaunch(exec, other));
        CHECK(cuStreamSynchronize(other));
        right &= ag_prog_read64(copied) == want;
        CHECK(cuStreamSynchronize(origin));
    }
    return print("a graph that waits for a record", right);
}

/* ---- a GPU that waits for the program ------------------------------------------------------ */

static void launches(CUstream stream, CUdeviceptr data, unsigned int n)
{
    for (uint64_t k = 1; k <= n; k++)
        CHECK(cuLaunchKernel(hash, 1, (unsigned int)k, 1, 1, 1, 1, 0, stream, (void *[]){&data, &k},
                             NULL));
}

/* The side waits for `n` launches of the origin, and that for 60 of the side. */
static void long_step(unsigned int n)
{
    launches(origin, first, n);
    CHECK(cuEventRecord(forked, origin));
    CHECK(cuStreamWaitEvent(side, forked, 0));
    launches(side, second, 60);
    for (unsigned int k = 1; k <= 60; k++)
        want = want * 31 + k;
    CHECK(cuEventRecord(joined, side));
    CHECK(cuStreamWaitEvent(origin, joined, 0));
}

/* N times the program lets the GPU go on when the queues of both streams are nearly full: behind
 * steps with `per_step` launches of the origin each, and `singles` launches that are in none. */
static int fill_queues(int n, unsigned int per_step, unsigned int singles)
{
    enum { STEPS = 16 };
    _Atomic unsigned int *gate;
    start();
    CUfunction poll = ag_prog_function(ag_prog_module(), "poll");
    CHECK(cuMemHostAlloc((void **)(uintptr_t)&gate, sizeof *gate, 0));
    for (unsigned int i = 1; i <= (unsigned int)n; i++) {
        void *nothing = NULL;
        atomic_store(gate, 0);
        unsigned int open = 1;
        CHECK(ag_prog_launch(poll, origin, (void *[]){&gate, &open, &nothing}));
        for (int k = 0; k < STEPS; k++)
            long_step(per_step);
        for (unsigned int k = 0; k < singles; k++) /* each unlike all others: in no graph */
            CHECK(cuLaunchKernel(hash, 2 + i, 1 + k, 1, 1, 1, 1, 0, origin,
                                 (void *[]){&first, &(uint64_t){k}}, NULL));
        atomic_store(gate, 1);
        CHECK(cuStreamSynchronize(origin));
    }
    return print("queues that are nearly full", ag_prog_read64(second) == want);
}

/* Of 1021 places they take 992 and 976. */
static int full_queues(int n)
{
    return fill_queues(n, 60, 0);
}

/* Of 1021 places they take 915 and 976: the origin's own launches, and the side's by graphs. */
static int uneven_queues(int n)
{
    return fill_queues(n, 2, 850);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(int n);
    } cases[] = {
        {"host-function-behind", host_function_behind},
        {"kernel-behind", kernel_behind},
        {"graph-records", graph_records},
        {"graph-waits", graph_waits},
        {"full-queues", full_queues},
        {"uneven-queues", uneven_queues},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (argc == 3 && !strcmp(argv[1], cases[i].name))
            return cases[i].run(atoi(argv[2]));
    fprintf(stderr, "usage: forks CASE N\n");
    return 2;
}
