/* states_waits.c - work that waits for the program, beside builds: nothing may wait for it in turn.
 */
#define _GNU_SOURCE
#include "tests/command/states.h"
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned int peer_came;
static atomic_bool ends;
static CUfunction empty;

static void wait_for_peer(const struct cuSimLaunch *l)
{
    (void)l;
    while (!__atomic_load_n(&peer_came, __ATOMIC_ACQUIRE))
        usleep(20);
}

/* A step of other signatures each time. */
static void new_step(unsigned int number)
{
    for (unsigned int k = 1; k <= STEP; k++)
        CHECK(cuLaunchKernel(hash, number * STEP + k, 1, 1, 1, 1, 1, 0, stream,
                             (void *[]){&data, &(uint64_t){k}}, NULL));
}

/* A collective kernel waits for a peer that comes after the program's next launches. Graphs are
 * being built whenever it is launched: by itself, or `in_graph`. */
int peers(int in_graph)
{
    static const size_t sizes[] = {8, 8};
    CUgraph graph;
    CUgraphExec exec = NULL;
    uint64_t one = 1;
    void *arguments[] = {&data, &one};
    REQUIRE(!cuSimRegisterKernel("ncclDevKernel_AllReduce_wait", wait_for_peer, 2, NULL, sizes,
                                 CUSIM_MAY_BLOCK));
    start();
    CUfunction collective = ag_prog_function(module, "ncclDevKernel_AllReduce_wait");
    if (in_graph) {
        CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        CHECK(cuLaunchKernel(collective, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
        CHECK(cuStreamEndCapture(stream, &graph));
        CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    }
    for (unsigned int i = 0; i < 400; i++) {
        __atomic_store_n(&peer_came, 0, __ATOMIC_RELEASE);
        for (int k = 0; k < 4; k++) {
            new_step(i);
            if (k < 3)
                CHECK(cuStreamSynchronize(stream));
        }
        if (in_graph)
            CHECK(cuGraphLaunch(exec, stream));
        else
            CHECK(cuLaunchKernel(collective, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
        new_step(10000);
        __atomic_store_n(&peer_came, 1, __ATOMIC_RELEASE);
        CHECK(cuStreamSynchronize(stream));
    }
    printf("all peers came: %llu\n", (unsigned long long)ag_prog_read64(data));
    return 0;
}

/* A kernel waits for a word that the program writes only behind n sequences, all of which come
 * often enough to be built. They come once more behind that. */
int word_behind_launches(int n)
{
    CUstream waits;
    unsigned int one = 1;
    void *none = NULL;
    start();
    CHECK(cuStreamCreate(&waits, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemHostAlloc((void **)&flag, sizeof *flag, CU_MEMHOSTALLOC_DEVICEMAP));
    *flag = 0;
    CHECK(ag_prog_launch(ag_prog_function(module, "poll"), waits, (void *[]){&flag, &one, &none}));
    for (unsigned int i = 0; i < 12 * (unsigned int)n; i++) {
        if (i == 6 * (unsigned int)n) {
            __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
            CHECK(cuStreamSynchronize(waits));
        }
        new_step(i / 6 % (unsigned int)n);
        CHECK(cuStreamSynchronize(stream));
    }
    printf("all launched: %llu\n", (unsigned long long)ag_prog_read64(data));
    return 0;
}

/* While a kernel waits and graphs are due, so that the builder looks at all streams again and
 * again, another thread makes streams with work and ends them: by themselves, with their contexts,
 * or in children. */
static void *ends_streams(void *how)
{
    CUcontext context;
    CUstream s;
    for (int i = 0; !atomic_load(&ends); i++) {
        if (how == (void *)1) {
            CHECK(cuCtxCreate_v2(&context, 0, 0));
            CHECK(cuStreamCreate(&s, CU_STREAM_DEFAULT));
            CHECK(cuMemsetD8Async((CUdeviceptr)ag_prog_alloc(64), 1, 64, s));
            CHECK(cuCtxDestroy_v2(context));
        } else {
            CHECK(cuCtxSetCurrent(home));
            CHECK(cuStreamCreate(&s, i % 2 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
            for (unsigned int k = 1; k <= STEP; k++)
                CHECK(cuLaunchKernel(empty, k, 1, 1, 1, 1, 1, 0, s, NULL, NULL));
            CHECK(cuStreamDestroy_v2(s));
        }
        if (how == (void *)2) {
            int status;
            pid_t child = fork();
            if (!child)
                _exit(cuStreamQuery(stream) == CUDA_SUCCESS);
            REQUIRE(waitpid(child, &status, 0) == child && status == 0);
        }
        atomic_fetch_add(&rounds, 1);
    }
    return NULL;
}

int looks_beside_ends(int how)
{
    enum { SEQUENCES = 60, TURNS = 6, ROUNDS = 40 };
    pthread_t thread;
    CUstream waits;
    unsigned int one = 1;
    void *none = NULL;
    start();
    empty = ag_prog_function(module, "empty");
    CHECK(cuStreamCreate(&waits, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemHostAlloc((void **)&flag, sizeof *flag, CU_MEMHOSTALLOC_DEVICEMAP));
    *flag = 0;
    CHECK(ag_prog_launch(ag_prog_function(module, "poll"), waits, (void *[]){&flag, &one, &none}));
    for (unsigned int i = 0; i < TURNS * SEQUENCES; i++) {
        new_step(i / TURNS);
        CHECK(cuStreamSynchronize(stream));
    }
    REQUIRE(!pthread_create(&thread, NULL, ends_streams, (void *)(intptr_t)how));
    for (unsigned int i = 0; atomic_load(&rounds) < ROUNDS; i++) {
        new_step(i % SEQUENCES);
        CHECK(cuStreamSynchronize(stream));
    }
    atomic_store(&ends, true);
    pthread_join(thread, NULL);
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    CHECK(cuCtxSynchronize());
    puts("all ended");
    return 0;
}

/* So many signatures that the library invalidates all, while a stream waits for the program. */
int signatures_beside_wait(int n)
{
    CUstream waits;
    start();
    CHECK(cuStreamCreate(&waits, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemHostAlloc((void **)&flag, sizeof *flag, CU_MEMHOSTALLOC_DEVICEMAP));
    *flag = 0;
    steps(30);
    CHECK(cuStreamWaitValue32_v2(waits, (CUdeviceptr)(uintptr_t)flag, 1, CU_STREAM_WAIT_VALUE_GEQ));
    for (unsigned int i = 0; i < (unsigned int)n; i++)
        new_step(100 + i);
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    CHECK(cuCtxSynchronize());
    for (unsigned int i = 0; i < 10; i++) /* not each launch asks again */
        new_step(9000 + i);
    CHECK(cuCtxSynchronize());
    printf("all launched: %llu\n", (unsigned long long)ag_prog_read64(data));
    return 0;
}

static void *replays(void *s)
{
    CHECK(cuCtxSetCurrent(home));
    for (unsigned int i = 0; !atomic_load(&ends); i++) {
        for (unsigned int k = 1; k <= 12; k++)
            CHECK(cuLaunchKernel(hash, 1 + i / 40 % 50, 1, 1, k, 1, 1, 0, s,
                                 (void *[]){&data, &(uint64_t){k}}, NULL));
        CHECK(cuStreamSynchronize(s));
        atomic_fetch_add(&rounds, 1);
    }
    return NULL;
}

/* The program takes nearly all of the memory n times while another thread replays. It has enough
 * without the graphs. */
int memory_beside_thread(int n)
{
    pthread_t thread;
    CUstream other;
    CUdeviceptr most;
    size_t left, all;
    int failed = 0;
    start();
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CHECK(cuCtxSynchronize());
    CHECK(cuMemGetInfo_v2(&left, &all));
    REQUIRE(!pthread_create(&thread, NULL, replays, other));
    for (int i = 0; i < n; i++) {
        int seen = atomic_load(&rounds);
        while (atomic_load(&rounds) < seen + 10)
            usleep(50);
        if (cuMemAlloc_v2(&most, left - 65536) == CUDA_SUCCESS)
            CHECK(cuMemFree_v2(most));
        else
            failed++;
    }
    atomic_store(&ends, true);
    pthread_join(thread, NULL);
    printf("%d of %d allocations failed\n", failed, n);
    return 0;
}

static void nothing(void *unused)
{
    (void)unused;
}

static void *builds_and_waits(void *s)
{
    static _Atomic unsigned int number;
    CHECK(cuCtxSetCurrent(home));
    for (;;) {
        unsigned int mine = atomic_fetch_add(&number, 1);
        for (int k = 0; k < 3; k++) {
            for (unsigned int i = 1; i <= STEP; i++)
                CHECK(cuLaunchKernel(hash, mine * STEP + i, 1, 1, 1, 1, 1, 0, s,
                                     (void *[]){&data, &(uint64_t){i}}, NULL));
            CHECK(cuLaunchHostFunc(s, nothing, NULL)); /* waits for a build under way */
        }
        atomic_fetch_add(&rounds, 1);
        pthread_testcancel();
    }
    return NULL;
}

/* Threads are cancelled while they wait for a build (SIMCUDA_SLOW_US makes it long). */
int cancel_behind_build(int n)
{
    CUstream other;
    start();
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < n; i++) {
        pthread_t thread;
        atomic_store(&rounds, 0);
        REQUIRE(!pthread_create(&thread, NULL, builds_and_waits, other));
        while (atomic_load(&rounds) < 2)
            usleep(100);
        usleep((unsigned int)(i * 311 % 3000));
        pthread_cancel(thread);
        pthread_join(thread, NULL);
        CHECK(cuLaunchHostFunc(stream, nothing, NULL));
        CHECK(cuStreamSynchronize(stream));
    }
    puts("no lock is left behind");
    return 0;
}

enum { LAUNCHES, WAITS, DESTROYS };
static CUstream used;

/* Has been cancelled before its call, in which the driver looks for that only if it is the library
 * that asks about events. */
static void *calls_cancelled(void *how)
{
    CUdeviceptr word = (CUdeviceptr)(uintptr_t)flag;
    CHECK(cuCtxSetCurrent(home));
    pthread_cancel(pthread_self());
    if ((uintptr_t)how == LAUNCHES)
        CHECK(ag_prog_hash(hash, used, data, 1));
    else if ((uintptr_t)how == WAITS)
        CHECK(cuStreamWaitValue32_v2(used, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
    else
        CHECK(cuStreamDestroy_v2(used));
    pthread_testcancel();
    return NULL;
}

/* A thread is cancelled while a stream waits for the program: in the first launch of all, in such a
 * wait of a stream without launches, or as it destroys the stream that waits. */
int cancel_beside_wait(int how)
{
    CUstream waits;
    pthread_t thread;
    start();
    CHECK(cuStreamCreate(&waits, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&used, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemHostAlloc((void **)&flag, sizeof *flag, CU_MEMHOSTALLOC_DEVICEMAP));
    *flag = 0;
    CUdeviceptr word = (CUdeviceptr)(uintptr_t)flag;
    if (how == DESTROYS) {
        CHECK(ag_prog_hash(hash, used, data, 1));
        waits = used;
    }
    CHECK(cuStreamWaitValue32_v2(waits, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
    REQUIRE(!pthread_create(&thread, NULL, calls_cancelled, (void *)(uintptr_t)how));
    pthread_join(thread, NULL);
    CHECK(cuStreamCreate(&waits, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamWaitValue32_v2(waits, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
    CHECK(cuLaunchHostFunc(stream, nothing, NULL));
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    CHECK(cuCtxSynchronize());
    CHECK(cuModuleUnload(module));
    puts("no lock is left behind");
    return 0;
}

/* The first `to` launches of a step, behind one that waits for the word to be 1. */
static void waiting_step(uint64_t to)
{
    unsigned int one = 1;
    void *none = NULL;
    CHECK(ag_prog_launch(poll_word, stream, (void *[]){&flag, &one, &none}));
    launches(1, to);
}

static _Atomic uint64_t submitted = UINT64_MAX;

static void *fills_queue(void *unused)
{
    (void)unused;
    CHECK(cuCtxSetCurrent(home));
    for (int i = 0; i < 50; i++) {
        waiting_step(STEP);
        CHECK(cuStreamSynchronize(stream));
    }
    __atomic_store_n(flag, 0, __ATOMIC_RELEASE);
    atomic_store(&submitted, submissions());
    waiting_step(11); /* two chunks of four fill the queue of two, and three ops are held back */
    atomic_store(&rounds, 1);
    pause();
    return NULL;
}

/* The process ends while another thread's queue is full of work that never ends (SIMCUDA_QUEUE=2),
 * and that thread holds something back. */
int exit_beside_full_queue(int n)
{
    pthread_t thread;
    (void)n;
    start();
    poll_word = ag_prog_function(module, "poll");
    CHECK(cuMemHostAlloc((void **)&flag, sizeof *flag, CU_MEMHOSTALLOC_DEVICEMAP));
    *flag = 1;
    CHECK(cuCtxSynchronize());
    REQUIRE(!pthread_create(&thread, NULL, fills_queue, NULL));
    /* eagerly the thread stays in a launch for which there is no room */
    while (!atomic_load(&rounds) &&
           (atomic_load(&submitted) == UINT64_MAX || submissions() - atomic_load(&submitted) <= 2))
        usleep(50);
    puts("the process ends");
    exit(0);
}

static _Atomic bool stops;

static void *steps_on(void *unused)
{
    (void)unused;
    CHECK(cuCtxSetCurrent(home));
    while (!atomic_load(&stops)) {
        steps(1);
        atomic_fetch_add(&rounds, 1);
    }
    return NULL;
}

/* The process is locked for a checkpoint N times while a thread runs steps: that thread's calls
 * wait, and this one asks for the state and unlocks. */
int locked_for_checkpoint(int n)
{
    pthread_t thread;
    CUprocessState state;
    start();
    REQUIRE(!pthread_create(&thread, NULL, steps_on, NULL));
    while (atomic_load(&rounds) < 200)
        usleep(100);
    for (int i = 0; i < n; i++) {
        CHECK(cuCheckpointProcessLock(getpid(), NULL));
        usleep(2000); /* by then the thread is in a call */
        CHECK(cuCheckpointProcessGetState(getpid(), &state));
        REQUIRE(state == CU_PROCESS_STATE_LOCKED);
        CHECK(cuCheckpointProcessUnlock(getpid(), NULL));
        int before = atomic_load(&rounds);
        while (atomic_load(&rounds) == before)
            usleep(100);
    }
    atomic_store(&stops, true);
    pthread_join(thread, NULL);
    puts("goes on");
    return 0;
}

/* In every fourth of N steps the program looks at mapped memory, behind another launch each time,
 * until it sees what that launch writes. */
int polls_anywhere(int n)
{
    uint64_t random = 1;
    int polls = 0;
    double waited = 0.0;
    start();
    publish = ag_prog_function(module, "publish");
    CHECK(cuMemHostAlloc((void **)&flag, sizeof *flag, CU_MEMHOSTALLOC_DEVICEMAP));
    *flag = 0;
    for (int i = 0; i < n; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        unsigned int at = i % 4 ? 2 * STEP : 1 + (unsigned int)(random >> 40) % (2 * STEP - 2);
        for (unsigned int k = 0; k < 2 * STEP; k++) {
            unsigned int value = (unsigned int)i * 2 * STEP + k + 1;
            CHECK(cuLaunchKernel(publish, 1 + k, 1, 1, 1, 1, 1, 0, stream,
                                 (void *[]){&flag, &value}, NULL));
            if (k != at || i < n / 4)
                continue;
            double began = ag_prog_seconds();
            while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) != value)
                sched_yield();
            waited += ag_prog_seconds() - began;
            polls++;
        }
        CHECK(cuStreamSynchronize(stream));
    }
    printf("a word was polled for %s\n", waited > polls * 0.05 ? "LONG" : "a short time");
    return print_value();
}

/* The program looks at mapped memory in the middle of a known step, and has N other streams. */
int polls_beside_streams(int n)
{
    enum { SECONDS = 10 };
    CUdeviceptr word;
    unsigned int zero = 0;
    start();
    publish = ag_prog_function(module, "publish");
    CHECK(cuMemHostAlloc((void **)&flag, sizeof *flag, CU_MEMHOSTALLOC_DEVICEMAP));
    word = ag_prog_alloc(sizeof *flag);
    for (int i = 0; i < n; i++) {
        CUstream other;
        CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
        CHECK(ag_prog_launch(publish, other, (void *[]){&word, &zero}));
    }
    for (unsigned int i = 1; i < 50; i++) {
        releasing_step(i, STEP);
        CHECK(cuStreamSynchronize(stream));
    }
    releasing_step(100, STEP - 5);
    double until = ag_prog_seconds() + SECONDS;
    while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) != 100 && ag_prog_seconds() < until)
        sched_yield();
    puts(__atomic_load_n(flag, __ATOMIC_ACQUIRE) == 100 ? "seen" : "NOT SEEN");
    return print_value();
}
