/*
 * tables.c - programs that call the driver through an export table; `tables NAME [N]`.
 *
 * As in cases.c, each prints what a program can see of its own work.
 */
#include <pthread.h>

#include "tests/simdriver/simprog.h"

enum { STEP = 20, THREADS = 4 };

static CUfunction hash;
static CUstream stream;
static CUdeviceptr data;

static void start(void)
{
    ag_prog_start();
    hash = ag_prog_function(ag_prog_module(), "hash");
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    data = ag_prog_alloc(8);
    CHECK(cuCtxSynchronize());
}

/* The table of an id in hex; NULL where the driver has none. */
static const void *table_of(const char *hex)
{
    const void *table = NULL;
    CUuuid id;
    for (int i = 0; i < 16; i++) {
        unsigned int byte;
        sscanf(hex + 2 * i, "%2x", &byte);
        id.bytes[i] = (char)byte;
    }
    return cuGetExportTable(&table, &id) == CUDA_SUCCESS ? table : NULL;
}

static const struct cuSimTable *functions(void)
{
    const struct cuSimTable *table = table_of(SIMCUDA_TABLE);
    REQUIRE(table && table->bytes == sizeof(*table) && !table->none);
    return table;
}

/* Launches that look unlike each other. */
static void launches(uint64_t from, uint64_t to)
{
    for (uint64_t k = from; k < to; k++)
        CHECK(cuLaunchKernel(hash, (unsigned int)k + 1, 1, 1, 1, 1, 1, 0, stream,
                             (void *[]){&data, &k}, NULL));
}

static int print_value(void)
{
    CHECK(cuStreamSynchronize(stream));
    printf("value %llu\n", (unsigned long long)ag_prog_read64(data));
    return 0;
}

/* A function that does nothing, in the middle of each step. */
static int quiet(int n)
{
    start();
    const struct cuSimTable *table = functions();
    for (int i = 0; i < n; i++) {
        launches(0, STEP / 2);
        REQUIRE(table->do_nothing() == CUDA_SUCCESS);
        launches(STEP / 2, STEP);
        CHECK(cuStreamSynchronize(stream));
    }
    return print_value();
}

/* A function that launches to the stream, and one that tells what the launches before it have left.
 */
static int order(int n)
{
    uint64_t seen = 0, word;
    start();
    const struct cuSimTable *table = functions();
    for (int i = 0; i < n; i++) {
        uint64_t k = 1000 + (uint64_t)i;
        launches(0, STEP / 2);
        REQUIRE(table->launch(hash, stream, (void *[]){&data, &k}) == CUDA_SUCCESS);
        launches(STEP / 2, STEP);
        REQUIRE(table->read_word(stream, data, &word) == CUDA_SUCCESS);
        seen = seen * 31 + word;
    }
    printf("seen %llu\n", (unsigned long long)seen);
    return print_value();
}

/* Copies and fills in the step as well: what is known of their memory is forgotten at each call. */
static int memory(int n)
{
    start();
    const struct cuSimTable *table = functions();
    CUdeviceptr other = ag_prog_alloc(8);
    CHECK(cuCtxSynchronize());
    for (int i = 0; i < n; i++) {
        launches(0, STEP / 2);
        CHECK(cuMemcpyDtoDAsync_v2(other, data, 8, stream));
        REQUIRE(table->do_nothing() == CUDA_SUCCESS);
        launches(STEP / 2, STEP);
        CHECK(cuMemsetD32Async(other, 7, 2, stream));
        CHECK(cuStreamSynchronize(stream));
    }
    return print_value();
}

/* A function takes away memory that was filled in each step before. */
static int freed(int n)
{
    start();
    const struct cuSimTable *table = functions();
    CUdeviceptr spare = ag_prog_alloc(8), other = ag_prog_alloc(8);
    CHECK(cuCtxSynchronize());
    REQUIRE(table->free_memory(spare) == CUDA_SUCCESS); /* not for the first time */
    for (int i = 0; i < n; i++) {
        launches(0, STEP);
        CHECK(cuMemsetD32Async(other, 7, 2, stream));
        CHECK(cuStreamSynchronize(stream));
    }
    REQUIRE(table->free_memory(other) == CUDA_SUCCESS);
    launches(0, STEP);
    printf("fill of freed memory: %d\n", (int)cuMemsetD32Async(other, 7, 2, stream));
    return print_value();
}

static void *ask(void *barrier)
{
    pthread_barrier_wait(barrier);
    return (void *)(uintptr_t)functions();
}

/* Threads that ask at once, and again. */
static int same(int n)
{
    pthread_t threads[THREADS];
    pthread_barrier_t barrier;
    CHECK(cuInit(0));
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, ask, &barrier) == 0);
    for (int i = 0; i < THREADS; i++) {
        void *table;
        pthread_join(threads[i], &table);
        REQUIRE(table == (void *)(uintptr_t)functions());
    }
    for (int i = 0; i < n; i++)
        REQUIRE(functions()->do_nothing() == CUDA_SUCCESS);
    printf("the same\n");
    return 0;
}

/* A table that is asked for between steps. */
static int asked(const char *hex, int n)
{
    start();
    for (int i = 0; i < 2 * n; i++) {
        if (i == n)
            printf("table: %s\n", table_of(hex) ? "there" : "not there");
        launches(0, STEP);
        CHECK(cuStreamSynchronize(stream));
    }
    return print_value();
}

static int outside(int n)
{
    return asked(SIMCUDA_TABLE_OUTSIDE, n);
}

static int known(int n)
{
    return asked("6bd5fb6c5bf4e74a8987d93912fd9df9", n);
}

/* Of the ids that tools ask for. */
static int tool(int n)
{
    return asked("2c8e0ad80710ab4e90dd54719fe5f74b", n);
}

static const struct {
    const char *name;
    int (*run)(int n);
} cases[] = {{"quiet", quiet}, {"order", order}, {"memory", memory},   {"freed", freed},
             {"same", same},   {"known", known}, {"outside", outside}, {"tool", tool}};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < sizeof cases / sizeof *cases; i++)
        if (!strcmp(argv[1], cases[i].name))
            return cases[i].run(argc > 2 ? atoi(argv[2]) : 10);
    fprintf(stderr, "usage: tables NAME [N]\n");
    return 2;
}
