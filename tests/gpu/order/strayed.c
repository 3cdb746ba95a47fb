/*
 * strayed.c - what a thread waits for after another one has submitted what it held back.
 *
 *   strayed           for each way to wait: `ROUNDS` steps in the per-thread default stream
 *   strayed copies    the same with a copy in the middle of what is submitted by another thread
 *   strayed events    with a copy behind an event of a third stream
 *   strayed waits     while another stream waits for a word that the program writes after its step
 *   strayed late [t]  while another thread's kernels take long in a blocking stream, which what
 *                     strays goes behind; t: and tells what a step takes at first and at last
 *   strayed ends      a thread's steps; the destructor of one of its keys makes the last one, while
 *                     another thread begins to use its own per-thread default stream
 *   strayed THREADS   so many threads, one after the other, each with 2 * ROUNDS such steps
 *
 * A step is a number of kernels that count up a word, and a wait. In the middle of a step another
 * thread sets an attribute of the kernel, which ends the segments of all streams, or launches into
 * the legacy default stream, which goes behind all that came before. When the first thread has
 * waited, the word has to show all of its kernels. A stream reads it that waits for no other.
 */
#define _GNU_SOURCE
#include "tests/gpu/matrix/spin.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEP = 16, BEFORE = 10, ROUNDS = 30, US = 50 };

static struct spin spin;
static CUcontext context;
static CUevent event;
static CUstream other; /* a non-blocking one */
static CUdeviceptr word;
static long long cycles;

static void launch(int k, bool slow)
{
    uint32_t one = 1;
    long long none = 0;
    void *params[] = {&word, &one, slow ? &cycles : &none};
    unsigned int block = 32 * (1 + ex_hash((uint32_t)k) % 8);
    CHECK(cuLaunchKernel(spin.kernel, 1, 1, 1, block, 1, 1, 0, CU_STREAM_PER_THREAD, params, NULL));
}

static void by_sync(void)
{
    CHECK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
}

static void by_query(void)
{
    CUresult r;
    while ((r = cuStreamQuery(CU_STREAM_PER_THREAD)) == CUDA_ERROR_NOT_READY) {
    }
    CHECK(r);
}

static void by_event(void)
{
    CHECK(cuEventRecord(event, CU_STREAM_PER_THREAD));
    CHECK(cuEventSynchronize(event));
}

static void by_another_stream(void)
{
    CHECK(cuEventRecord(event, CU_STREAM_PER_THREAD));
    CHECK(cuStreamWaitEvent(other, event, 0));
    CHECK(cuStreamSynchronize(other));
}

static void by_kernel(void)
{
    uint32_t none = 0;
    long long no_time = 0;
    void *params[] = {&spin.sum, &none, &no_time};
    CHECK(cuLaunchKernel(spin.kernel, 1, 1, 1, 1, 1, 1, 64, CU_STREAM_PER_THREAD, params, NULL));
    CHECK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
}

static void *launch_to_legacy(void *unused)
{
    CHECK(cuCtxSetCurrent(context));
    spin_launch(&spin, CU_STREAM_LEGACY, 1, 0, 0);
    return unused;
}

static void *set_attribute(void *unused)
{
    static int carveout;
    CHECK(cuCtxSetCurrent(context));
    carveout = 60 - carveout;
    CHECK(cuFuncSetAttribute(spin.kernel, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
                             carveout));
    return unused;
}

static void in_another_thread(void *(*run)(void *))
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, NULL)) {
        perror("pthread_create");
        exit(1);
    }
    pthread_join(thread, NULL);
}

static uint32_t count_now(void)
{
    uint32_t count;
    CHECK(cuMemcpyDtoHAsync(&count, word, sizeof count, other));
    CHECK(cuStreamSynchronize(other));
    return count;
}

/* Returns how many kernels had not run when they should have. */
static uint32_t step(uint32_t *launched, void *(*disturb)(void *), void (*wait)(void))
{
    for (int k = 0; k < STEP; k++) {
        if (disturb && k == BEFORE) {
            in_another_thread(disturb);
            wait();
            uint32_t count = count_now();
            if (count != *launched) {
                return *launched - count;
            }
        }
        launch(k, disturb != NULL);
        ++*launched;
    }
    by_sync();
    return *launched - count_now();
}

static _Atomic bool done;

static void *long_kernels(void *unused)
{
    CUstream stream;
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    for (uint32_t i = 0; !done; i++) {
        uint32_t none = 0;
        long long some_time = 400 * cycles;
        CHECK(cuLaunchKernel(spin.kernel, 1, 1, 1, 1, 1, 1, 0, stream,
                             (void *[]){&spin.sum, &none, &some_time}, NULL));
        CHECK(cuStreamSynchronize(stream));
    }
    CHECK(cuStreamDestroy(stream));
    return unused;
}

