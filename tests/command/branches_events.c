/* branches_events.c - cases of `forks`: what becomes of the program's events. */
#define _GNU_SOURCE
#include "tests/command/branches.h"
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

static void tell_joined(const char *when)
{
    CUresult r = cuEventQuery(joined);
    printf("%s: %d\n", when, (int)r);
    end_spin();
    CHECK(cuEventSynchronize(joined));
    printf("then: %d\n", (int)cuEventQuery(joined));
}

/* An event that is recorded for a whole context does not make another one be forgotten. */
int context_event(void)
{
    CUevent other = new_event();
    spins_until_told();
    steps();
    step(1);
    cuCtxRecordEvent(ctx, other);
    tell_joined("behind cuCtxRecordEvent");
    print_words();
    return 0;
}

/* A record that fails leaves the event as it was. */
int failed_record(void)
{
    CUstream gone = new_stream();
    CHECK(cuStreamDestroy_v2(gone));
    spins_until_told();
    steps();
    step(1);
    cuEventRecord(joined, gone);
    tell_joined("behind a record that failed");
    print_words();
    return 0;
}

/* Two forks record the same event in turns. */
int shared_event(void)
{
    CUstream a2 = new_stream(), b2 = new_stream();
    CUdeviceptr x2 = ag_prog_alloc(64), y2 = ag_prog_alloc(64);
    uint64_t host = 1;
    spins_until_told();
    CHECK(cuCtxSynchronize());
    for (int i = 0; i <= STEPS; i++) {
        bool last = i == STEPS;
        CUstream streams[] = {a, b};
        CUdeviceptr words[] = {x, y};
        step(0);
        a = a2, b = b2, x = x2, y = y2;
        step(last);
        a = streams[0], b = streams[1], x = words[0], y = words[1];
        if (last)
            printf("%d\n", (int)cuEventQuery(joined));
        CHECK(cuMemcpyHtoDAsync_v2(x + 8, &host, 8, a));
        CHECK(cuStreamSynchronize(a));
        if (last)
            tell_joined("behind a copy into another fork");
        CHECK(cuStreamSynchronize(a2));
    }
    print_words();
    return 0;
}

/* A thread that looks for an event, or makes something wait, while another waits for room in a
 * queue. */
static unsigned int *word;
static int how_it_looks;

static void CUDA_CB does_nothing(void *unused)
{
    (void)unused;
}

/* 0: a host function. 1: a wait for a word. 2: a collective. 3: perhaps another process. */
static void makes_something_wait(int how)
{
    CUevent event;
    CUstream s = new_stream();
    CUdeviceptr from = y + 16, to = y + 24;
    size_t bytes = 8;
    if (how == 0)
        CHECK(cuLaunchHostFunc(s, does_nothing, NULL));
    else if (how == 1)
        CHECK(cuStreamWaitValue32_v2(s, from, 0, CU_STREAM_WAIT_VALUE_GEQ));
    else if (how == 2)
        CHECK(ag_prog_launch(ag_prog_function(module, "ncclDevKernel_SendRecv"), s,
                             (void *[]){&from, &to, &bytes}));
    else
        CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
}

static void *looks(void *event)
{
    CHECK(cuCtxSetCurrent(ctx));
    usleep(100000);
    if (how_it_looks == 0)
        while (cuEventQuery(event) == CUDA_ERROR_NOT_READY)
            usleep(100);
    else if (how_it_looks == 1)
        CHECK(cuEventSynchronize(event));
    else if (how_it_looks == 2)
        CHECK(cuStreamWaitEvent(new_stream(), event, 0));
    else if (how_it_looks == 3)
        CHECK(cuEventDestroy_v2(event));
    else
        makes_something_wait(how_it_looks - 4);
    __atomic_store_n(word, 1u, __ATOMIC_RELEASE);
    return NULL;
}

/* 0: it queries the event. 1: it waits for it. 2: another stream does. 3: it destroys the event.
 * 4 to 7: it makes something else wait. Then it ends what the first thread waits for. */
int full_queue(int how)
{
    pthread_t thread;
    unsigned int one = 1;
    void *none = NULL;
    CUevent early = new_event();
    CUfunction poll_word = ag_prog_function(module, "poll");
    how_it_looks = how;
    CHECK(cuMemHostAlloc((void **)&word, sizeof *word, CU_MEMHOSTALLOC_DEVICEMAP));
    *word = 0;
    steps();
    for (int i = 0; i < STEPS; i++) {
        fork_to(b);
        hashes(b, y);
        CHECK(cuEventRecord(early, b));
        hashes(b, y);
        hashes(a, x);
        join_from(b, joined);
        CHECK(cuStreamSynchronize(a));
    }
    CHECK(ag_prog_launch(poll_word, a, (void *[]){&word, &one, &none}));
    CHECK(pthread_create(&thread, NULL, looks, early) == 0 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN);
    for (int i = 0; i < STEPS; i++)
        step(0);
    CHECK(cuStreamSynchronize(a));
    pthread_join(thread, NULL);
    print_words();
    return 0;
}

/* The same, 4 to 7, beside a per-thread default stream. Each of its steps looks for the word first.
 */
