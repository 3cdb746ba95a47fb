/* branches_quiet.c - cases of `forks`: events that nobody asks for, on one stream, and what the
 * legacy stream orders. */
#define _GNU_SOURCE
#include "tests/command/branches.h"
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

static unsigned int *word;

enum { EVENTS = 6 };

static void quiet_records(CUevent *events)
{
    for (int i = 0; i < EVENTS; i++) {
        CHECK(ag_prog_hash(hash, a, x, ++counter));
        CHECK(cuEventRecord(events[i], a));
    }
}

static void make_events(CUevent *events)
{
    for (int i = 0; i < EVENTS; i++)
        events[i] = new_event();
}

/* All of them are ready in the end. */
int quiet(void)
{
    CUevent events[EVENTS];
    make_events(events);
    for (int i = 0; i < STEPS; i++) {
        quiet_records(events);
        CHECK(cuStreamSynchronize(a));
    }
    spins_until_told();
    spins(a, 1);
    quiet_records(events);
    printf("behind a kernel that runs: %d %d\n", (int)cuEventQuery(events[0]),
           (int)cuEventQuery(events[EVENTS - 1]));
    end_spin();
    CHECK(cuEventSynchronize(events[0]));
    CHECK(cuEventSynchronize(events[EVENTS - 1]));
    for (int i = 0; i < EVENTS; i++)
        printf("%d\n", (int)cuEventQuery(events[i]));
    print_words();
    return 0;
}