/* The thread works on the host in the middle of its step, each time at another place. */
static bool late_steps(bool tells)
{
    enum { STEPS = 40 * ROUNDS, PART = STEPS / 10 };
    pthread_t thread;
    double began = ex_now_us(), first = 0, last = 0;
    uint32_t lost = 0;
    if (pthread_create(&thread, NULL, long_kernels, NULL)) {
        exit(1);
    }
    for (uint32_t i = 0; i < STEPS && !lost; i++) {
        for (uint32_t k = 0; k < STEP; k++) {
            launch((int)k, false);
            if (k == ex_hash(i) % STEP) {
                usleep(1000);
            }
        }
        by_sync();
        lost = (i + 1) * STEP - count_now();
        first = i == PART ? ex_now_us() - began : first;
        last = i == STEPS - PART ? ex_now_us() : last;
    }
    if (tells) {
        fprintf(stderr, "late: %.0f us a step at first, %.0f at last\n", first / PART,
                (ex_now_us() - last) / PART);
    }
    done = true;
    pthread_join(thread, NULL);
    printf("late: %s\n", lost ? "WRONG" : "ok");
    return !lost;
}

static void *steps_of_a_thread(void *unused)
{
    uint32_t launched, lost = 0;
    CHECK(cuCtxSetCurrent(context));
    launched = count_now();
    for (int i = 0; i < 2 * ROUNDS && !lost; i++) {
        lost = step(&launched, NULL, NULL);
    }
    if (lost) {
        printf("a thread: WRONG, %u kernels have not run\n", lost);
        exit(1);
    }
    return unused;
}

/* Its launch goes behind what has strayed, so this must not wait for it. */
static void *begin_a_stream(void *unused)
{
    uint32_t none = 0;
    long long no_time = 0;
    void *params[] = {&spin.sum, &none, &no_time};
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuLaunchKernel(spin.kernel, 1, 1, 1, 1, 1, 1, 64, CU_STREAM_PER_THREAD, params, NULL));
    return unused;
}

static void last_step(void *lost)
{
    CHECK(cuCtxSetCurrent(context)); /* the driver has forgotten the thread's (H200) */
    uint32_t launched = count_now();
    cycles *= 20; /* the other thread takes some time */
    for (int k = 0; k < BEFORE; k++, ++launched) {
        launch(k, true);
    }
    in_another_thread(begin_a_stream);
    by_sync();
    *(bool *)lost = count_now() != launched;
}

/* The library's key is older, so each turn of destructors begins with the library's. */
static void *steps_to_the_end(void *lost)
{
    pthread_key_t key;
    steps_of_a_thread(NULL);
    if (pthread_key_create(&key, last_step) || pthread_setspecific(key, lost)) {
        exit(1);
    }
    return NULL;
}

static bool thread_that_ends(void)
{
    pthread_t thread;
    bool lost = true;
    if (pthread_create(&thread, NULL, steps_to_the_end, &lost)) {
        exit(1);
    }
    pthread_join(thread, NULL);
    printf("ends: %s\n", lost ? "WRONG" : "ok");
    return !lost;
}

static CUdeviceptr copied; /* a word */

static uint32_t word_now(CUdeviceptr at)
{
    uint32_t value;
    CHECK(cuMemcpyDtoHAsync(&value, at, sizeof value, other));
    CHECK(cuStreamSynchronize(other));
    return value;
}

/* Each returns whether what was copied, or counted, is what it has to be. */
static bool step_of_copies(uint32_t *launched, bool disturbed)
{
    int n = BEFORE - disturbed; /* what is held back is not whole then */
    for (int k = 0; k < n; k++) {
        if (k == BEFORE - 2) {
            CHECK(cuMemcpyDtoDAsync(copied, word, sizeof(uint32_t), CU_STREAM_PER_THREAD));
        }
        launch(k, disturbed);
    }
    *launched += (uint32_t)n;
    if (disturbed) {
        in_another_thread(set_attribute);
    }
    by_sync();
    return word_now(copied) == *launched - (uint32_t)(n - BEFORE + 2);
}

static bool step_of_events(uint32_t *launched, bool disturbed)
{
    uint32_t none = 0, one = 1;
    long long some_time = disturbed ? 10 * cycles : 0, no_time = 0;
    CHECK(cuLaunchKernel(spin.kernel, 1, 1, 1, 1, 1, 1, 0, other,
                         (void *[]){&spin.sum, &none, &some_time}, NULL));
    CHECK(cuLaunchKernel(spin.kernel, 1, 1, 1, 1, 1, 1, 16, other,
                         (void *[]){&word, &one, &no_time}, NULL));
    CHECK(cuEventRecord(event, other));
    CHECK(cuStreamWaitEvent(CU_STREAM_PER_THREAD, event, 0));
    CHECK(cuMemcpyDtoDAsync(copied, word, sizeof(uint32_t), CU_STREAM_PER_THREAD));
    ++*launched;
    uint32_t expected = *launched;
    for (int k = 0; k < BEFORE - disturbed; k++, ++*launched) {
        launch(k, false);
    }
    if (disturbed) {
        in_another_thread(set_attribute);
    }
    by_sync();
    return word_now(copied) == expected;
}

