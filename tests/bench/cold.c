/*
 * cold.c - nanoseconds of a launch call of a known sequence in a program that has thrown the
 * library out of the caches since the call before. Over a driver that does nothing
 * (SIMCUDA_MODE=null); tests/bench/cold runs it.
 *
 *     bench_cold DATA_KIB CODE_KIB STEPS STREAM
 *
 * Between two launches the program reads DATA_KIB of memory and runs through CODE_KIB of code (on
 * x86-64; elsewhere it runs none), in random order. A step is 20 launches, and never a sync.
 * STREAM: 0 is the legacy default stream, 1 a non-blocking one. Each of the twenty launches has its
 * median over the steps. Prints the mean of these, the least and the most: launches that are only
 * held back take least, those that end a chunk most. Reading the clock is part of each.
 */
#include "tests/simdriver/simprog.h"
#include <float.h>
#include <sys/mman.h>
#include <unistd.h>

enum { STEP = 20, ARGS = 8, LINE = 64, WARM_STEPS = 2000 };

struct walk {
    uint8_t *lines;
    uint32_t *order, n;
};

static void nothing(const struct cuSimLaunch *launch)
{
    (void)launch;
}

static struct walk make_walk(size_t kib, int protection)
{
    struct walk w = {.n = (uint32_t)(kib * 1024 / LINE)};
    if (!w.n)
        return w;
    w.lines = mmap(NULL, kib * 1024, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    w.order = malloc(w.n * sizeof(*w.order));
    REQUIRE(w.lines != MAP_FAILED && w.order);
    for (uint32_t i = 0; i < w.n; i++) {
        uint32_t j = (uint32_t)rand() % (i + 1);
        w.order[i] = w.order[j];
        w.order[j] = i;
    }
    return w;
}

static void read_all(const struct walk *w)
{
    for (uint32_t i = 0; i < w->n; i++)
        *(volatile uint8_t *)&w->lines[(size_t)LINE * w->order[i]];
}

/* Each line of code jumps to the next one; the last one returns. */
static void write_jumps(struct walk *w)
{
#if defined(__x86_64__)
    enum { RET = 0xc3, JMP = 0xe9, JMP_BYTES = 5 };
    for (uint32_t i = 0; i < w->n; i++) {
        uint8_t *from = w->lines + (size_t)LINE * w->order[i];
        if (i + 1 == w->n) {
            *from = RET;
            break;
        }
        int32_t distance = (int32_t)(LINE * ((int64_t)w->order[i + 1] - w->order[i]) - JMP_BYTES);
        *from = JMP;
        memcpy(from + 1, &distance, sizeof(distance));
    }
#else
    w->n = 0;
#endif
}

static void run_all(const struct walk *w)
{
    if (w->n)
        ((void (*)(void))(uintptr_t)(w->lines + (size_t)LINE * w->order[0]))();
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    const size_t sizes[ARGS] = {8, 8, 8, 8, 8, 8, 8, 8};
    if (argc != 5)
        return 2;
    int steps = atoi(argv[3]);
    struct walk data = make_walk((size_t)atoi(argv[1]), PROT_READ | PROT_WRITE);
    struct walk code = make_walk((size_t)atoi(argv[2]), PROT_READ | PROT_WRITE | PROT_EXEC);
    write_jumps(&code);
    REQUIRE(cuSimRegisterKernel("cold", nothing, ARGS, NULL, sizes, 0) == 0);
    ag_prog_start();
    CUfunction kernel = ag_prog_function(ag_prog_module(), "cold");
    CUstream stream = NULL;
    if (atoi(argv[4]))
        CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    uint64_t args[ARGS] = {0};
    void *params[ARGS];
    for (int i = 0; i < ARGS; i++)
        params[i] = &args[i];

    double *ns[STEP];
    REQUIRE(steps > 0);
    for (int i = 0; i < STEP; i++)
        REQUIRE((ns[i] = malloc((size_t)steps * sizeof(**ns))) != NULL);
    for (int step = -WARM_STEPS; step < steps; step++) {
        if (step < 0 && step % 100 == 0)
            usleep(500); /* the builder's time */
        for (int i = 0; i < STEP; i++) {
            if (step >= 0) {
                read_all(&data);
                run_all(&code);
            }
            double began = ag_prog_seconds();
            CHECK(cuLaunchKernel(kernel, (unsigned int)i + 1, 1, 1, 64, 1, 1, 0, stream, params,
                                 NULL));
            if (step >= 0)
                ns[i][step] = (ag_prog_seconds() - began) * 1e9;
        }
    }
    double sum = 0, least = DBL_MAX, most = 0;
    for (int i = 0; i < STEP; i++) {
        qsort(ns[i], (size_t)steps, sizeof(**ns), by_value);
        double median = ns[i][steps / 2];
        sum += median;
        least = median < least ? median : least;
        most = median > most ? median : most;
    }
    printf("mean %.0f least %.0f most %.0f\n", sum / STEP, least, most);
    return 0;
}
