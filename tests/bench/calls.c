/*
 * calls.c - what a call costs the calling thread, in nanoseconds of its own processor time, over a
 * driver that does nothing (the simulated one with SIMCUDA_MODE=null).
 *
 *     bench_calls [-b BATCHES] [CASE[/THREADS]]...
 *
 * Prints a line `CASE THREADS NANOSECONDS` for each case: the median over batches, of several
 * threads the median thread. "each" and "each-4096" take the time of each single launch instead, by
 * the clock, and print the median and the 99th percentile ("each-p99") of the first thread; reading
 * the clock is part of it. It is the same program with and without the library: tests/bench/run
 * compares.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>
#include <unistd.h>

#include "tests/simdriver/simprog.h"

enum {
    STEP = 20,      /* launches of a step, each of a signature of its own */
    FORKED = 16,    /* launches to the two streams of a step that forks and joins */
    ARGS = 8,       /* of eight bytes each */
    LARGE = 164,    /* words of a large argument */
    LARGEST = 4096, /* bytes of the largest that a launch could have before CUDA 12.1 */
    SIGNATURES = 64,
    MAX_THREADS = 8,
    MAX_BATCHES = 9999
};

/* Alone on its cache lines: what a thread writes is no other's business. */
struct worker {
    _Alignas(128) const struct bench *bench;
    pthread_t thread;
    CUstream stream;
    uint64_t random;
    uint64_t fresh; /* a signature that no launch had */
    uint64_t args[ARGS];
    void *params[ARGS];
    uint32_t large[LARGE];
    uint8_t largest[LARGEST];
    double ns[MAX_BATCHES];
    double *each; /* ns of each launch */
    size_t num_each;
};

/* `calls` of a batch are what its time is divided by. `warm` batches are not measured: in them
 * sequences are learnt and graphs built; they leave the builder time. */
struct bench {
    const char *name;
    void (*batch)(struct worker *w, int calls);
    int calls, warm, batches;
};

static CUcontext context;
static CUfunction kernel, large_kernel, largest_kernel;
static int max_batches = 15;
static pthread_barrier_t together;

static void nothing(const struct cuSimLaunch *launch)
{
    (void)launch;
}

/* xorshift64*: the same launches in every run */
static uint64_t next_random(struct worker *w)
{
    w->random ^= w->random >> 12;
    w->random ^= w->random << 25;
    w->random ^= w->random >> 27;
    return w->random * 0x2545F4914F6CDD1Dull >> 32;
}

static void launch(struct worker *w, unsigned int grid)
{
    CHECK(cuLaunchKernel(kernel, grid, 1, 1, 64, 1, 1, 0, w->stream, w->params, NULL));
}

static void pass(struct worker *w, int calls)
{
    CUcontext ctx;
    (void)w;
    for (int i = 0; i < calls; i++)
        CHECK(cuCtxGetCurrent(&ctx));
}

/* A stub in assembly. */
static void barrier(struct worker *w, int calls)
{
    size_t available;
    (void)w;
    for (int i = 0; i < calls; i++)
        CHECK(cuMemGetInfo_v2(&available, NULL));
}

/* A hook in C. */
static void synchronize(struct worker *w, int calls)
{
    for (int i = 0; i < calls; i++)
        CHECK(cuStreamSynchronize(w->stream));
}

static void loop(struct worker *w, int calls)
{
    for (int i = 0; i < calls; i += STEP)
        for (unsigned int k = 1; k <= STEP; k++)
            launch(w, k);
}

static void launch_largest(struct worker *w, unsigned int grid)
{
    void *params[] = {w->largest};
    CHECK(cuLaunchKernel(largest_kernel, grid, 1, 1, 64, 1, 1, 0, w->stream, params, NULL));
}

static void loop_largest(struct worker *w, int calls)
{
    for (int i = 0; i < calls; i += STEP)
        for (unsigned int k = 1; k <= STEP; k++)
            launch_largest(w, k);
}

