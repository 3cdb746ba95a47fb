/* submit_stuck.c - cases of `submit`: the submitter, or a thread of the program, is in a call that
 * does not return. */
#define _GNU_SOURCE
#include "tests/command/submit.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

/* The thread that is stuck in the driver is one of the library's: eagerly nobody is. */
static const char submitter[] = "autograph-send";

enum {
    LITTLE = 100,
    MUCH = 20000,
    MOST_AHEAD = 256 + STEP /* what a ring takes, and a chunk that is held back */
};
static _Atomic uint64_t got_on; /* launches since it was found stuck, or not */
static _Atomic bool ready, go, is_stuck;

/* Launches of steps, or such as are in no graph, until the submitter is stuck in one. If it does
 * not come to that, as eagerly, some are enough. Then `n` more. */
static void run_ahead(bool singles, uint64_t n)
{
    uint64_t i = 0, at_once = singles ? 1 : STEP;
    for (int tries = 0; tries < 5 && !cuSimHeld(); tries++) {
        for (uint64_t end = i + at_once; i < end; i++)
            CHECK(launch(&full, singles ? STEP + i : i % STEP));
        for (int looks = 0; looks < 100 && !cuSimHeld(); looks++)
            usleep(100);
    }
    atomic_store(&is_stuck, cuSimHeld() > 0);
    printf("MEASURED %d stuck\n", atomic_load(&is_stuck));
    for (uint64_t end = i + n; i < end; i++) {
        CHECK(launch(&full, singles ? STEP + i : i % STEP));
        atomic_fetch_add(&got_on, 1);
    }
}

/* The stream has graphs, also for steps without a sync. */
static void build_all(void)
{
    steps_until_graphs(&full, 0);
    steps(&full, 200, 100);
}

static void *run_ahead_when_told(void *singles)
{
    CHECK(cuCtxSetCurrent(home));
    build_all();
    atomic_store(&ready, true);
    while (!atomic_load(&go))
        sched_yield();
    run_ahead(singles != NULL, MUCH);
    return NULL;
}

/* From now on the submitter is stuck: in launches of its kind or in any call, before what the call
 * does or behind it. */
static void be_stuck(int how)
{
    const char *call = how >= 4 ? NULL : how % 2 ? "cuLaunchKernel" : "cuGraphLaunch";
    while (!atomic_load(&ready))
        sched_yield();
    REQUIRE(!cuSimHold(submitter, call, 1, how / 2 % 2));
    atomic_store(&go, true);
}

/* Others go on while the submitter is stuck in `how`, and the stream whose launches it makes gets
 * no further ahead of it than it may. */
int stuck_call(int how)
{
    pthread_t thread;
    start_two();
    REQUIRE(!pthread_create(&thread, NULL, run_ahead_when_told,
                            how % 2 ? (void *)(uintptr_t)submitter : NULL));
    be_stuck(how);
    while (atomic_load(&got_on) < LITTLE) /* the stream's own thread goes on as well */
        sched_yield();
    for (int i = 0; i < 100; i++) {
        allocate();
        look_at_event();
        steps(&other, 4, 3);
        CHECK(cuStreamSynchronize(other.stream));
    }
    allocate_too_much();
    bool too_far = atomic_load(&is_stuck) && atomic_load(&got_on) > MOST_AHEAD;
    printf("ahead: %s\n", too_far ? "TOO FAR" : "as far as may be");
    REQUIRE(!cuSimHold(NULL, NULL, 1, 0));
    pthread_join(thread, NULL);
    return print_value(&full) + print_value(&other) + too_far;
}

/* The process ends while the submitter is stuck. The thread whose launches it makes has no more
 * room, or it is the one that ends the process. */
int stuck_exit(int own)
{
    pthread_t thread;
    start_two();
    if (own) {
        steps_until_graphs(&full, 0);
        CHECK(cuStreamSynchronize(full.stream));
        atomic_store(&ready, true);
        be_stuck(0);
        run_ahead(false, LITTLE);
    } else {
        REQUIRE(!pthread_create(&thread, NULL, run_ahead_when_told, NULL));
        be_stuck(0);
        while (atomic_load(&got_on) < LITTLE)
            sched_yield();
    }
    puts("leaves");
    exit(0);
}

static void CUDA_CB fill_full(void *asks)
{
    while (!atomic_load(&go))
        sched_yield();
    atomic_store((_Atomic bool *)asks, true);
    CHECK(cuMemsetD8Async(full.data, 1, 8, full.stream));
}

/* A host function's fill comes behind a launch that the submitter is stuck in, whatever is handed
 * over meanwhile. */
