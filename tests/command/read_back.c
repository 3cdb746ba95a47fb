/*
 * read_back.c - steps that copy a word to the host at their end, which decides what the next step
 * does. On the simulated driver.
 *
 *     read_back CASE STEPS
 */
#define _GNU_SOURCE
#include "tests/simdriver/simprog.h"
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

enum { OPS = 5, WORDS = 64 };
#define NOT_YET 0x6e6f74207965742aull /* no hash is that */

static CUcontext ctx;
static CUfunction hash;
static int steps;

struct solver {
    CUstream stream;
    CUdeviceptr x;
    uint64_t *host; /* the copy goes there; NULL: to the stack */
    size_t bytes;
    bool sync, polls; /* how the host waits */
    uint64_t seen;
};

static void prepare(struct solver *s)
{
    if (!s->stream)
        CHECK(cuStreamCreate(&s->stream, CU_STREAM_NON_BLOCKING));
    s->x = ag_prog_alloc(WORDS * sizeof(uint64_t));
    CHECK(cuCtxSynchronize());
}

/* The simulated GPU writes the word as a real one does, which ThreadSanitizer would call a race. */
__attribute__((no_sanitize_thread, noinline)) static void clear(_Atomic uint64_t *word)
{
    *word = NOT_YET;
}

__attribute__((no_sanitize_thread, noinline)) static uint64_t poll(_Atomic uint64_t *word)
{
    uint64_t seen;
    while ((seen = *word) == NOT_YET)
        sched_yield();
    return seen;
}

/* What is read decides the arguments of the next step. */
static void *solve(void *argument)
{
    struct solver *s = argument;
    uint64_t stack[WORDS] = {0}, *host = s->host ? s->host : stack;
    CHECK(cuCtxSetCurrent(ctx));
    _Atomic uint64_t *word = (_Atomic uint64_t *)host;
    for (int i = 0; i < steps; i++) {
        for (int k = 0; k < OPS; k++)
            CHECK(ag_prog_hash(hash, s->stream, s->x, (s->seen & 0xff) + 1));
        if (s->polls)
            clear(word);
        if (s->sync)
            CHECK(cuMemcpyDtoH_v2(host, s->x, s->bytes));
        else
            CHECK(cuMemcpyDtoHAsync_v2(host, s->x, s->bytes, s->stream));
        if (s->host && !s->sync && !s->polls)
            CHECK(cuStreamSynchronize(s->stream));
        s->seen = s->seen * 31 + (s->polls ? poll(word) : host[0]);
    }
    return NULL;
}

static void tell(const struct solver *s)
{
    printf("%016llx\n", (unsigned long long)s->seen);
}

static void one(struct solver s)
{
    prepare(&s);
    solve(&s);
    tell(&s);
}

static uint64_t *pinned(void)
{
    void *host;
    CHECK(cuMemHostAlloc(&host, WORDS * sizeof(uint64_t), 0));
    return host;
}

static uint64_t *registered(void)
{
    static uint64_t words[WORDS];
    CHECK(cuMemHostRegister_v2(words, sizeof words, 0));
    return words;
}

static uint64_t *managed(void)
{
    CUdeviceptr p;
    CHECK(cuMemAllocManaged(&p, WORDS * sizeof(uint64_t), CU_MEM_ATTACH_GLOBAL));
    return (uint64_t *)(uintptr_t)p;
}

/* Threads on streams of which several share a place in the library's memory. */
static void threads(void)
{
    enum { THREADS = 4, APART = 64 };
    pthread_t thread[THREADS];
    struct solver s[THREADS] = {{0}};
    for (int i = 0; i < THREADS; i++) {
        s[i].bytes = 8;
        prepare(&s[i]);
        CHECK(ag_prog_hash(hash, s[i].stream, s[i].x, 0));
        for (int k = 1; k < APART; k++) {
            CUstream between;
            CHECK(cuStreamCreate(&between, CU_STREAM_NON_BLOCKING));
            CHECK(ag_prog_hash(hash, between, s[i].x + 8, 0));
            CHECK(cuStreamSynchronize(between));
            CHECK(cuStreamDestroy_v2(between));
        }
        CHECK(cuStreamSynchronize(s[i].stream));
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&thread[i], NULL, solve, &s[i]) == 0 ? CUDA_SUCCESS
                                                                  : CUDA_ERROR_UNKNOWN);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        tell(&s[i]);
    }
}

/* Copies by themselves, as of a program that looks at what a kernel which fills the GPU has done.
 */