static double clock_ns(clockid_t clock)
{
    struct timespec ts;
    clock_gettime(clock, &ts);
    return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static void time_each(struct worker *w, int calls, void (*launches)(struct worker *, unsigned int))
{
    REQUIRE(w->each = realloc(w->each, (w->num_each + (size_t)calls) * sizeof(*w->each)));
    for (int i = 0; i < calls; i++) {
        double begin = clock_ns(CLOCK_MONOTONIC);
        launches(w, 1 + (unsigned int)i % STEP);
        w->each[w->num_each++] = clock_ns(CLOCK_MONOTONIC) - begin;
    }
}

static void each(struct worker *w, int calls)
{
    time_each(w, calls, launch);
}

static void each_largest(struct worker *w, int calls)
{
    time_each(w, calls, launch_largest);
}

static void step(struct worker *w, int calls)
{
    for (int i = 0; i < calls; i += STEP) {
        for (unsigned int k = 1; k <= STEP; k++)
            launch(w, k);
        CHECK(cuStreamSynchronize(w->stream));
    }
}

static void one(struct worker *w, int calls)
{
    for (int i = 0; i < calls; i++) {
        launch(w, 1);
        CHECK(cuStreamSynchronize(w->stream));
    }
}

/* One argument of each launch changes with every step. */
static void step_args(struct worker *w, int calls)
{
    for (int i = 0; i < calls; i += STEP) {
        w->args[ARGS - 1]++;
        for (unsigned int k = 1; k <= STEP; k++)
            launch(w, k);
        CHECK(cuStreamSynchronize(w->stream));
    }
}

/* As PyTorch's kernels come: structures of 656 bytes in which a few words are what was on the
 * stack, of the same few values in no order, and others with such a word in their padding. */
static void step_stack(struct worker *w, int calls)
{
    static const int places[] = {9, 11, 17, 19, 33, 45, 141, 143};
    void *params[] = {w->large};
    for (int i = 0; i < calls; i += STEP) {
        for (unsigned int k = 1; k <= STEP; k++) {
            if (k % 3 == 0) {
                uint32_t value = (uint32_t)next_random(w) % 6;
                for (size_t at = 0; at < sizeof(places) / sizeof(places[0]); at++)
                    w->large[places[at]] = value + (uint32_t)at;
                CHECK(cuLaunchKernel(large_kernel, k, 1, 1, 64, 1, 1, 0, w->stream, params, NULL));
                continue;
            }
            w->args[2] = k % 3 == 1 ? (uint32_t)next_random(w) % 8 : 0;
            launch(w, k);
        }
        CHECK(cuStreamSynchronize(w->stream));
    }
}

static CUevent new_event(void)
{
    CUevent event;
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    return event;
}

/* As loop, with an event that nobody asks for behind every second launch. */
static void records(struct worker *w, int calls)
{
    CUevent event = new_event();
    for (int i = 0; i < calls; i += STEP)
        for (unsigned int k = 1; k <= STEP; k++) {
            launch(w, k);
            if (k % 2 == 0)
                CHECK(cuEventRecord(event, w->stream));
        }
    CHECK(cuEventDestroy_v2(event));
}

static void launch_to(struct worker *w, CUstream stream, unsigned int grid)
{
    CHECK(cuLaunchKernel(kernel, grid, 1, 1, 64, 1, 1, 0, stream, w->params, NULL));
}

/* A kernel, two streams with eight each, which fork and join, and a sync. The four event calls
 * belong to the launches. */
static void forks(struct worker *w, int calls)
{
    CUevent forked = new_event(), joined = new_event();
    CUstream side;
    CHECK(cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < calls; i += FORKED) {
        launch_to(w, w->stream, 1);
        CHECK(cuEventRecord(forked, w->stream));
        CHECK(cuStreamWaitEvent(side, forked, 0));
        for (unsigned int k = 2; k <= 1 + FORKED / 2; k++) {
            launch_to(w, w->stream, k);
            launch_to(w, side, k);
        }
        CHECK(cuEventRecord(joined, side));
        CHECK(cuStreamWaitEvent(w->stream, joined, 0));
        CHECK(cuStreamSynchronize(w->stream));
    }
    CHECK(cuStreamDestroy_v2(side));
    CHECK(cuEventDestroy_v2(forked));
    CHECK(cuEventDestroy_v2(joined));
}

/* An event that is asked for behind each record. */
static void query(struct worker *w, int calls)
{
    CUevent event = new_event();
    for (int i = 0; i < calls; i++) {
        CHECK(cuEventRecord(event, w->stream));
        cuEventQuery(event);
    }
    CHECK(cuEventDestroy_v2(event));
}

static void random_known(struct worker *w, int calls)
{
    for (int i = 0; i < calls; i++)
        launch(w, 1 + (unsigned int)(next_random(w) % SIGNATURES));
}

static void random_new(struct worker *w, int calls)
{
    for (int i = 0; i < calls; i++)
        launch(w, (unsigned int)++w->fresh);
}

static const struct bench benches[] = {
    {"pass", pass, 20000, 1, 0},
    {"barrier", barrier, 20000, 1, 0},
    {"sync", synchronize, 20000, 1, 0},
    {"loop", loop, 400 * STEP, 12, 0},
    {"loop-4096", loop_largest, 400 * STEP, 12, 0},
    {"each", each, 400 * STEP, 12, 0},
    {"each-4096", each_largest, 400 * STEP, 12, 0},
    {"step", step, 400 * STEP, 12, 0},
    {"records", records, 400 * STEP, 12, 0},
    {"forks", forks, 400 * FORKED, 12, 0},
    {"query", query, 20000, 2, 0},
    {"one", one, 8000, 12, 0},
    {"step-args", step_args, 400 * STEP, 12, 0},
    {"step-stack", step_stack, 400 * STEP, 12, 0},
    /* while the library still looks for a repetition ... */
    {"observing", random_known, 2048, 1, 14},
    {"observing-new", random_new, 2048, 1, 14},
    /* ... and when it has looked long enough */
    {"dormant", random_known, 65536, 8, 0},
};

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof(*values), by_value);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static int batches_of(const struct bench *b)
{
    return b->batches ? b->batches : max_batches;
}