int host_function_fills(int n)
{
    static _Atomic bool asks;
    int stuck = 0, overtakes = 0;
    start_two();
    struct line more = {full.stream, other.data, 0};
    CHECK(launch(&full, 0));
    for (int i = 1; i <= n; i++) {
        CHECK(cuCtxSynchronize());
        atomic_store(&go, false);
        atomic_store(&asks, false);
        CHECK(cuLaunchHostFunc(line.stream, fill_full, (void *)(uintptr_t)&asks));
        REQUIRE(!cuSimHold(submitter, "cuLaunchKernel", 1, 0));
        CHECK(launch(&full, (uint64_t)i));
        for (int looks = 0; looks < 100 && !cuSimHeld(); looks++)
            usleep(100);
        stuck += cuSimHeld() > 0;
        double began = ag_prog_seconds();
        atomic_store(&go, true);
        while (!atomic_load(&asks))
            sched_yield();
        usleep(2000); /* by then the fill waits */
        CHECK(launch(&more, (uint64_t)i));
        usleep(2000);
        REQUIRE(!cuSimHold(NULL, NULL, 1, 0));
        bool waits = ag_prog_seconds() - began < 0.5; /* after a second it does not */
        CHECK(cuStreamSynchronize(line.stream));      /* the fill has been submitted */
        CHECK(cuStreamSynchronize(full.stream));
        overtakes += ag_prog_read64(full.data) != 0x0101010101010101 && waits;
    }
    printf("MEASURED %d stuck\nfills that were too early: %d\n", stuck > 0, overtakes);
    return overtakes > 0;
}

static void *let_it_go(void *stuck)
{
    for (int looks = 0; looks < 100 && !cuSimHeld(); looks++)
        usleep(100);
    *(int *)stuck += cuSimHeld() > 0;
    usleep(5000); /* by then the other thread waits for it */
    REQUIRE(!cuSimHold(NULL, NULL, 1, 0));
    return NULL;
}

/* N times the submitter is about to enter the context when the program waits for the stream, and
 * then it cannot. */
int no_context(int n)
{
    int stuck = 0;
    start();
    steps_until_graphs(&line, 0);
    cuSimFail("cuCtxPushCurrent_v2", 0, CUDA_ERROR_INVALID_CONTEXT);
    for (int i = 0; i < n; i++) {
        pthread_t thread;
        REQUIRE(!cuSimHold(submitter, "cuCtxPushCurrent_v2", 1, 0));
        REQUIRE(!pthread_create(&thread, NULL, let_it_go, &stuck));
        step(&line);
        for (int looks = 0; looks < 100 && !cuSimHeld(); looks++)
            usleep(100);
        CHECK(cuStreamSynchronize(line.stream));
        pthread_join(thread, NULL);
    }
    printf("MEASURED %d stuck\n", stuck > 0);
    return print_value(&line);
}

static _Atomic uint64_t kernels_before; /* the thread waits at the gate */
static pthread_t asker;

/* Steps, or launches that look unlike each other, that find the GPU waiting for the flag. */
static void *go_on_to_the_end(void *singles)
{
    REQUIRE(!pthread_setname_np(pthread_self(), "asks"));
    CHECK(cuCtxSetCurrent(home));
    build_all();
    atomic_store(&kernels_before, cuSimExecuted("kernel"));
    wait_at_gate();
    for (uint64_t i = 0; i < FAR / 2; i++) {
        uint64_t before = submissions();
        bool is_single = singles && i >= PLACES / 2;
        if (i == (singles ? PLACES / 2 : 0))
            REQUIRE(!cuSimHold("asks", "cuEventQuery", 1, 0));
        CHECK(launch(&full, is_single ? STEP + i : i % STEP));
        atomic_fetch_add(&got_on, 1);
        while ((is_single || i % STEP == STEP - 1) && submissions() == before)
            sched_yield();
    }
    atomic_store(&ready, true);
    return NULL;
}

static void let_asker_go(void)
{
    REQUIRE(!cuSimHold(NULL, NULL, 1, 0));
    pthread_join(asker, NULL);
    int bad = print_value(&full);
    fflush(stdout);
    _exit(bad);
}

/* The process ends while a launch asks whether the GPU has got on, and gets no answer. An exit
 * handler lets the thread go on. Eagerly no launch asks. */
int exit_asked(int singles)
{
    atexit(let_asker_go); /* before CUDA comes: it runs when the library has ended */
    start_gated();
    REQUIRE(!pthread_create(&asker, NULL, go_on_to_the_end, singles ? (void *)&line : NULL));
    while (!cuSimHeld() && !atomic_load(&ready))
        sched_yield();
    open_gate();
    while (cuSimExecuted("kernel") + STEP < atomic_load(&kernels_before) + atomic_load(&got_on))
        sched_yield(); /* a step may be held back */
    printf("MEASURED %u asked\n", cuSimHeld());
    exit(0);
}