static void alone(void)
{
    struct solver s = {.bytes = 8};
    uint64_t word = 0, seen = 0;
    prepare(&s);
    for (int i = 0; i < steps; i++) {
        if (i < 8)
            CHECK(ag_prog_hash(hash, s.stream, s.x, 1));
        CHECK(cuStreamSynchronize(s.stream));
        CHECK(cuMemcpyDtoHAsync_v2(&word, s.x, sizeof word, s.stream));
        seen = seen * 31 + word;
    }
    printf("%016llx\n", (unsigned long long)seen);
}

/* The legacy stream, behind work of a blocking stream. */
static void behind(void)
{
    struct solver s = {.stream = CU_STREAM_LEGACY, .bytes = 8, .sync = true};
    CUstream blocking;
    uint64_t word, seen = 0;
    prepare(&s);
    CHECK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    CHECK(ag_prog_hash(hash, CU_STREAM_LEGACY, s.x + 8,
                       1)); /* the library knows a stream from its first launch */
    for (int i = 0; i < steps; i++) {
        for (int k = 0; k < OPS + (int)(seen % 4); k++) /* more than are expected, or less */
            CHECK(ag_prog_hash(hash, blocking, s.x, (seen & 0xff) + 1));
        CHECK(cuMemcpyDtoH_v2(&word, s.x, sizeof word));
        seen = seen * 31 + word;
    }
    printf("%016llx\n", (unsigned long long)seen);
}

/* A loop without a sync that begins with the copy, behind another one. */
static void first(void)
{
    struct solver s = {.host = pinned(), .bytes = 8};
    prepare(&s);
    CHECK(ag_prog_hash(hash, s.stream, s.x, 1));
    for (int i = 0; i < steps; i++) {
        CHECK(cuMemcpyDtoHAsync_v2(s.host, s.x, s.bytes, s.stream));
        CHECK(ag_prog_hash(hash, s.stream, s.x, 2));
        CHECK(cuMemsetD8Async(s.x + 64, 0, 8, s.stream));
    }
    CHECK(cuStreamSynchronize(s.stream));
    printf("%016llx\n", (unsigned long long)s.host[0]);
}

/* Only the record of an event stands before each copy. */
static void recorded(void)
{
    struct solver s = {.bytes = 8};
    CUevent event;
    prepare(&s);
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (int i = 0; i < steps; i++) {
        uint64_t word = 0;
        if (i < 8)
            CHECK(ag_prog_hash(hash, s.stream, s.x, 1));
        CHECK(cuEventRecord(event, s.stream));
        CHECK(cuMemcpyDtoHAsync_v2(&word, s.x, sizeof word, s.stream));
        s.seen = s.seen * 31 + word;
    }
    tell(&s);
}

/* The driver refuses one copy, and only where that has this name (NULL: wherever it is made). */
static void refused(struct solver s, const char *name)
{
    static const char *const names[] = {"cuMemcpyDtoHAsync_v2", "cuMemcpyDtoH_v2"};
    uint64_t *word = pinned(), *read = calloc(1, sizeof *read);
    prepare(&s);
    for (int i = 0; i < steps; i++) {
        bool other = i < steps - 2, fails = i == steps - 2;
        for (int k = 0; k < OPS; k++)
            CHECK(ag_prog_hash(hash, s.stream, s.x, 1));
        if (other) { /* of another sequence, so that the last two copies are in no graph */
            CHECK(cuMemcpyDtoHAsync_v2(word, s.x, s.bytes, s.stream));
            for (int k = 0; k < OPS; k++)
                CHECK(ag_prog_hash(hash, s.stream, s.x, 1));
            CHECK(cuStreamSynchronize(s.stream));
            continue;
        }
        for (int k = 0; k < 2; k++)
            cuSimFail(names[k], 0, fails && (!name || !strcmp(name, names[k])) ? 1 : 0);
        CUresult r = s.sync ? cuMemcpyDtoH_v2(read, s.x, s.bytes)
                            : cuMemcpyDtoHAsync_v2(read, s.x, s.bytes, s.stream);
        for (int k = 0; k < 2; k++)
            cuSimFail(names[k], 0, 0);
        CUresult next = ag_prog_hash(hash, s.stream, s.x, 1);
        printf("copy %d, next launch %d, sync %d\n", (int)r, (int)next,
               (int)cuStreamSynchronize(s.stream));
    }
}

/* A step in one of two contexts of a thread. `fault`: its last kernel faults, which no call has
 * told the program when this returns. */
static void step_of(const struct solver *s, CUfunction trap, int fault)
{
    uint64_t word = 0, before = cuSimExecuted("kernel");
    void *params[] = {&fault};
    for (int k = 0; k < OPS; k++)
        CHECK(ag_prog_hash(hash, s->stream, s->x, 1));
    CHECK(ag_prog_launch(trap, s->stream, params));
    if (!fault)
        CHECK(cuMemcpyDtoH_v2(&word, s->x, s->bytes));
    else
        cuStreamQuery(s->stream); /* what is held back goes */
    while (fault && cuSimExecuted("kernel") < before + OPS + 1)
        sched_yield();
}

