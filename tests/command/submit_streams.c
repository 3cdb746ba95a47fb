/* submit_streams.c - cases of `submit`: several streams, whose launches come in turn, wait for each
 * other or are seen by another thread. */
#define _GNU_SOURCE
#include "tests/command/submit.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

/* N steps on two streams, each of which waits for the other, over one word. */
int tied(int n)
{
    CUevent there, back;
    struct line side;
    start();
    open_line(&side);
    CHECK(cuEventCreate(&there, CU_EVENT_DISABLE_TIMING));
    CHECK(cuEventCreate(&back, CU_EVENT_DISABLE_TIMING));
    for (int i = 0; i < n; i++) {
        step(&line);
        CHECK(cuEventRecord(there, line.stream));
        CHECK(cuStreamWaitEvent(side.stream, there, 0));
        side.data = line.data;
        side.want = line.want;
        step(&side);
        line.want = side.want;
        CHECK(cuEventRecord(back, side.stream));
        CHECK(cuStreamWaitEvent(line.stream, back, 0));
    }
    return print_value(&line);
}

/* The thread waits for the GPU without a call: what was handed over it does not take back. */
static void step_until_done(struct line *l)
{
    uint64_t kernels = cuSimExecuted("kernel") + STEP;
    step(l);
    while (cuSimExecuted("kernel") < kernels)
        sched_yield();
}

/* N steps on a stream, when there is no more to do on another. */
int in_turn(int n)
{
    struct line second;
    start();
    open_line(&second);
    for (int i = 0; i < 30; i++)
        step_until_done(&line);
    for (int i = 0; i < n; i++)
        step_until_done(&second);
    return print_value(&line) + print_value(&second);
}

static _Atomic int turn; /* of the thread that launches, or of the one that waits */

static void *launch_by_turns(void *n)
{
    CHECK(cuCtxSetCurrent(home));
    for (int i = 0; i < *(int *)n; i++) {
        while (atomic_load(&turn) != 2 * i)
            sched_yield();
        CHECK(launch(&line, (uint64_t)i));
        atomic_store(&turn, 2 * i + 1);
    }
    return NULL;
}

/* Each of N launches that look unlike each other has been done when another thread has waited for
 * the context. */
int seen_by_other(int n)
{
    pthread_t thread;
    int early = 0;
    start();
    uint64_t kernels = cuSimExecuted("kernel");
    REQUIRE(!pthread_create(&thread, NULL, launch_by_turns, &n));
    for (int i = 0; i < n; i++) {
        while (atomic_load(&turn) != 2 * i + 1)
            sched_yield();
        CHECK(cuCtxSynchronize());
        early += cuSimExecuted("kernel") == kernels + (uint64_t)i;
        atomic_store(&turn, 2 * i + 2);
    }
    pthread_join(thread, NULL);
    printf("waits that ended early: %d\n", early);
    return print_value(&line) + early;
}

/* More streams at once than the submitter looks after. */
int many(int n)
{
    enum { MANY = 80 };
    static struct line lines[MANY];
    int bad = 0;
    start();
    for (int i = 0; i < MANY; i++)
        open_line(&lines[i]);
    for (int round = 0; round < n; round++)
        for (int i = 0; i < MANY; i++)
            steps(&lines[i], 1, 1 + round % 2);
    for (int i = 0; i < MANY; i++)
        bad += print_value(&lines[i]);
    return bad;
}

/* A stream polls a word that a launch of a second stream publishes, and a graph of a third is due
 * right behind that. On this driver to build a graph waits for all streams. */
int build_behind(int n)
{
    CUfunction poll, publish;
    CUstream polls, publishes;
    void *none = NULL;
    start();
    poll = ag_prog_function(module, "poll");
    publish = ag_prog_function(module, "publish");
    CHECK(cuStreamCreate(&polls, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&publishes, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemHostAlloc((void **)&flag, sizeof *flag, CU_MEMHOSTALLOC_DEVICEMAP));
    *flag = 0;
    for (unsigned int i = 1; i <= (unsigned int)n; i++) {
        for (uint64_t k = 1; k < STEP; k++)
            CHECK(launch(&line, k));
        usleep(1000); /* the submitter naps, or sleeps */
        CHECK(cuLaunchKernel(poll, 1, 1, 1, i, 1, 1, 0, polls, (void *[]){&flag, &i, &none}, NULL));
        CHECK(cuLaunchKernel(publish, i, 1, 1, 1, 1, 1, 0, publishes, (void *[]){&flag, &i}, NULL));
        CHECK(launch(&line, STEP));
        CHECK(cuCtxSynchronize());
    }
    return print_value(&line);
}
