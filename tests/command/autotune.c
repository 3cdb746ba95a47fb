/*
 * autotune.c - how autotuners submit the candidates that they time; `autotune NAME [N]`.
 *
 * Each kind launches N candidates (kernels that nothing else has launched) as that autotuner does,
 * and prints how many graphs went to the driver while it measured. Between candidates there is real
 * work, which repeats.
 */
#include "tests/simdriver/simprog.h"

enum { STEP = 20, MOST_EVENTS = 400 };

static CUfunction hash;
static CUstream stream;
static CUdeviceptr data, scratch;
static CUevent events[MOST_EVENTS];
static uint64_t graphs; /* launched while a candidate was measured */

static uint64_t graph_launches(void)
{
    return cuSimCallCount("cuGraphLaunch");
}

static void launch(unsigned int grid, uint64_t k)
{
    CHECK(cuLaunchKernel(hash, grid, 1, 1, 1, 1, 1, 0, stream, (void *[]){&data, &k}, NULL));
}

static void real_work(int steps)
{
    for (int i = 0; i < steps; i++) {
        for (unsigned int k = 0; k < STEP; k++)
            launch(k + 1, k);
        CHECK(cuStreamSynchronize(stream));
    }
}

/* Its kernels; no other candidate's look like them. */
static void candidate(unsigned int which, unsigned int kernels)
{
    for (unsigned int k = 0; k < kernels; k++)
        launch(1000 + which * 8 + k, k);
}

static void record(int event)
{
    CHECK(cuEventRecord(events[event], stream));
}

static void ask(int from, int to)
{
    float ms;
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuEventElapsedTime(&ms, events[from], events[to]));
    REQUIRE(ms >= 0.0f);
}

/* The kernel that XLA puts ahead, so that the candidate does not wait for the host; one run to warm
 * up, one that is timed. Several of cuBLASLt's algorithms are one kernel. */
static void xla(unsigned int which)
{
    candidate(which / 8, 2);
    launch(1, 0);
    record(0);
    uint64_t before = graph_launches(); /* what was launched before the record is not measured */
    candidate(which / 8, 2);
    record(1);
    graphs += graph_launches() - before;
    ask(0, 1);
}

/* do_bench: five in one span for a first idea, then each in a span of its own, behind a memset that
 * empties the cache; all times are asked for at the end. */
static void bench(unsigned int which, unsigned int kernels)
{
    record(0);
    for (int i = 0; i < 5; i++) {
        CHECK(cuMemsetD8Async(scratch, 0, 64, stream));
        candidate(which, kernels);
    }
    record(1);
    ask(0, 1);
    for (int i = 0; i + 1 < MOST_EVENTS; i += 2) {
        CHECK(cuMemsetD8Async(scratch, 0, 64, stream));
        record(i);
        uint64_t before = graph_launches();
        candidate(which, kernels);
        record(i + 1);
        graphs += graph_launches() - before;
    }
    for (int i = 0; i + 1 < MOST_EVENTS; i += 2)
        ask(i, i + 1);
}

static void triton(unsigned int which)
{
    bench(which, 1);
}

/* Several kernels of one fused graph. */
static void inductor(unsigned int which)
{
    bench(which, 5);
}

static void cudnn(unsigned int which)
{
    candidate(which, 3);
    CHECK(cuStreamSynchronize(stream));
    for (int i = 0; i < 3; i++) {
        record(0);
        candidate(which, 3);
        record(1);
        ask(0, 1);
    }
}

/* A hundred runs of one product in one span, as callers of cuBLASLt time its heuristics' answers.
 */
static void cublaslt(unsigned int which)
{
    candidate(which, 1);
    record(0);
    for (int i = 0; i < 100; i++)
        candidate(which, 1);
    record(1);
    ask(0, 1);
}

/* A training loop that times each of its steps: that is its work, and no candidate. */
static void steps(unsigned int n)
{
    for (unsigned int i = 0; i < n; i++) {
        record(0);
        for (unsigned int k = 0; k < STEP; k++)
            launch(k + 1, k);
        record(1);
        ask(0, 1);
    }
}

static const struct {
    const char *name;
    void (*measure)(unsigned int which);
    int counts; /* graphs by itself */
} kinds[] = {{"xla", xla, 1},
             {"triton", triton, 1},
             {"inductor", inductor, 1},
             {"cudnn", cudnn, 0},
             {"cublaslt", cublaslt, 0}};

int main(int argc, char **argv)
{
    unsigned int n = argc > 2 ? (unsigned int)atoi(argv[2]) : 30;
    ag_prog_start();
    hash = ag_prog_function(ag_prog_module(), "hash");
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    data = ag_prog_alloc(8);
    scratch = ag_prog_alloc(64);
    for (int i = 0; i < MOST_EVENTS; i++)
        CHECK(cuEventCreate(&events[i], CU_EVENT_DEFAULT));
    CHECK(cuCtxSynchronize());
    if (argc > 1 && !strcmp(argv[1], "steps")) {
        steps(n);
        printf("value %llu\n", (unsigned long long)ag_prog_read64(data));
        return 0;
    }
    real_work(50);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (argc < 2 || strcmp(argv[1], kinds[i].name) != 0)
            continue;
        kinds[i].measure(0); /* the program is known to measure once it has been told a time */
        graphs = 0;
        for (unsigned int which = 1; which <= n; which++) {
            uint64_t before = graph_launches();
            kinds[i].measure(which);
            if (!kinds[i].counts)
                graphs += graph_launches() - before;
            real_work(1);
        }
        fprintf(stderr, "graphs while it measured: %llu\n", (unsigned long long)graphs);
        printf("value %llu\n", (unsigned long long)ag_prog_read64(data));
        return 0;
    }
    fprintf(stderr, "usage: autotune xla|triton|inductor|cudnn|cublaslt|steps [N]\n");
    return 2;
}
