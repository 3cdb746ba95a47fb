/* submit_far.c - cases of `submit`: a GPU that does not get on, or is slow, and a program that runs
 * ahead of it. */
#define _GNU_SOURCE
#include "tests/command/submit.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

/* A second of patience lets one graph more pass. */
enum { TOO_FAR = 3 * PLACES };

static _Atomic uint64_t far;

static void launch_behind_gate(int n)
{
    wait_at_gate();
    for (uint64_t k = 0; k < (uint64_t)n; k++)
        CHECK(launch(&full, k % STEP));
}

/* Ops that find the GPU waiting for the flag. */
static void *go_far(void *unused)
{
    (void)unused;
    CHECK(cuCtxSetCurrent(home));
    steps_until_graphs(&full, 0);
    steps(&full, 200, 100); /* nor has anybody to build graphs for steps without a sync */
    wait_at_gate();
    for (uint64_t k = 0; k < FAR; k++) {
        CHECK(launch(&full, k % STEP));
        atomic_fetch_add(&far, 1);
    }
    return NULL;
}

/* A program that never waits for its GPU is kept from going on without end; others go on. */
int behind(int rounds)
{
    pthread_t thread;
    start_gated();
    REQUIRE(!pthread_create(&thread, NULL, go_far, NULL));
    while (atomic_load(&far) < PLACES - STEP)
        sched_yield();
    for (int i = 0; i < rounds; i++) {
        allocate();
        look_at_event();
        steps(&other, 4, 3);
        CHECK(cuStreamSynchronize(other.stream));
    }
    query();
    bool too_far = atomic_load(&far) > TOO_FAR;
    printf("ahead: %s\n", too_far ? "TOO FAR" : "as far as may be");
    open_gate();
    pthread_join(thread, NULL);
    return print_value(&full) + print_value(&other) + too_far;
}

/* N steps that find the GPU waiting for the flag. Each begins when the driver has got the one
 * before, so the submitter may launch them all. */
int behind_steps(int n)
{
    start_gated();
    steps_until_graphs(&full, 0);
    steps(&full, 300, 20); /* less than what is far behind */
    wait_at_gate();
    for (int i = 0; i < n; i++) {
        uint64_t before = cuSimCallCount("cuLaunchKernel") + cuSimCallCount("cuGraphLaunch");
        step(&full);
        while (cuSimCallCount("cuLaunchKernel") + cuSimCallCount("cuGraphLaunch") == before)
            sched_yield();
    }
    open_gate();
    return print_value(&full);
}

/* Until the other thread has launched nothing for so many milliseconds. Returns its launches. */
static uint64_t wait_until_stuck(int n)
{
    uint64_t before = 0;
    for (int same = 0; same < n; usleep(1000)) {
        uint64_t now = atomic_load(&far);
        same = now >= PLACES - STEP && now == before ? same + 1 : 0;
        before = now;
    }
    return before;
}

/* Another thread's calls in the legacy stream, whose work comes behind that of the thread that is
 * made to wait: the calls do not wait for it. */
