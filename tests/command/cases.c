/*
 * cases.c - programs for the tests of the library as a user sees it; `cases NAME [N]`. The cases
 * here are steps alone; each other file of `cases` says what its cases have besides.
 *
 * Each prints what a program can see of its own work, so that a run with the library can be
 * compared with one without. None of them knows of the library, but for `hooks`, `threads`,
 * `wakes` and those that count the watchdog's looks, which tell what is there.
 */
#include "tests/command/cases.h"

CUmodule module;
CUfunction hash;
CUstream stream;
CUdeviceptr data;

void start(void)
{
    ag_prog_start();
    module = ag_prog_module();
    hash = ag_prog_function(module, "hash");
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    data = ag_prog_alloc(4096);
    CHECK(cuCtxSynchronize()); /* the fill is the legacy stream's, which orders nothing here */
}

/* Launches that look unlike each other, so that a step has no period of its own. */
void launch(unsigned int grid, uint64_t k)
{
    CHECK(cuLaunchKernel(hash, grid + (unsigned int)k, 1, 1, 1, 1, 1, 0, stream,
                         (void *[]){&data, &k}, NULL));
}

void step(unsigned int grid)
{
    for (uint64_t k = 1; k <= STEP; k++)
        launch(grid, k);
}

void steps(int n)
{
    for (int i = 0; i < n; i++) {
        step(0);
        CHECK(cuStreamSynchronize(stream));
    }
}

int print_value(void)
{
    CHECK(cuStreamSynchronize(stream));
    printf("value %llu\n", (unsigned long long)ag_prog_read64(data));
    return 0;
}

/* N steps, a sync after each. */
static int repeat(int n)
{
    start();
    steps(n);
    return print_value();
}

/* In each of N steps one op lies between two that are others each time, of few kinds: the stream
 * joins its sequence there, and the chunk has that op alone. */
static int between(int n)
{
    uint64_t random = 1;
    start();
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < 2; k++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            step(1);
            launch(100, random >> 59);
            launch(200, 1);
        }
        launch(100, random >> 50 & 31);
        CHECK(cuStreamSynchronize(stream));
    }
    return print_value();
}

/* N phases of steps that look unlike each other, one after the other. */
static int phases(int n)
{
    start();
    for (int phase = 1; phase <= n; phase++)
        for (int i = 0; i < 8; i++) {
            step((unsigned int)phase * STEP);
            CHECK(cuStreamSynchronize(stream));
        }
    return print_value();
}

/* N steps with arguments that never were, and N more with the same three sets of them in turn. */
static int turns(int n)
{
    start();
    for (int i = 0; i < 2 * n; i++) {
        for (uint64_t k = 1; k <= STEP; k++) {
            uint64_t value = k + 1000 * (uint64_t)(i < n ? i + 10 : i % 3);
            CHECK(cuLaunchKernel(hash, (unsigned int)k, 1, 1, 1, 1, 1, 0, stream,
                                 (void *[]){&data, &value}, NULL));
        }
        CHECK(cuStreamSynchronize(stream));
    }
    return print_value();
}

/* Sixty kinds of steps in turn, N times each. */
static int sixty_kinds(int n)
{
    start();
    for (int i = 0; i < 60 * n; i++) {
        step((unsigned int)(i % 60) * STEP);
        CHECK(cuStreamSynchronize(stream));
    }
    return print_value();
}

/* Launches to the per-thread default stream. */
static int per_thread(int n)
{
    start();
    stream = CU_STREAM_PER_THREAD;
    steps(n);
    return print_value();
}

/* Known steps on one stream, broken off at every place by a launch to another that is ordered
 * behind it, or before it, by nothing but the rules of the legacy stream. */
static void break_steps(CUstream broken, CUstream other, int n)
{
    stream = broken;
    steps(n);
    for (uint64_t place = 1; place < STEP; place++) {
        for (uint64_t k = 1; k <= STEP; k++) {
            launch(0, k);
            if (k == place) {
                stream = other;
                launch(100, place);
                stream = broken;
            }
        }
        CHECK(cuCtxSynchronize());
        steps(3);
    }
}

static int legacy(int n)
{
    CUstream blocking;
    start();
    CHECK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    break_steps(blocking, NULL, n);
    print_value();
    break_steps(NULL, blocking, n);
    return print_value();
}

static const struct {
    const char *name;
    int (*run)(int n);
} cases[] = {{"repeat", repeat},
             {"heap", heap},
             {"phases", phases},
             {"turns", turns},
             {"table", table},
             {"memory", memory},
             {"hooks", hooks},
             {"threads", threads},
             {"wakes", wakes},
             {"encode", encode},
             {"constructor", constructor},
             {"prefork", prefork},
             {"newer-capture", newer_capture},
             {"error-log", error_log},
             {"settings", settings},
             {"changing-attribute", changing_attribute},
             {"changing-limit", changing_limit},
             {"collective", collective},
             {"collective-busy", collective_busy},
             {"collective-dormant", collective_dormant},
             {"refused", refused},
             {"last-mib", last_mib},
             {"last-mib-and-wait", last_mib_and_wait},
             {"all-memory", all_memory},
             {"most-memory", most_memory},
             {"too-much", too_much},
             {"refused-once", refused_once},
             {"pinned-memory", pinned_memory},
             {"legacy", legacy},
             {"slow-host", slow_host},
             {"pauses-once", pauses_once},
             {"drops", drops},
             {"sixty-kinds", sixty_kinds},
             {"slow-fill", slow_fill},
             {"slow-host-pauses", slow_host_pauses},
             {"fast-host-pauses", fast_host_pauses},
             {"fast-host-sleeps", fast_host_sleeps},
             {"between", between},
             {"per-thread", per_thread},
             {"small-files", small_files},
             {"title", title},
             {"own-file", own_file},
             {"leaves", leaves},
             {"leaves-at-once", leaves_at_once},
             {"host-function", host_function},
             {"function-in-graph", function_in_graph},
             {"function-lost", function_lost},
             {"function-calls", function_calls},
             {"word", word},
             {"word-first", word_first},
             {"word-beside", word_beside},
             {"word-in-capture", word_in_capture},
             {"word-in-graph", word_in_graph},
             {"word-and-destroy", word_and_destroy},
             {"word-and-other", word_and_other}};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < sizeof cases / sizeof *cases; i++)
        if (!strcmp(argv[1], cases[i].name))
            return cases[i].run(argc > 2 ? atoi(argv[2]) : 10);
    fprintf(stderr, "usage: cases NAME [N]\n");
    return 2;
}