/* One of them was recorded in a capture before. It is ready where all is. */
int quiet_captured(void)
{
    CUevent events[EVENTS];
    CUgraph graph;
    make_events(events);
    CHECK(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    CHECK(ag_prog_hash(hash, a, x, ++counter));
    CHECK(cuEventRecord(events[EVENTS - 1], a));
    CHECK(cuStreamEndCapture(a, &graph));
    EXPECT(cuEventQuery(events[EVENTS - 1]), CUDA_ERROR_CAPTURED_EVENT);
    for (int i = 0; i < STEPS; i++) {
        CUevent last = events[EVENTS - 1];
        if (i < STEPS - 1) /* it is recorded in the last step alone */
            events[EVENTS - 1] = events[0];
        quiet_records(events);
        events[EVENTS - 1] = last;
        CHECK(cuStreamSynchronize(a));
    }
    for (int i = 0; i < EVENTS; i++)
        printf("%d\n", (int)cuEventQuery(events[i]));
    CHECK(cuEventSynchronize(events[EVENTS - 1]));
    print_words();
    return 0;
}

/* Among them is one that the host waits for before it writes what a kernel behind it waits for. 1:
 * by at least two queries, behind many more launches. */
int quiet_gate(int how)
{
    CUevent events[EVENTS], gate = new_event();
    CUfunction poll_word = ag_prog_function(module, "poll");
    void *none = NULL;
    make_events(events);
    CHECK(cuMemHostAlloc((void **)&word, 2 * sizeof *word, CU_MEMHOSTALLOC_DEVICEMAP));
    unsigned int *asked = word + 1;
    *word = *asked = 0;
    for (unsigned int i = 1; i <= STEPS; i++) {
        quiet_records(events);
        if (how) /* so that it is not ready before it has been asked for */
            CHECK(ag_prog_launch(poll_word, a, (void *[]){&asked, &i, &none}));
        CHECK(cuEventRecord(gate, a));
        CHECK(ag_prog_launch(poll_word, a, (void *[]){&word, &i, &none}));
        for (int k = 0; how && k < 20; k++)
            hashes(a, x);
        for (int k = 1; how && cuEventQuery(gate) == CUDA_ERROR_NOT_READY; k++)
            if (k == 2)
                __atomic_store_n(asked, i, __ATOMIC_RELEASE);
        if (!how)
            CHECK(cuEventSynchronize(gate));
        __atomic_store_n(word, i, __ATOMIC_RELEASE);
        CHECK(cuStreamSynchronize(a));
    }
    print_words();
    return 0;
}

/* At times somebody asks right behind a record, and another stream works on what it stands for. */
int quiet_asks(void)
{
    CUevent events[EVENTS];
    make_events(events);
    for (int i = 0; i < STEPS * 4; i++) {
        quiet_records(events);
        if (i % 8 == 3)
            CHECK(cuEventSynchronize(events[EVENTS - 1]));
        if (i % 16 == 7) {
            CHECK(cuStreamWaitEvent(b, events[EVENTS - 1], 0));
            CHECK(ag_prog_hash(hash, b, x, ++counter));
            join_from(b, joined);
        }
        if (i % 32 == 9) {
            CHECK(cuEventDestroy_v2(events[0]));
            events[0] = new_event();
        }
    }
    print_words();
    return 0;
}

/* Queries until an event of many is ready, at the end of each step. */
int quiet_queries(void)
{
    CUevent events[EVENTS];
    make_events(events);
    for (int i = 0; i < STEPS; i++) {
        for (int k = 0; k < 20; k++)
            quiet_records(events);
        spins(a, 200);
        CHECK(cuEventRecord(joined, a));
        while (cuEventQuery(joined) == CUDA_ERROR_NOT_READY)
            ;
    }
    print_words();
    return 0;
}

static void CUDA_CB does_nothing(void *unused)
{
    (void)unused;
}

/* Each step has a host function in another stream, which ends all forks. */
int quiet_host(void)
{
    CUevent events[EVENTS];
    make_events(events);
    for (int i = 0; i < STEPS; i++) {
        quiet_records(events);
        if (i >= STEPS / 4)
            CHECK(cuLaunchHostFunc(b, does_nothing, NULL));
        CHECK(cuStreamSynchronize(a));
        CHECK(cuStreamSynchronize(b));
    }
    print_words();
    return 0;
}

/* Work in the legacy stream (0), or behind an event of it (1), waits for a word that the program
 * writes once an event that was recorded before is ready. */
int legacy_gate(int how)
{
    CUfunction poll_word = ag_prog_function(module, "poll");
    CUstream side;
    void *none = NULL;
    CHECK(cuMemHostAlloc((void **)&word, sizeof *word, CU_MEMHOSTALLOC_DEVICEMAP));
    *word = 0;
    CHECK(cuStreamCreate(&side, CU_STREAM_DEFAULT));
    CHECK(cuCtxSynchronize());
    if (how == 0) {
        CHECK(cuStreamCreate(&a, CU_STREAM_DEFAULT));
        CHECK(cuStreamCreate(&b, CU_STREAM_DEFAULT)); /* as ordered with the legacy stream as `a` */
    } else
        a = CU_STREAM_LEGACY;
    hashes(a, x);
    hashes(how == 0 ? CU_STREAM_LEGACY : side, y);
    for (unsigned int i = 1; i <= STEPS; i++) {
        CHECK(cuCtxSynchronize());
        step(0);
        CHECK(ag_prog_launch(poll_word, how == 0 ? CU_STREAM_LEGACY : side,
                             (void *[]){&word, &i, &none}));
        CHECK(cuEventSynchronize(joined));
        __atomic_store_n(word, i, __ATOMIC_RELEASE);
    }
    print_words();
    return 0;
}

static _Atomic bool stop;

static void *launches_to_legacy(void *unused)
{
    CHECK(cuCtxSetCurrent(ctx));
    for (uint64_t k = 0; !atomic_load(&stop); k++) {
        CHECK(ag_prog_hash(hash, CU_STREAM_LEGACY, y, k));
        if (k % 16 == 15) /* else the other thread would wait for ever more of these */
            CHECK(cuStreamSynchronize(CU_STREAM_LEGACY));
    }
    return unused;
}

/* Streams with events that nobody asked for end, while another thread launches to the legacy
 * stream. */
int quiet_ends(void)
{
    pthread_t thread;
    CUevent events[EVENTS];
    make_events(events);
    CHECK(cuCtxSynchronize());
    CHECK(pthread_create(&thread, NULL, launches_to_legacy, NULL) == 0 ? CUDA_SUCCESS
                                                                       : CUDA_ERROR_UNKNOWN);
    for (int i = 0; i < 2 * STEPS; i++) {
        CHECK(cuStreamCreate(&a, CU_STREAM_DEFAULT));
        for (int k = 0; k < 6; k++)
            quiet_records(events);
        CHECK(cuStreamDestroy_v2(a));
        CHECK(cuCtxSynchronize());
    }
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
    printf("%016llx\n", (unsigned long long)ag_prog_read64(x));
    return 0;
}

/* A kernel in a stream that is dormant waits for a word that the program writes once an event of
 * another stream is ready. 0: the legacy stream is the dormant one; 1: the other one is legacy. */
int quiet_dormant(int how)
{
    enum { NEVER_ALIKE = 41400, LARGEST = 4096 }; /* as in tests/bench/dormant_order.c */
    CUfunction poll_word = ag_prog_function(module, "poll");
    CUevent events[EVENTS];
    CUstream blocking;
    unsigned int random = 1;
    void *none = NULL;
    make_events(events);
    CHECK(cuMemHostAlloc((void **)&word, sizeof *word, CU_MEMHOSTALLOC_DEVICEMAP));
    *word = 0;
    CHECK(cuCtxSynchronize());
    CHECK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    CUstream dormant = how ? blocking : CU_STREAM_LEGACY;
    a = how ? CU_STREAM_LEGACY : blocking;
    for (int i = 0; i < NEVER_ALIKE; i++) {
        random = random * 1103515245 + 12345;
        CHECK(cuLaunchKernel(hash, 1, 1, 1, 1, 1, 1, (random >> 16) % LARGEST, dormant,
                             (void *[]){&y, &counter}, NULL));
    }
    for (unsigned int i = 1; i <= STEPS; i++) {
        quiet_records(events);
        quiet_records(events);
        CHECK(ag_prog_launch(poll_word, dormant, (void *[]){&word, &i, &none}));
        if (i > STEPS / 2)
            CHECK(cuEventSynchronize(events[EVENTS - 1]));
        __atomic_store_n(word, i, __ATOMIC_RELEASE);
        CHECK(cuCtxSynchronize());
    }
    print_words();
    return 0;
}

static void *asks(void *event)
{
    CHECK(cuCtxSetCurrent(ctx));
    usleep(20000); /* so that the other thread waits, in all likelihood */
    CHECK(cuEventSynchronize(event));
    __atomic_fetch_add(word, 1u, __ATOMIC_RELEASE);
    return NULL;
}

/* The legacy stream, which nothing was ever launched to, gets behind a kernel that waits for a
 * word, which the program writes once an event of a blocking stream is ready. 0: by a wait; 1: by a
 * copy, while another thread asks for the event. */
int quiet_unknown(int how)
{
    CUfunction poll_word = ag_prog_function(module, "poll");
    CUevent events[EVENTS], of_side = new_event();
    CUstream side;
    pthread_t thread;
    void *none = NULL;
    uint64_t host = 1;
    make_events(events);
    CHECK(cuMemHostAlloc((void **)&word, sizeof *word, CU_MEMHOSTALLOC_DEVICEMAP));
    *word = 0;
    CHECK(cuCtxSynchronize());
    CHECK(cuStreamCreate(&a, CU_STREAM_DEFAULT));
    CHECK(cuStreamCreate(&side, how ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
    hashes(side, y);
    for (int i = 0; i < STEPS; i++)
        quiet_records(events);
    for (unsigned int i = 1; i <= 4; i++) {
        CHECK(ag_prog_launch(poll_word, side, (void *[]){&word, &i, &none}));
        CHECK(cuEventRecord(of_side, side));
        quiet_records(events);
        quiet_records(events);
        quiet_records(events);
        if (how == 0) {
            CHECK(cuStreamWaitEvent(CU_STREAM_LEGACY, of_side, 0));
            asks(events[EVENTS - 1]);
        } else {
            CHECK(pthread_create(&thread, NULL, asks, events[EVENTS - 1]) == 0
                      ? CUDA_SUCCESS
                      : CUDA_ERROR_UNKNOWN);
            CHECK(cuMemcpyHtoD_v2(y + 8, &host, 8));
            pthread_join(thread, NULL);
        }
        CHECK(cuCtxSynchronize());
    }
    print_words();
    return 0;
}