int beside(int n)
{
    pthread_t thread;
    CUevent event;
    start_gated();
    CHECK(cuStreamDestroy_v2(full.stream));
    CHECK(cuStreamCreate(&full.stream, CU_STREAM_DEFAULT));
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    other.stream = NULL;
    REQUIRE(!pthread_create(&thread, NULL, go_far, NULL));
    uint64_t before = wait_until_stuck(n);
    CHECK(cuMemsetD8Async(other.data, 0, 8, NULL));
    step(&other);
    CHECK(cuEventRecord(event, NULL));
    printf("MEASURED %d others waited\n", atomic_load(&far) != before);
    __atomic_store_n(flag, 1u, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    return print_value(&full) + print_value(&other);
}

/* The program itself lets the GPU go on, behind more launches than fit into its queue: with a
 * driver that has a longer queue, that ends eagerly. */
int patience(int n)
{
    start_gated();
    steps_until_graphs(&full, 0);
    launch_behind_gate(n);
    open_gate();
    return print_value(&full);
}

/* The same with N launches by graphs, and then others, each of which goes by itself when the driver
 * has got the one before. So the submitter may launch them all. */
int patience_new(int n)
{
    start_gated();
    steps_until_graphs(&full, 0);
    launch_behind_gate(n);
    for (uint64_t k = 1; k < 800; k++) {
        uint64_t before = cuSimCallCount("cuLaunchKernel");
        CHECK(launch(&full, STEP + k));
        while (cuSimCallCount("cuLaunchKernel") == before)
            sched_yield();
    }
    open_gate();
    return print_value(&full);
}

static void CUDA_CB nothing(void *unused)
{
    (void)unused;
}

static void *add_host_function(void *unused)
{
    (void)unused;
    REQUIRE(!pthread_setname_np(pthread_self(), "adds"));
    CHECK(cuCtxSetCurrent(home));
    EXPECT(cuLaunchHostFunc(line.stream, nothing, NULL), CUDA_ERROR_INVALID_VALUE);
    return NULL;
}

/* From here on a thread is in the call of a host function, which then fails: no graph may be built
 * meanwhile. The second function ends that. */
static pthread_t adder;

static void begin_to_add(void)
{
    uint64_t before = cuSimCallCount("cuLaunchHostFunc");
    REQUIRE(!cuSimFail("cuLaunchHostFunc", 1, CUDA_ERROR_INVALID_VALUE));
    REQUIRE(!cuSimHold("adds", "cuLaunchHostFunc", 1, 0));
    REQUIRE(!pthread_create(&adder, NULL, add_host_function, NULL));
    while (cuSimCallCount("cuLaunchHostFunc") == before)
        sched_yield();
}

static void end_to_add(void)
{
    REQUIRE(!cuSimHold(NULL, NULL, 1, 0));
    pthread_join(adder, NULL);
}

int adds(int n)
{
    start();
    open_line(&full);
    begin_to_add();
    steps(&line, n, 1);
    end_to_add();
    return print_value(&line);
}

/* As patience_new(), but the others come in steps that are known to repeat. */
int patience_known(int n)
{
    start_gated();
    steps_until_graphs(&full, 0);
    begin_to_add();
    for (int i = 0; i < 20; i++) {
        step_from(&full, STEP);
        CHECK(cuStreamSynchronize(full.stream));
    }
    launch_behind_gate(n);
    for (int i = 0; i < 40; i++)
        step_from(&full, STEP);
    open_gate();
    end_to_add();
    return print_value(&full);
}

/* What an exit handler finds: launches that had returned, and how many of them the GPU has done. */
static _Atomic bool may_leave;

static void count_launches(unsigned int first, unsigned int n)
{
    CUfunction publish = ag_prog_function(module, "publish");
    for (unsigned int k = first; k < first + n; k++) {
        CHECK(cuLaunchKernel(publish, 1 + k % STEP, 1, 1, 1, 1, 1, 0, full.stream,
                             (void *[]){&full.data, &k}, NULL));
        atomic_fetch_add(&far, 1);
    }
}

static void *count_far(void *unused)
{
    (void)unused;
    CHECK(cuCtxSetCurrent(home));
    for (unsigned int i = 0; i < 100; i++) {
        count_launches(1 + i * STEP, STEP);
        CHECK(cuStreamSynchronize(full.stream));
    }
    wait_at_gate();
    atomic_store(&may_leave, true);
    count_launches(1 + 100 * STEP, FAR);
    return NULL;
}

static void look_at_end(void)
{
    uint64_t returned = atomic_load(&far);
    __atomic_store_n(flag, 1u, __ATOMIC_RELEASE);
    CHECK(cuCtxSynchronize());
    /* the thread goes on meanwhile, so this is no copy */
    bool all = __atomic_load_n((unsigned int *)(uintptr_t)full.data, __ATOMIC_ACQUIRE) >= returned;
    puts(all ? "all is done" : "SOME IS NOT DONE");
    fflush(stdout);
    _exit(!all);
}

/* The process ends while a thread waits as its GPU is far behind, and an exit handler lets the GPU
 * go on: what has been launched is done behind that. */
int exit_far(int n)
{
    pthread_t thread;
    atexit(look_at_end); /* before CUDA comes: it runs when the library has ended */
    start_gated();
    REQUIRE(!pthread_create(&thread, NULL, count_far, NULL));
    pthread_detach(thread);
    uint64_t before = 0;
    for (int same = 0; same < n || !atomic_load(&may_leave); usleep(1000)) {
        same = atomic_load(&far) == before ? same + 1 : 0;
        before = atomic_load(&far);
    }
    exit(0);
}

/* N launches of a loop, each of which takes the GPU so long. */
static int slow_loop(int n, unsigned int us, unsigned int loop)
{
    uint64_t before = 0;
    start();
    CUfunction spin = ag_prog_function(module, "spin_us");
    for (unsigned int i = 0; i < (unsigned int)n; i++) {
        if (i == (unsigned int)n / 3 * 2)
            before = cuSimCallCount("cuGraphLaunch");
        CHECK(cuLaunchKernel(spin, 1 + i % loop, 1, 1, 1, 1, 1, 0, line.stream, (void *[]){&us},
                             NULL));
    }
    uint64_t graphs = cuSimCallCount("cuGraphLaunch") - before;
    printf("MEASURED %u ops a graph\n", (unsigned int)((uint64_t)n / 3 / (graphs ? graphs : 1)));
    CHECK(cuStreamSynchronize(line.stream));
    return print_value(&line);
}

/* The GPU is soon far behind. */
int slower_gpu(int n)
{
    return slow_loop(n, 20, 20);
}

/* Graphs of 64 ops: a third one would come too far behind an event, however fast the GPU is. */
int gpu_of_64(int n)
{
    return slow_loop(n, 0, 16);
}

/* N launches behind a gate, and a call that needs all of them submitted. */
static void behind_gate(int n, unsigned int opened, CUevent event)
{
    __atomic_store_n(flag, opened, __ATOMIC_RELEASE);
    launch_behind_gate(n);
    CHECK(cuEventRecord(event, full.stream));
}

/* The program opens the gate when it has made its N launches, for which the queue has room: nothing
 * may wait for the GPU before that. */
int gate(int n)
{
    CUevent event;
    start_gated();
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (int i = 1; i <= 80; i++) {
        behind_gate(n, i % 40 != 0, event);
        __atomic_store_n(flag, 1u, __ATOMIC_RELEASE);
        CHECK(cuStreamSynchronize(full.stream));
    }
    return print_value(&full);
}