int full_queue_of_thread(int how)
{
    pthread_t thread;
    unsigned int one = 1;
    void *none = NULL;
    CUfunction poll_word = ag_prog_function(module, "poll");
    how_it_looks = how;
    CHECK(cuMemHostAlloc((void **)&word, sizeof *word, CU_MEMHOSTALLOC_DEVICEMAP));
    *word = 1;
    for (int i = 0; i < 4 * STEPS; i++) {
        if (i == 2 * STEPS) {
            *word = 0;
            CHECK(pthread_create(&thread, NULL, looks, NULL) == 0 ? CUDA_SUCCESS
                                                                  : CUDA_ERROR_UNKNOWN);
        }
        CHECK(ag_prog_launch(poll_word, CU_STREAM_PER_THREAD, (void *[]){&word, &one, &none}));
        for (uint64_t k = 0; k < OPS; k++)
            CHECK(ag_prog_hash(hash, CU_STREAM_PER_THREAD, y, k));
        if (i < 2 * STEPS)
            CHECK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    }
    CHECK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    pthread_join(thread, NULL);
    print_words();
    return 0;
}

/* An event of another context cannot be recorded here, and the program hears of that. */
int event_of_other_context(void)
{
    CUcontext other;
    CUevent foreign;
    int refused = 0;
    CHECK(cuCtxCreate_v4(&other, NULL, 0, 0));
    foreign = new_event();
    CHECK(cuCtxSetCurrent(ctx));
    steps();
    for (int i = 0; i < STEPS; i++) {
        fork_to(b);
        hashes(b, y);
        refused += cuEventRecord(foreign, b) == CUDA_ERROR_INVALID_HANDLE;
        hashes(a, x);
        join_from(b, joined);
        hashes(a, y);
        CHECK(cuStreamSynchronize(a));
    }
    printf("refused %d times\n", refused);
    print_words();
    return 0;
}

/* Calls on an event that was destroyed a moment ago, in the middle of a step. In each step that
 * moment is `us` longer. The driver still has the event then, or is destroying it, and has done so
 * before the program's next one of that name. */
int destroyed_twice(int us)
{
    int refused[7] = {0};
    REQUIRE(freopen("/dev/null", "w", stderr)); /* the driver complains of what reaches it */
    steps();
    for (int i = 0; i < STEPS; i++) {
        float ms;
        CUevent gone = joined;
        step(0);
        CHECK(cuEventDestroy_v2(gone));
        usleep((useconds_t)(us * i));
        refused[0] += cuEventDestroy_v2(gone) == CUDA_ERROR_INVALID_HANDLE;
        refused[1] += cuEventRecord(gone, a) == CUDA_ERROR_INVALID_HANDLE;
        refused[2] += cuStreamWaitEvent(b, gone, 0) == CUDA_ERROR_INVALID_HANDLE;
        refused[3] += cuEventQuery(gone) == CUDA_ERROR_INVALID_HANDLE;
        refused[4] += cuEventSynchronize(gone) == CUDA_ERROR_INVALID_HANDLE;
        refused[5] += cuEventElapsedTime(&ms, gone, gone) == CUDA_ERROR_INVALID_HANDLE;
        refused[6] += cuEventDestroy(gone) == CUDA_ERROR_INVALID_HANDLE;
        joined = new_event();
        step(0);
        CHECK(cuStreamSynchronize(a));
        CHECK(cuEventSynchronize(joined));
    }
    for (int i = 0; i < 7; i++)
        printf("refused %d times\n", refused[i]);
    print_words();
    return 0;
}

/* Who has waited for all finds both streams and every event ready. */
int ready_at_once(void)
{
    enum { EVENTS = 12 };
    CUevent events[EVENTS];
    int late[4] = {0};
    for (int i = 0; i < EVENTS; i++)
        events[i] = new_event();
    steps();
    for (int i = 0; i < STEPS * 4; i++) {
        joined = events[i % EVENTS];
        step(0);
        CHECK(i % 2 ? cuCtxSynchronize() : cuStreamSynchronize(a));
        if (i % 3)
            late[0] += cuStreamQuery(b) != CUDA_SUCCESS;
        late[1] += cuEventQuery(joined) != CUDA_SUCCESS;
        late[2] += cuEventQuery(forked) != CUDA_SUCCESS;
        late[3] += cuStreamQuery(a) != CUDA_SUCCESS;
    }
    for (int i = 0; i < 4; i++)
        printf("not ready %d times\n", late[i]);
    print_words();
    return 0;
}

/* A launch records an event that streams of a fork record and wait for. Only that event orders what
 * its stream and the fork do with its word. */
static void hash_and_record(CUstream s, CUdeviceptr p, CUlaunchAttributeID id, CUevent event)
{
    CUlaunchAttribute attr = {.id = id};
    if (id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT)
        attr.value.programmaticEvent.event = event;
    else
        attr.value.launchCompletionEvent.event = event;
    hash_with(s, p, attr);
}

int launch_event(void)
{
    CUstream c = new_stream();
    CUdeviceptr z = ag_prog_alloc(64);
    CHECK(cuCtxSynchronize());
    for (int i = 0; i < STEPS * 2; i++) {
        step(0);
        if (i > STEPS && i % 4 == 0) {
            spins(c, 20000);
            hash_and_record(c, z,
                            i % 8 ? CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT
                                  : CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT,
                            joined);
            CHECK(cuStreamWaitEvent(a, joined, 0));
            hashes(a, z);
        }
        CHECK(cuStreamSynchronize(a));
    }
    print_words();
    printf("%016llx\n", (unsigned long long)ag_prog_read64(z));
    return 0;
}