/* One of two contexts ends with an error, which the other must not hear of, and replays on. */
static void contexts(void)
{
    struct solver s[2];
    CUcontext of[2];
    CUfunction hashes[2], traps[2];
    for (int i = 0; i < 2; i++) {
        CHECK(cuDevicePrimaryCtxRetain(&of[i], i));
        CHECK(cuCtxSetCurrent(of[i]));
        CUmodule module = ag_prog_module();
        hashes[i] = ag_prog_function(module, "hash");
        traps[i] = ag_prog_function(module, "trap");
        s[i] = (struct solver){.stream = CU_STREAM_LEGACY, .bytes = 8};
        prepare(&s[i]);
    }
    for (int i = 0; i < 4 * steps; i++) {
        int at = i / steps % 2;
        CHECK(cuCtxSetCurrent(of[at]));
        hash = hashes[at];
        step_of(&s[at], traps[at], i == 4 * steps - 1 ? CUDA_ERROR_LAUNCH_FAILED : 0);
    }
    hash = hashes[1];
    for (int k = 0; k < 3; k++) /* they fail at once, or when the library submits them */
        ag_prog_hash(hash, s[1].stream, s[1].x, 1);
    CHECK(cuCtxSetCurrent(of[0]));
    hash = hashes[0];
    for (int i = 0; i < steps; i++)
        step_of(&s[0], traps[0], 0);
    CHECK(cuCtxSetCurrent(of[1]));
    printf("the other context: %d\n", (int)cuCtxSynchronize());
    CHECK(cuCtxSetCurrent(of[0]));
    CHECK(cuDevicePrimaryCtxReset_v2(1));
    for (int i = 0; i < 8 * steps; i++)
        step_of(&s[0], traps[0], 0);
}

/* As many copies as launches, and the host takes far longer than either. */
static void busy(void)
{
    struct solver s = {.host = pinned(), .bytes = 8};
    prepare(&s);
    for (int i = 0; i < steps; i++) {
        CHECK(ag_prog_hash(hash, s.stream, s.x, 1));
        CHECK(cuMemcpyDtoHAsync_v2(s.host, s.x, s.bytes, s.stream));
        CHECK(cuStreamSynchronize(s.stream));
        s.seen = s.seen * 31 + s.host[0];
        for (int turn = 0; turn < 100000; turn++)
            s.seen ^= s.seen * 0x9e3779b97f4a7c15ull >> (turn % 32 + 1);
    }
    tell(&s);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    ctx = ag_prog_start();
    hash = ag_prog_function(ag_prog_module(), "hash");
    steps = atoi(argv[2]);
    if (!strcmp(argv[1], "stack"))
        one((struct solver){.bytes = 8});
    else if (!strcmp(argv[1], "sync"))
        one((struct solver){.stream = CU_STREAM_LEGACY, .bytes = 8, .sync = true});
    else if (!strcmp(argv[1], "sync-pinned"))
        one((struct solver){
            .stream = CU_STREAM_LEGACY, .host = pinned(), .bytes = 8, .sync = true});
    else if (!strcmp(argv[1], "pinned"))
        one((struct solver){.host = pinned(), .bytes = 8});
    else if (!strcmp(argv[1], "polled"))
        one((struct solver){.host = pinned(), .bytes = 8, .polls = true});
    else if (!strcmp(argv[1], "registered"))
        one((struct solver){.host = registered(), .bytes = 8});
    else if (!strcmp(argv[1], "managed"))
        one((struct solver){.host = managed(), .bytes = 8});
    else if (!strcmp(argv[1], "large"))
        one((struct solver){.bytes = WORDS * sizeof(uint64_t)});
    else if (!strcmp(argv[1], "behind"))
        behind();
    else if (!strcmp(argv[1], "alone"))
        alone();
    else if (!strcmp(argv[1], "first"))
        first();
    else if (!strcmp(argv[1], "recorded"))
        recorded();
    else if (!strcmp(argv[1], "refused"))
        refused((struct solver){.bytes = 8}, NULL);
    else if (!strcmp(argv[1], "refused-sync"))
        refused((struct solver){.stream = CU_STREAM_LEGACY, .bytes = 8, .sync = true}, NULL);
    else if (!strcmp(argv[1], "refused-held"))
        refused((struct solver){.stream = CU_STREAM_LEGACY, .bytes = 8, .sync = true},
                "cuMemcpyDtoHAsync_v2");
    else if (!strcmp(argv[1], "contexts"))
        contexts();
    else if (!strcmp(argv[1], "threads"))
        threads();
    else if (!strcmp(argv[1], "busy"))
        busy();
    else
        return 2;
    return 0;
}