/* A step with a few other arguments each time, so that its graph has to be changed first. Behind it
 * nothing waits but this thread, until the GPU has done all or the submitter is stuck. */
static void changing_step(void)
{
    static uint64_t number;
    uint64_t kernels = cuSimExecuted("kernel") + STEP;
    number++;
    for (uint64_t k = 0; k < STEP; k++)
        CHECK(launch_with(&full, k, k < 3 ? number : k));
    while (!cuSimHeld() && cuSimExecuted("kernel") < kernels)
        sched_yield();
}

/* The submitter makes a call in each step at least, if it gets to it. */
static void *be_held(void *nth)
{
    CHECK(cuCtxSetCurrent(home));
    for (unsigned int i = 0; i < *(unsigned int *)nth && !cuSimHeld(); i++)
        changing_step();
    CUresult r = cuStreamQuery(full.stream);
    REQUIRE(r == CUDA_SUCCESS || r == CUDA_ERROR_NOT_READY);
    atomic_store(&go, true);
    for (unsigned int i = 0; i < LITTLE / STEP; i++)
        step(&full); /* one of these may have to wait */
    return NULL;
}

/* The submitter is stuck in its `nth` call of any, before what that does or behind it. Others go
 * on, whatever they do but wait for that stream. When the call returns, all is as it would be. */
static bool held_at(unsigned int nth, int behind)
{
    pthread_t thread;
    bool gives_back = nth % 8 == 0;
    atomic_store(&go, false);
    REQUIRE(!cuSimHold(submitter, NULL, nth, behind));
    REQUIRE(!pthread_create(&thread, NULL, be_held, &nth));
    while (!atomic_load(&go) && !cuSimHeld())
        sched_yield();
    bool held = cuSimHeld() > 0;
    allocate();
    look_at_event();
    steps(&other, 4, 3);
    CHECK(cuStreamSynchronize(other.stream));
    CUresult r = cuStreamQuery(full.stream);
    REQUIRE(r == CUDA_ERROR_NOT_READY || (r == CUDA_SUCCESS && !held));
    if (gives_back)
        allocate_too_much();
    REQUIRE(!cuSimHold(NULL, NULL, 1, 0));
    pthread_join(thread, NULL);
    if (gives_back)
        build_all();
    CHECK(cuStreamSynchronize(full.stream));
    if (ag_prog_read64(full.data) != full.want || ag_prog_read64(other.data) != other.want)
        printf("held at %u, %s: WRONG\n", nth, behind ? "behind" : "before");
    return held;
}

/* In each of the first N calls. */
int stuck_nth(int n)
{
    int held = 0;
    start_two();
    build_all();
    for (int nth = 1; nth <= n; nth++)
        for (int behind = 0; behind < 2; behind++)
            held += held_at((unsigned int)nth, behind);
    printf("MEASURED %d times stuck\n", held);
    return print_value(&full) + print_value(&other);
}

static void look_at_other(void)
{
    print_value(&other);
}

static _Atomic bool has_synced;

static void *wait_for_full(void *unused)
{
    (void)unused;
    CHECK(cuCtxSetCurrent(home));
    for (unsigned int i = 0; i < LITTLE && !cuSimHeld(); i++)
        changing_step();
    CUresult r = cuStreamQuery(full.stream); /* finds that the submitter is at it */
    REQUIRE(r == CUDA_SUCCESS || r == CUDA_ERROR_NOT_READY);
    atomic_store(&go, true);
    CHECK(cuStreamSynchronize(full.stream));
    atomic_store(&has_synced, true);
    return NULL;
}

/* The submitter is stuck in its first call until the process has ended. Nothing ends the wait for
 * its stream. Others, and the process, go on. */
int stuck_always(int n)
{
    pthread_t thread;
    atexit(look_at_other); /* before CUDA comes: it runs when the library has ended */
    REQUIRE(!cuSimHold(submitter, NULL, 1, 0));
    start_two();
    REQUIRE(!pthread_create(&thread, NULL, wait_for_full, NULL));
    while (!atomic_load(&go) && !cuSimHeld())
        sched_yield();
    printf("MEASURED %u stuck\n", cuSimHeld());
    for (int i = 0; i < n; i++) {
        steps(&other, 1, 1 + i % 3);
        allocate();
        look_at_event();
    }
    print_value(&other);
    step(&other);
    REQUIRE(!cuSimHeld() || !atomic_load(&has_synced));
    exit(0);
}