static bool step_of_waits(uint32_t *launched, bool disturbed)
{
    static CUstream waiting;
    static CUdeviceptr gate;
    static volatile uint32_t *flag;
    static uint32_t turn;
    void *memory;
    if (!waiting) {
        CHECK(cuStreamCreate(&waiting, CU_STREAM_DEFAULT));
        CHECK(cuMemHostAlloc(&memory, sizeof(uint32_t), CU_MEMHOSTALLOC_DEVICEMAP));
        CHECK(cuMemHostGetDevicePointer(&gate, memory, 0));
        flag = memory;
        *flag = 0;
    }
    if (disturbed) {
        CHECK(cuStreamWaitValue32(waiting, gate, ++turn, CU_STREAM_WAIT_VALUE_GEQ));
    }
    for (int k = 0; k < BEFORE; k++) {
        launch(k, false);
    }
    *launched += BEFORE;
    if (disturbed) {
        in_another_thread(set_attribute);
    }
    by_sync();
    bool right = word_now(word) == *launched;
    *flag = turn;
    CHECK(cuStreamSynchronize(waiting));
    return right;
}

/* Returns false if it is none of these. */
static bool steps_of_a_kind(const char *kind, bool tells, bool *good)
{
    bool (*run)(uint32_t *, bool) = !strcmp(kind, "copies")   ? step_of_copies
                                    : !strcmp(kind, "events") ? step_of_events
                                    : !strcmp(kind, "waits")  ? step_of_waits
                                                              : NULL;
    uint32_t launched = 0;
    if (!strcmp(kind, "ends")) {
        *good = thread_that_ends();
        return true;
    }
    if (!strcmp(kind, "late")) {
        *good = late_steps(tells);
        return true;
    }
    if (!run) {
        return false;
    }
    CHECK(cuMemAlloc(&copied, sizeof(uint32_t)));
    for (int i = 0; i < 6 * ROUNDS && *good; i++) {
        *good = run(&launched, i >= 2 * ROUNDS && i % 4 == 0);
    }
    printf("%s: %s\n", kind, *good ? "ok" : "WRONG");
    CHECK(cuMemFree(copied));
    return true;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*wait)(void);
    } ways[] = {{"sync", by_sync},
                {"query", by_query},
                {"event", by_event},
                {"another stream", by_another_stream},
                {"kernel", by_kernel}};
    bool good = true;
    spin_start(&spin);
    cycles = (long long)(US * driver_cycles_per_us());
    CHECK(cuCtxGetCurrent(&context));
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc(&word, sizeof(uint32_t)));
    CHECK(cuMemsetD32(word, 0, 1));
    CHECK(cuCtxSynchronize()); /* `other` does not wait for it */
    bool kind = argc > 1 && steps_of_a_kind(argv[1], argc > 2, &good);
    for (long i = argc > 1 && !kind ? ex_number("THREADS", argv[1], 1) : 0; i; i--) {
        in_another_thread(steps_of_a_thread);
        printf("a thread: ok\n");
    }
    for (size_t i = 0; argc == 1 && i < 2 * sizeof ways / sizeof *ways; i++) {
        bool by_attribute = i < sizeof ways / sizeof *ways; /* first, while nothing else is open */
        size_t way = i % (sizeof ways / sizeof *ways);
        uint32_t launched = count_now(), lost = 0;
        for (int round = 0; round < ROUNDS && !lost; round++) {
            for (int calm = round ? 2 : ROUNDS; calm && !lost; calm--) {
                lost = step(&launched, NULL, NULL);
            }
            if (!lost) {
                lost = step(&launched, by_attribute ? set_attribute : launch_to_legacy,
                            ways[way].wait);
            }
        }
        printf("%s, %s: %s\n", by_attribute ? "attribute" : "legacy", ways[way].name,
               lost ? "WRONG" : "ok");
        CHECK(cuCtxSynchronize());
        good &= !lost;
    }
    CHECK(cuCtxSynchronize());
    spin_verify(&spin, "strayed");
    CHECK(cuMemFree(word));
    CHECK(cuStreamDestroy(other));
    CHECK(cuEventDestroy(event));
    spin_stop(&spin);
    return good ? 0 : 1;
}
