/* submit_queue.c - cases of `submit`: a stream's queue is full, and others go on. It also has the
 * gate, behind which the GPU does nothing until the program says so, and the calls that others make
 * meanwhile. */
#define _GNU_SOURCE
#include "tests/command/submit.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

enum { QUEUE = 64 };

/* ---- the gate, and what others do -------------------------------------------------------------
 */

struct line full, other;

void start_gated(void)
{
    start();
    open_line(&full);
    open_line(&other);
    CHECK(cuMemHostAlloc((void **)&flag, sizeof *flag, CU_MEMHOSTALLOC_DEVICEMAP));
    *flag = 0;
}

void start_two(void)
{
    start();
    open_line(&full);
    open_line(&other);
}

void wait_at_gate(void)
{
    unsigned int value = 1;
    void *none = NULL;
    CHECK(ag_prog_launch(ag_prog_function(module, "poll"), full.stream,
                         (void *[]){&flag, &value, &none}));
}

void open_gate(void)
{
    unsigned int value = 1;
    CHECK(ag_prog_launch(ag_prog_function(module, "publish"), line.stream,
                         (void *[]){&flag, &value}));
}

uint64_t submissions(void)
{
    return cuSimCallCount("cuLaunchKernel") + cuSimCallCount("cuGraphLaunch") +
           cuSimCallCount("cuEventRecord");
}

void allocate(void)
{
    CUdeviceptr x;
    size_t available, all;
    CHECK(cuMemAlloc_v2(&x, 8));
    CHECK(cuMemGetInfo_v2(&available, &all));
}

void allocate_too_much(void)
{
    CUdeviceptr x;
    EXPECT(cuMemAlloc_v2(&x, (size_t)1 << 50), CUDA_ERROR_OUT_OF_MEMORY);
}

void look_at_event(void)
{
    CUevent event;
    CHECK(cuEventCreate(&event, 0));
    CHECK(cuEventRecord(event, line.stream));
    CHECK(cuEventSynchronize(event));
    CHECK(cuEventQuery(event));
    CHECK(cuEventDestroy_v2(event));
}

void query(void)
{
    printf("the other's stream: %d\n", (int)cuStreamQuery(full.stream));
}

/* ---- a full queue -----------------------------------------------------------------------------
 */

static _Atomic uint64_t calls_before;
static _Atomic bool polls;

/* Eagerly the thread waits in the last step; with the library whoever submits that step does. */
static void *fill_queue(void *unused)
{
    (void)unused;
    CHECK(cuCtxSetCurrent(home));
    steps_until_graphs(&full, 0);
    steps(&full, 30, 1);
    atomic_store(&calls_before, submissions());
    wait_at_gate();
    for (uint64_t k = 1; k < QUEUE; k++)
        CHECK(launch(&full, STEP + k)); /* each unlike all others: in no graph */
    while (submissions() - atomic_load(&calls_before) < QUEUE)
        sched_yield();
    EXPECT(cuStreamQuery(full.stream), CUDA_ERROR_NOT_READY);
    atomic_store(&polls, true);
    step(&full);
    return NULL;
}

static void other_stream(void)
{
    steps(&other, 30, 7);
    CHECK(cuStreamSynchronize(other.stream));
    CHECK(cuStreamDestroy_v2(other.stream));
}

/* So many sequences that the library needs the room of other streams' graphs. */
static void crowd(void)
{
    for (uint64_t phase = 1; phase <= 40; phase++)
        steps_until_graphs(&other, phase * STEP);
    CHECK(cuStreamDestroy_v2(other.stream));
}

/* More launches unlike each other than the library remembers. */
static void strangers(void)
{
    for (uint64_t k = 0; k < 5000; k++)
        CHECK(launch(&other, STEP + k));
    CHECK(cuStreamSynchronize(other.stream));
}

static void leave(void)
{
    puts("main leaves");
    exit(0);
}

/* `how`: the call that is made meanwhile. */
int stuck(int how)
{
    static void (*const calls[])(void) = {
        allocate, allocate_too_much, look_at_event, query, other_stream, leave, crowd, strangers};
    pthread_t thread;
    start_gated();
    REQUIRE(!pthread_create(&thread, NULL, fill_queue, NULL));
    while (!atomic_load(&polls) || submissions() - atomic_load(&calls_before) <= QUEUE)
        sched_yield();
    calls[how % (int)(sizeof calls / sizeof *calls)]();
    open_gate();
    CHECK(cuStreamSynchronize(line.stream));
    pthread_join(thread, NULL);
    printf("other stream %s\n", ag_prog_read64(other.data) == other.want ? "right" : "WRONG");
    int bad = print_value(&full);
    CHECK(launch(&line, STEP)); /* now nothing has to wait */
    return bad;
}

static pthread_mutex_t of_host = PTHREAD_MUTEX_INITIALIZER;

static void CUDA_CB take_lock(void *unused)
{
    (void)unused;
    usleep(20000); /* by then the queue is full */
    pthread_mutex_lock(&of_host);
    pthread_mutex_unlock(&of_host);
}

/* A queue is full behind a host function that takes a lock. The program takes it only when its last
 * launch, in the middle of a step, has found room, and asks for the stream meanwhile. */
int query_with_lock(int n)
{
    start();
    steps(&line, 40, 1);
    for (int i = 0; i < n; i++) {
        CHECK(cuLaunchHostFunc(line.stream, take_lock, NULL));
        steps(&line, 4, 5);
        for (uint64_t k = 0; k < STEP / 2; k++)
            CHECK(launch(&line, k));
        pthread_mutex_lock(&of_host);
        CUresult r = cuStreamQuery(line.stream);
        pthread_mutex_unlock(&of_host);
        REQUIRE(r == CUDA_SUCCESS || r == CUDA_ERROR_NOT_READY);
        CHECK(cuStreamSynchronize(line.stream));
    }
    return print_value(&line);
}