static void *work(void *argument)
{
    struct worker *w = argument;
    const struct bench *b = w->bench;
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&w->stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < ARGS; i++)
        w->params[i] = &w->args[i];
    for (int i = 0; i < b->warm; i++) {
        b->batch(w, b->calls);
        usleep(2000);
    }
    w->num_each = 0;
    for (int i = 0; i < batches_of(b); i++) {
        pthread_barrier_wait(&together);
        double begin = clock_ns(CLOCK_THREAD_CPUTIME_ID);
        b->batch(w, b->calls);
        w->ns[i] = (clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin) / b->calls;
    }
    CHECK(cuStreamSynchronize(w->stream));
    CHECK(cuStreamDestroy_v2(w->stream));
    return NULL;
}

static void measure(const struct bench *b, int threads)
{
    struct worker *workers = aligned_alloc(128, (size_t)threads * sizeof(*workers));
    double values[MAX_THREADS];
    REQUIRE(workers);
    memset(workers, 0, (size_t)threads * sizeof(*workers));
    pthread_barrier_init(&together, NULL, (unsigned int)threads);
    for (int i = 0; i < threads; i++) {
        workers[i].bench = b;
        workers[i].random = 88172645463325252ull + (uint64_t)i;
        workers[i].fresh = 1000 + (uint64_t)i * 10000000;
        REQUIRE(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(workers[i].thread, NULL);
        values[i] = median(workers[i].ns, batches_of(b));
    }
    struct worker *first = workers;
    if (first->each) {
        qsort(first->each, first->num_each, sizeof(*first->each), by_value);
        printf("%s %d %.2f\n%s-p99 %d %.2f\n", b->name, threads, first->each[first->num_each / 2],
               b->name, threads, first->each[first->num_each * 99 / 100]);
    } else {
        printf("%s %d %.2f\n", b->name, threads, median(values, threads));
    }
    fflush(stdout);
    pthread_barrier_destroy(&together);
    for (int i = 0; i < threads; i++)
        free(workers[i].each);
    free(workers);
}

static bool measure_named(const char *text)
{
    const char *slash = strchr(text, '/');
    size_t length = slash ? (size_t)(slash - text) : strlen(text);
    int threads = slash ? atoi(slash + 1) : 1;
    for (size_t i = 0; i < sizeof(benches) / sizeof(benches[0]); i++)
        if (strlen(benches[i].name) == length && !strncmp(benches[i].name, text, length)) {
            measure(&benches[i], threads < 1 || threads > MAX_THREADS ? 1 : threads);
            return true;
        }
    fprintf(stderr, "bench_calls: no case %s\n", text);
    return false;
}

int main(int argc, char **argv)
{
    int option;
    while ((option = getopt(argc, argv, "b:")) != -1) {
        if (option != 'b')
            return 2;
        max_batches = atoi(optarg);
        if (max_batches < 1 || max_batches > MAX_BATCHES)
            return 2;
    }
    const size_t sizes[ARGS] = {8, 8, 8, 8, 8, 8, 8, 8};
    REQUIRE(cuSimRegisterKernel("bench", nothing, ARGS, NULL, sizes, 0) == 0);
    const size_t large[] = {LARGE * sizeof(uint32_t)};
    REQUIRE(cuSimRegisterKernel("large", nothing, 1, NULL, large, 0) == 0);
    const size_t largest[] = {LARGEST};
    REQUIRE(cuSimRegisterKernel("largest", nothing, 1, NULL, largest, 0) == 0);
    context = ag_prog_start();
    CUmodule module = ag_prog_module();
    kernel = ag_prog_function(module, "bench");
    large_kernel = ag_prog_function(module, "large");
    largest_kernel = ag_prog_function(module, "largest");
    if (optind == argc)
        for (size_t i = 0; i < sizeof(benches) / sizeof(benches[0]); i++)
            measure(&benches[i], 1);
    for (int i = optind; i < argc; i++)
        if (!measure_named(argv[i]))
            return 2;
    return 0;
}
