/*
 * submit.c - programs whose chunks the library's own thread launches; `submit CASE N`.
 *
 * Each prints what a program can see of its own work, so that a run with the library can be
 * compared with one without. None of them knows of the library.
 */
#define _GNU_SOURCE
#include "tests/command/submit.h"
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

CUcontext home;
CUmodule module;
CUfunction hash;
unsigned int *flag;
struct line line;

void open_line(struct line *l)
{
    CHECK(cuStreamCreate(&l->stream, CU_STREAM_NON_BLOCKING));
    l->data = ag_prog_alloc(8);
    l->want = 0;
    CHECK(cuCtxSynchronize()); /* the fill is the legacy stream's, which orders nothing here */
}

void start(void)
{
    home = ag_prog_start();
    module = ag_prog_module();
    hash = ag_prog_function(module, "hash");
    open_line(&line);
}

CUresult launch_with(struct line *l, uint64_t k, uint64_t argument)
{
    CUresult r = cuLaunchKernel(hash, 1 + (unsigned int)k, 1, 1, 1, 1, 1, 0, l->stream,
                                (void *[]){&l->data, &argument}, NULL);
    if (r == CUDA_SUCCESS)
        l->want = l->want * 31 + argument;
    return r;
}

CUresult launch(struct line *l, uint64_t k)
{
    return launch_with(l, k, k);
}

void step_from(struct line *l, uint64_t first)
{
    for (uint64_t k = first; k < first + STEP; k++)
        CHECK(launch(l, k));
}

void step(struct line *l)
{
    step_from(l, 0);
}

void steps(struct line *l, int n, int between_syncs)
{
    for (int i = 1; i <= n; i++) {
        step(l);
        if (i % between_syncs == 0)
            CHECK(cuStreamSynchronize(l->stream));
    }
}

void steps_until_graphs(struct line *l, uint64_t first)
{
    uint64_t before = cuSimCallCount("cuGraphLaunch");
    for (int i = 0, by_graphs = 0; i < 100 && by_graphs < 2; i++) {
        step_from(l, first);
        CHECK(cuStreamSynchronize(l->stream));
        uint64_t now = cuSimCallCount("cuGraphLaunch");
        by_graphs = now > before ? by_graphs + 1 : 0;
        before = now;
        if (!by_graphs && i >= 4)
            usleep(100);
    }
}

int print_value(const struct line *l)
{
    CHECK(cuStreamSynchronize(l->stream));
    bool right = ag_prog_read64(l->data) == l->want;
    printf("value %s\n", right ? "right" : "WRONG");
    return !right;
}

/* ---- running ahead ----------------------------------------------------------------------------
 */

/* N steps with a sync now and then. */
static int ahead(int n)
{
    start();
    steps(&line, n, 50);
    return print_value(&line);
}

/* Each of N steps ends with a word to the host, for which the program waits without a call: if the
 * step was handed over, it is the submitter that launches it. Behind each the program rests. */
static int rest_behind(int n, unsigned int us)
{
    _Atomic unsigned int *word;
    unsigned int k = 0;
    start();
    CHECK(cuMemHostAlloc((void **)(uintptr_t)&word, sizeof *word, CU_MEMHOSTALLOC_DEVICEMAP));
    atomic_store(word, 0);
    CUfunction publish = ag_prog_function(module, "publish");
    while (k < (unsigned int)n) {
        k++;
        step(&line);
        CHECK(ag_prog_launch(publish, line.stream, (void *[]){(void *)(uintptr_t)&word, &k}));
        while (atomic_load(word) != k)
            sched_yield();
        CHECK(cuStreamSynchronize(line.stream));
        if (us)
            usleep(us);
    }
    return print_value(&line);
}

static int patient(int n)
{
    return rest_behind(n, 0);
}

/* The submitter sleeps meanwhile. */
static int rests(int n)
{
    return rest_behind(n, 3000);
}

/* N steps whose arguments no ring has room for. Behind them the library gives its graphs back. */
struct large {
    CUdeviceptr data;
    uint64_t words[500];
};

static void add_words(const struct cuSimLaunch *l)
{
    const struct large *large = l->params[0];
    uint64_t *sum = (uint64_t *)(uintptr_t)large->data;
    for (size_t i = 0; i < sizeof large->words / sizeof *large->words; i++)
        *sum += large->words[i];
}

static int too_long(int n)
{
    static struct large large;
    size_t size = sizeof large;
    CUdeviceptr x;
    REQUIRE(!cuSimRegisterKernel("add_words", add_words, 1, NULL, &size, 0));
    start();
    CUfunction f = ag_prog_function(module, "add_words");
    large.data = line.data;
    for (unsigned int i = 0; i < (unsigned int)n; i++) {
        for (unsigned int k = 1; k <= 2 * STEP; k++) {
            line.want += large.words[k] = i + k;
            CHECK(cuLaunchKernel(f, k, 1, 1, 1, 1, 1, 0, line.stream, (void *[]){&large}, NULL));
            large.words[k] = 0;
        }
        CHECK(cuStreamSynchronize(line.stream));
    }
    EXPECT(cuMemAlloc_v2(&x, (size_t)1 << 50), CUDA_ERROR_OUT_OF_MEMORY);
    printf("graphs: %d\n", (int)cuSimAlive("exec"));
    return print_value(&line);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(int n);
    } cases[] = {
        {"ahead", ahead},
        {"too-long", too_long},
        {"patient", patient},
        {"rests", rests},
        {"exit-handler", exit_handler},
        {"forks", forks},
        {"graphs-refused", graphs_refused},
        {"told-by-launch", told_by_launch},
        {"told-alone", told_alone},
        {"build-behind", build_behind},
        {"query-with-lock", query_with_lock},
        {"tied", tied},
        {"in-turn", in_turn},
        {"seen-by-other", seen_by_other},
        {"many", many},
        {"singles", singles},
        {"slow-singles", slow_singles},
        {"slower-singles", slower_singles},
        {"measured-singles", measured_singles},
        {"stuck", stuck},
        {"behind", behind},
        {"beside", beside},
        {"behind-steps", behind_steps},
        {"adds", adds},
        {"patience", patience},
        {"patience-new", patience_new},
        {"patience-known", patience_known},
        {"gate", gate},
        {"slower-gpu", slower_gpu},
        {"gpu-of-64", gpu_of_64},
        {"exit-far", exit_far},
        {"stuck-call", stuck_call},
        {"stuck-exit", stuck_exit},
        {"exit-at-fault", exit_at_fault},
        {"exit-asked", exit_asked},
        {"no-context", no_context},
        {"host-function-fills", host_function_fills},
        {"stuck-nth", stuck_nth},
        {"stuck-always", stuck_always},
        {"destroys", destroys},
        {"exit-beside", exit_beside},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (argc == 3 && !strcmp(argv[1], cases[i].name))
            return cases[i].run(atoi(argv[2]));
    fprintf(stderr, "usage: submit CASE N\n");
    return 2;
}
