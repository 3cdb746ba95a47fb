/*
 * scale.c - what an op costs, and what memory is held, as a program grows; over a driver that does
 * nothing (the simulated one with SIMCUDA_MODE=null).
 *
 *     bench_scale AXIS N
 *
 *     ops        one sequence of N launches and a sync, again and again
 *     sequences  N sequences of 20 launches and a sync, in turn
 *     streams    20 launches on each of N streams, in turn, then a sync of each
 *     idle       20 launches and a sync on two streams in turn, of N that have been launched to
 *     threads    N threads, each with a stream: 20 launches and a sync
 *
 * Prints one line: `NS OPS LEARN_NS KB`. NS is what an op costs the calling thread once everything
 * has been met WARM times (median of the measured rounds; of several threads the median thread).
 * LEARN_NS is the processor time of all threads until then over the OPS that were made until then.
 * KB is the resident memory at the end beyond that at the start.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>
#include <unistd.h>

#include "tests/simdriver/simprog.h"

enum {
    STEP = 20,
    ARGS = 8,
    SIGNATURES = 256,
    WARM = 12,
    ROUNDS = 9,       /* that are measured, */
    ROUND_OPS = 6000, /* of at least so many ops */
    MOST_THREADS = 64,
    MOST_STREAMS = 1024
};

struct worker {
    pthread_t thread;
    CUstream *streams;
    double ns[ROUNDS];
};

static CUcontext context;
static CUfunction kernel;
static const char *axis;
static unsigned int size;
static pthread_barrier_t together;
static uint64_t args[ARGS];
static void *params[ARGS];

static void nothing(const struct cuSimLaunch *launch)
{
    (void)launch;
}

static double ns_of(clockid_t clock)
{
    struct timespec ts;
    clock_gettime(clock, &ts);
    return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static long resident_kb(void)
{
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    REQUIRE(f && fscanf(f, "%*d %ld", &pages) == 1);
    fclose(f);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* Which kernel an op is: without a period, and the same in every run. */
static unsigned int signature(unsigned int sequence, unsigned int op)
{
    uint64_t x = ((uint64_t)sequence << 32 | op) + 0x9E3779B97F4A7C15ull;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ x >> 27) * 0x94D049BB133111EBull;
    return 1 + (unsigned int)((x ^ x >> 31) % SIGNATURES);
}

static void launch(CUstream stream, unsigned int grid)
{
    CHECK(cuLaunchKernel(kernel, grid, 1, 1, 64, 1, 1, 0, stream, params, NULL));
}

static void sequence(CUstream stream, unsigned int which, unsigned int ops)
{
    for (unsigned int i = 0; i < ops; i++)
        launch(stream, signature(which, i));
    CHECK(cuStreamSynchronize(stream));
}

/* Everything that there is, once. Returns the number of ops. */
static unsigned int turn(struct worker *w)
{
    if (!strcmp(axis, "ops")) {
        sequence(w->streams[0], 0, size);
        return size;
    }
    if (!strcmp(axis, "sequences")) {
        for (unsigned int i = 0; i < size; i++)
            sequence(w->streams[0], i, STEP);
        return size * STEP;
    }
    if (!strcmp(axis, "streams")) {
        for (unsigned int k = 0; k < STEP; k++)
            for (unsigned int i = 0; i < size; i++)
                launch(w->streams[i], signature(0, k));
        for (unsigned int i = 0; i < size; i++)
            CHECK(cuStreamSynchronize(w->streams[i]));
        return size * STEP;
    }
    if (!strcmp(axis, "idle")) {
        static bool launched;
        for (unsigned int i = 0; i < size && !launched; i++)
            sequence(w->streams[i], 0, 1);
        launched = true;
        sequence(w->streams[0], 0, STEP);
        sequence(w->streams[size / 2], 0, STEP);
        return 2 * STEP;
    }
    sequence(w->streams[0], 0, STEP);
    return STEP;
}

static void *work(void *argument)
{
    struct worker *w = argument;
    CHECK(cuCtxSetCurrent(context));
    for (int i = 0; i < WARM; i++) {
        turn(w);
        usleep(i < 2 ? 20000 : 5000); /* for the builder */
    }
    pthread_barrier_wait(&together);
    pthread_barrier_wait(&together);
    for (int i = 0; i < ROUNDS; i++) {
        unsigned int ops = 0;
        double began = ns_of(CLOCK_THREAD_CPUTIME_ID);
        while (ops < ROUND_OPS)
            ops += turn(w);
        w->ns[i] = (ns_of(CLOCK_THREAD_CPUTIME_ID) - began) / ops;
    }
    return NULL;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, unsigned int n)
{
    qsort(values, n, sizeof(*values), by_value);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static unsigned int ops_of_a_turn(unsigned int threads)
{
    if (!strcmp(axis, "ops"))
        return size;
    if (!strcmp(axis, "idle"))
        return 2 * STEP;
    return !strcmp(axis, "threads") ? threads * STEP : size * STEP;
}

int main(int argc, char **argv)
{
    static struct worker workers[MOST_THREADS];
    static CUstream streams[MOST_STREAMS];
    double values[MOST_THREADS];
    REQUIRE(argc == 3 && atoi(argv[2]) > 0);
    axis = argv[1];
    size = (unsigned int)atoi(argv[2]);
    unsigned int num_threads = strcmp(axis, "threads") ? 1 : size;
    unsigned int num_streams =
        !strcmp(axis, "streams") || !strcmp(axis, "idle") ? size : num_threads;
    REQUIRE(num_threads <= MOST_THREADS && num_streams <= MOST_STREAMS);

    const size_t sizes[ARGS] = {8, 8, 8, 8, 8, 8, 8, 8};
    REQUIRE(cuSimRegisterKernel("bench", nothing, ARGS, NULL, sizes, 0) == 0);
    context = ag_prog_start();
    kernel = ag_prog_function(ag_prog_module(), "bench");
    for (int i = 0; i < ARGS; i++)
        params[i] = &args[i];
    for (unsigned int i = 0; i < num_streams; i++)
        CHECK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    pthread_barrier_init(&together, NULL, num_threads + 1);

    long before = resident_kb();
    double began = ns_of(CLOCK_PROCESS_CPUTIME_ID);
    for (unsigned int i = 0; i < num_threads; i++) {
        workers[i].streams = &streams[i];
        REQUIRE(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
    }
    pthread_barrier_wait(&together);
    double learning = ns_of(CLOCK_PROCESS_CPUTIME_ID) - began;
    pthread_barrier_wait(&together);
    for (unsigned int i = 0; i < num_threads; i++) {
        pthread_join(workers[i].thread, NULL);
        values[i] = median(workers[i].ns, ROUNDS);
    }
    unsigned int ops = ops_of_a_turn(num_threads) * WARM;
    printf("%.2f %u %.2f %ld\n", median(values, num_threads), ops, learning / ops,
           resident_kb() - before);
    return 0;
}
