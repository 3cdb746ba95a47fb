/*
 * submit.c - programs whose chunks the library's own thread launches; `submit CASE N`.
 *
 * Each prints what a program can see of its own work, so that a run with the library can be
 * compared with one without. None of them knows of the library.
 */
#define _GNU_SOURCE
#include "tests/simdriver/simprog.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STEP = 20, QUEUE = 64 };

static CUcontext home;
static CUmodule module;
static CUfunction hash;
static unsigned int *flag;

/* A stream with what its launches have made of one word. */
struct line {
    CUstream stream;
    CUdeviceptr data;
    uint64_t want;
};
static struct line line;

static void open_line(struct line *l)
{
    CHECK(cuStreamCreate(&l->stream, CU_STREAM_NON_BLOCKING));
    l->data = ag_prog_alloc(8);
    l->want = 0;
    CHECK(cuCtxSynchronize()); /* the fill is the legacy stream's, which orders nothing here */
}

static void start(void)
{
    home = ag_prog_start();
    module = ag_prog_module();
    hash = ag_prog_function(module, "hash");
    open_line(&line);
}

static CUresult launch_with(struct line *l, uint64_t k, uint64_t argument)
{
    CUresult r = cuLaunchKernel(hash, 1 + (unsigned int)k, 1, 1, 1, 1, 1, 0, l->stream,
                                (void *[]){&l->data, &argument}, NULL);
    if (r == CUDA_SUCCESS)
        l->want = l->want * 31 + argument;
    return r;
}

static CUresult launch(struct line *l, uint64_t k)
{
    return launch_with(l, k, k);
}

/* Launches that look unlike each other, and unlike those of a step that starts elsewhere. */
static void step_from(struct line *l, uint64_t first)
{
    for (uint64_t k = first; k < first + STEP; k++)
        CHECK(launch(l, k));
}

static void step(struct line *l)
{
    step_from(l, 0);
}

static void steps(struct line *l, int n, int between_syncs)
{
    for (int i = 1; i <= n; i++) {
        step(l);
        if (i % between_syncs == 0)
            CHECK(cuStreamSynchronize(l->stream));
    }
}

/* Steps with a sync each until two in a row go by graphs, which somebody else may have to build
 * first; a hundred at most. */
static void steps_until_graphs(struct line *l, uint64_t first)
{
    uint64_t before = cuSimCallCount("cuGraphLaunch");
    for (int i = 0, by_graphs = 0; i < 100 && by_graphs < 2; i++) {
        step_from(l, first);
        CHECK(cuStreamSynchronize(l->stream));
        uint64_t now = cuSimCallCount("cuGraphLaunch");
        by_graphs = now > before ? by_graphs + 1 : 0;
        before = now;
        if (!by_graphs && i >= 4)
            usleep(100);
    }
}

static int print_value(const struct line *l)
{
    CHECK(cuStreamSynchronize(l->stream));
    bool right = ag_prog_read64(l->data) == l->want;
    printf("value %s\n", right ? "right" : "WRONG");
    return !right;
}

/* N steps whose arguments no ring has room for. Behind them the library gives its graphs back. */
struct large {
    CUdeviceptr data;
    uint64_t words[500];
};

static void add_words(const struct cuSimLaunch *l)
{
    const struct large *large = l->params[0];
    uint64_t *sum = (uint64_t *)(uintptr_t)large->data;
    for (size_t i = 0; i < sizeof large->words / sizeof *large->words; i++)
        *sum += large->words[i];
}

static int too_long(int n)
{
    static struct large large;
    size_t size = sizeof large;
    CUdeviceptr x;
    REQUIRE(!cuSimRegisterKernel("add_words", add_words, 1, NULL, &size, 0));
    start();
    CUfunction f = ag_prog_function(module, "add_words");
    large.data = line.data;
    for (unsigned int i = 0; i < (unsigned int)n; i++) {
        for (unsigned int k = 1; k <= 2 * STEP; k++) {
            line.want += large.words[k] = i + k;
            CHECK(cuLaunchKernel(f, k, 1, 1, 1, 1, 1, 0, line.stream, (void *[]){&large}, NULL));
            large.words[k] = 0;
        }
        CHECK(cuStreamSynchronize(line.stream));
    }
    EXPECT(cuMemAlloc_v2(&x, (size_t)1 << 50), CUDA_ERROR_OUT_OF_MEMORY);
    printf("graphs: %d\n", (int)cuSimAlive("exec"));
    return print_value(&line);
}

/* ---- running ahead ----------------------------------------------------------------------------
 */

/* N steps with a sync now and then. */
static int ahead(int n)
{
    start();
    steps(&line, n, 50);
    return print_value(&line);
}

/* Each of N steps ends with a word to the host, for which the program waits without a call: if the
 * step was handed over, it is the submitter that launches it. Behind each the program rests. */
static int rest_behind(int n, unsigned int us)
{
    _Atomic unsigned int *word;
    unsigned int k = 0;
    start();
    CHECK(cuMemHostAlloc((void **)(uintptr_t)&word, sizeof *word, CU_MEMHOSTALLOC_DEVICEMAP));
    atomic_store(word, 0);
    CUfunction publish = ag_prog_function(module, "publish");
    while (k < (unsigned int)n) {
        k++;
        step(&line);
        CHECK(ag_prog_launch(publish, line.stream, (void *[]){(void *)(uintptr_t)&word, &k}));
        while (atomic_load(word) != k)
            sched_yield();
        CHECK(cuStreamSynchronize(line.stream));
        if (us)
            usleep(us);
    }
    return print_value(&line);
}

static int patient(int n)
{
    return rest_behind(n, 0);
}

/* The submitter sleeps meanwhile. */
static int rests(int n)
{
    return rest_behind(n, 3000);
}

/* The exit handlers use what was launched. */
static void look_at_exit(void)
{
    print_value(&line);
}

static int exit_handler(int n)
{
    atexit(look_at_exit); /* before CUDA comes: it runs when the library has ended */
    start();
    steps(&line, 30, 1);
    steps(&line, n, n + 1);
    exit(0);
}

/* Children are made with launches under way, and end in each of two ways. */
static int forks(int n)
{
    start();
    steps(&line, 30, 1);
    for (int i = 0; i < n; i++) {
        int status = 0;
        step(&line);
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            if (i % 2)
                _exit(7);
            exit(7);
        }
        REQUIRE(waitpid(child, &status, 0) == child);
        printf("child: %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    }
    return print_value(&line);
}

/* ---- errors -----------------------------------------------------------------------------------
 */

/* Graph launches and updates are refused now and then: nobody hears of it. */
static int graphs_refused(int n)
{
    start();
    for (int i = 0; i < n; i++) {
        steps(&line, 20, 7);
        cuSimFail("cuGraphLaunch", 1, CUDA_ERROR_UNKNOWN);
        steps(&line, 2, 2);
        cuSimFail("cuGraphLaunch", 1, CUDA_SUCCESS);
    }
    return print_value(&line);
}

/* A launch is refused, and the program does nothing but launch: one of its launches tells. */
static int told_by_launch(int n)
{
    int told = 0;
    start();
    steps(&line, 50, 1);
    cuSimFail("cuLaunchKernel", 1, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    cuSimFail("cuGraphLaunch", 1, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    for (int i = 0; i < n && !told; i++)
        for (uint64_t k = 0; k < STEP; k++)
            told += launch(&line, k) == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    cuSimFail("cuGraphLaunch", 1, CUDA_SUCCESS);
    printf("told by launches: %d\n", told);
    printf("sync: %d\n", (int)cuStreamSynchronize(line.stream));
    return told != 1;
}

/* ---- launches that are in no graph -------------------------------------------------------------
 */

/* N times a launch is refused that looks unlike all before it. Each of the next two comes when the
 * driver has seen the one in front of it, and then one of the two tells. */
static int told_alone(int n)
{
    start();
    CHECK(launch(&line, 0));
    for (int round = 0; round < n; round++) {
        int told = 0;
        CHECK(cuStreamSynchronize(line.stream));
        cuSimFail("cuLaunchKernel", 1, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
        for (uint64_t i = 0; i < 3; i++) {
            uint64_t k = 1 + (uint64_t)round * 3 + i, calls = cuSimCallCount("cuLaunchKernel");
            told += cuLaunchKernel(hash, 1 + (unsigned int)k, 1, 1, 1, 1, 1, 0, line.stream,
                                   (void *[]){&line.data, &k}, NULL) != CUDA_SUCCESS;
            line.want = i ? line.want * 31 + k : line.want;
            while (cuSimCallCount("cuLaunchKernel") == calls)
                sched_yield();
        }
        printf("told by launches: %d, sync: %d\n", told, (int)cuStreamSynchronize(line.stream));
    }
    return print_value(&line);
}

/* How often the next N launches and a sync tell of an error that the driver gives at the next
 * launch, and whether the first launch does. */
static int told(const char *what, uint64_t k, unsigned int block)
{
    enum { CALLS = 3 };
    int n = 0;
    CHECK(cuStreamSynchronize(line.stream));
    cuSimFail("cuLaunchKernel", 1, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    CUresult first = cuLaunchKernel(hash, 1 + (unsigned int)k, 1, 1, block, 1, 1, 0, line.stream,
                                    (void *[]){&line.data, &k}, NULL);
    for (int i = 0; i < CALLS; i++)
        n += cuStreamSynchronize(line.stream) != CUDA_SUCCESS;
    n += first != CUDA_SUCCESS;
    printf("%s: told %d time, %s\n", what, n, first == CUDA_SUCCESS ? "later" : "by the launch");
    return n;
}

/* A kernel whose first launch finds no memory, and the next one, with another grid, neither. */
static void short_of_memory(void)
{
    CUfunction f = ag_prog_function(module, "publish");
    void *none = NULL;
    for (unsigned int grid = 1; grid <= 2; grid++) {
        cuSimFail("cuLaunchKernel", 1, CUDA_ERROR_OUT_OF_MEMORY);
        printf("no memory: %d\n", (int)cuLaunchKernel(f, grid, 1, 1, 1, 1, 1, 0, line.stream,
                                                      (void *[]){&none, &grid}, NULL));
        CHECK(cuStreamSynchronize(line.stream));
    }
}

/* N launches that never repeat: a new grid each, one stream. Then launches that the driver refuses:
 * one of a kind that was launched, one with another grid than any, one with another block, and one
 * whose kernel got another attribute. */
static int singles(int n)
{
    start();
    for (int i = 0; i < n; i++) {
        CHECK(launch(&line, (uint64_t)i));
        if (i % 97 == 96)
            CHECK(cuStreamSynchronize(line.stream));
    }
    told("known", 7, 1);
    told("another grid", (uint64_t)n + 7, 1);
    told("another block", 3, 2);
    CHECK(cuFuncSetAttribute(hash, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 50));
    told("another attribute", 9, 1);
    short_of_memory();
    return print_value(&line);
}

static float elapsed(void)
{
    CUevent from, to;
    float ms;
    CHECK(cuEventCreate(&from, CU_EVENT_DEFAULT));
    CHECK(cuEventCreate(&to, CU_EVENT_DEFAULT));
    CHECK(cuEventRecord(from, line.stream));
    CHECK(cuEventRecord(to, line.stream));
    CHECK(cuEventSynchronize(to));
    CHECK(cuEventElapsedTime(&ms, from, to));
    CHECK(cuEventDestroy_v2(from));
    CHECK(cuEventDestroy_v2(to));
    return ms;
}

/* The same for a host that has something else to do for some us between two launches of few kinds,
 * in an order that never comes again. Before launch number `asks` and every so many behind it the
 * program asks for the time between two events; 0: it never does. */
static int other_work(int n, double us, int asks)
{
    uint64_t random = 1;
    start();
    double began = ag_prog_seconds();
    for (int i = 0; i < n; i++) {
        if (asks && i % asks == asks / 2)
            REQUIRE(elapsed() >= 0);
        double until = ag_prog_seconds() + us * 1e-6;
        random = random * 6364136223846793005u + 1442695040888963407u;
        CHECK(launch(&line, random >> 58));
        while (ag_prog_seconds() < until)
            ;
    }
    printf("MEASURED %d ms\n", (int)((ag_prog_seconds() - began) * 1000));
    return print_value(&line);
}

/* If N is odd, it asks once, half way. */
static int slow_singles(int n)
{
    return other_work(n, 20, n % 2 ? n : 0);
}

static int slower_singles(int n)
{
    return other_work(n, 200, 0);
}

static int measured_singles(int n)
{
    return other_work(n, 20, 100);
}

/* A stream polls a word that a launch of a second stream publishes, and a graph of a third is due
 * right behind that. On this driver to build a graph waits for all streams. */
static int build_behind(int n)
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
static int query_with_lock(int n)
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

/* ---- two streams ------------------------------------------------------------------------------
 */

/* N steps on two streams, each of which waits for the other, over one word. */
static int tied(int n)
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
static int in_turn(int n)
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
static int seen_by_other(int n)
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
static int many(int n)
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

/* ---- a full queue -----------------------------------------------------------------------------
 */

static struct line full, other; /* the first waits for the flag */

static void start_gated(void)
{
    start();
    open_line(&full);
    open_line(&other);
    CHECK(cuMemHostAlloc((void **)&flag, sizeof *flag, CU_MEMHOSTALLOC_DEVICEMAP));
    *flag = 0;
}

/* From here on the GPU does nothing of `full` until the flag is 1. The second function makes
 * launches behind that, and the third sets the flag. */
static void wait_at_gate(void)
{
    unsigned int value = 1;
    void *none = NULL;
    CHECK(ag_prog_launch(ag_prog_function(module, "poll"), full.stream,
                         (void *[]){&flag, &value, &none}));
}

static void launch_behind_gate(int n)
{
    wait_at_gate();
    for (uint64_t k = 0; k < (uint64_t)n; k++)
        CHECK(launch(&full, k % STEP));
}

static void open_gate(void)
{
    unsigned int value = 1;
    CHECK(ag_prog_launch(ag_prog_function(module, "publish"), line.stream,
                         (void *[]){&flag, &value}));
}
static _Atomic uint64_t calls_before;
static _Atomic bool polls;

static uint64_t submissions(void)
{
    return cuSimCallCount("cuLaunchKernel") + cuSimCallCount("cuGraphLaunch") +
           cuSimCallCount("cuEventRecord");
}

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

static void allocate(void)
{
    CUdeviceptr x;
    size_t available, all;
    CHECK(cuMemAlloc_v2(&x, 8));
    CHECK(cuMemGetInfo_v2(&available, &all));
}

/* The library gives its graphs back, and the call is made once more. */
static void allocate_too_much(void)
{
    CUdeviceptr x;
    EXPECT(cuMemAlloc_v2(&x, (size_t)1 << 50), CUDA_ERROR_OUT_OF_MEMORY);
}

static void look_at_event(void)
{
    CUevent event;
    CHECK(cuEventCreate(&event, 0));
    CHECK(cuEventRecord(event, line.stream));
    CHECK(cuEventSynchronize(event));
    CHECK(cuEventQuery(event));
    CHECK(cuEventDestroy_v2(event));
}

static void query(void)
{
    printf("the other's stream: %d\n", (int)cuStreamQuery(full.stream));
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
static int stuck(int how)
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

/* ---- a GPU that does not get on ----------------------------------------------------------------
 */

enum {
    PLACES =
        1021, /* of a queue, as SIMCUDA_QUEUE has it: further than that no eager launch comes */
    FAR = 6 * PLACES,
    TOO_FAR = 3 * PLACES /* a second of patience lets one graph more pass */
};
static _Atomic uint64_t far;

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
static int behind(int rounds)
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
static int behind_steps(int n)
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
static int beside(int n)
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
static int patience(int n)
{
    start_gated();
    steps_until_graphs(&full, 0);
    launch_behind_gate(n);
    open_gate();
    return print_value(&full);
}

/* The same with N launches by graphs, and then others, each of which goes by itself when the driver
 * has got the one before. So the submitter may launch them all. */
static int patience_new(int n)
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

static int adds(int n)
{
    start();
    open_line(&full);
    begin_to_add();
    steps(&line, n, 1);
    end_to_add();
    return print_value(&line);
}

/* As patience_new(), but the others come in steps that are known to repeat. */
static int patience_known(int n)
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
static int exit_far(int n)
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

/* N launches of a loop, for which the GPU takes longer than the host. */
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
static int slower_gpu(int n)
{
    return slow_loop(n, 20, 20);
}

/* Graphs of 64 ops: a third one would come too far behind an event. */
static int gpu_of_64(int n)
{
    return slow_loop(n, 20, 16);
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
static int gate(int n)
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

/* ---- a call that never returns ----------------------------------------------------------------
 */

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

static void start_two(void)
{
    start();
    open_line(&full);
    open_line(&other);
}

/* Others go on while the submitter is stuck in `how`, and the stream whose launches it makes gets
 * no further ahead of it than it may. */
static int stuck_call(int how)
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
static int stuck_exit(int own)
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
static int host_function_fills(int n)
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
static int no_context(int n)
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
static int exit_asked(int singles)
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

static uint64_t submitted;

static void fault_handler(int signal)
{
    (void)signal;
    submitted = submissions();
    exit(0);
}

static void look_what_was_submitted(void)
{
    printf("submitted behind the fault: %d\n", (int)(submissions() - submitted));
}

static _Atomic bool faults;

/* A kernel of this program, which runs in the call that submits it (SIMCUDA_MODE=inline). */
static void fault(const struct cuSimLaunch *l)
{
    (void)l;
    if (atomic_load(&faults))
        raise(SIGSEGV);
}

/* A launch faults in the driver, and the handler ends the process: nothing else is submitted, as
 * the driver has been interrupted. */
static int exit_at_fault(int n)
{
    size_t size = 8;
    REQUIRE(!cuSimRegisterKernel("fault", fault, 1, NULL, &size, 0));
    atexit(look_what_was_submitted); /* before CUDA comes: it runs when the library has ended */
    signal(SIGSEGV, fault_handler);
    start_two();
    CUfunction f = ag_prog_function(module, "fault");
    CHECK(ag_prog_launch(f, full.stream, (void *[]){&full.data}));
    steps(&other, n, 1);
    CHECK(cuStreamSynchronize(full.stream));
    for (uint64_t k = 0; k < STEP / 2; k++) /* the library holds these back */
        CHECK(launch(&other, k));
    atomic_store(&faults, true);
    CHECK(ag_prog_launch(f, full.stream, (void *[]){&full.data}));
    for (;;)
        pause();
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
static int stuck_nth(int n)
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
static int stuck_always(int n)
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

/* ---- ends of streams --------------------------------------------------------------------------
 */

static _Atomic bool stop, wrong;
static atomic_int rounds;

static void *work(void *unused)
{
    struct line mine;
    (void)unused;
    CHECK(cuCtxSetCurrent(home));
    open_line(&mine);
    while (!atomic_load(&stop)) {
        uint64_t got;
        steps(&mine, 5, 6);
        CHECK(cuMemcpyDtoHAsync_v2(&got, mine.data, sizeof got, mine.stream));
        CHECK(cuStreamSynchronize(mine.stream));
        if (got != mine.want)
            atomic_store(&wrong, true);
        atomic_fetch_add(&rounds, 1);
    }
    return NULL;
}

static pthread_t worker;

static void join_worker(void)
{
    atomic_store(&stop, true);
    pthread_join(worker, NULL);
    printf("worker: %s\n", wrong ? "WRONG" : "right");
    fflush(stdout);
    _exit(wrong);
}

/* The process ends beside a thread that launches, and an exit handler waits for that thread. */
static int exit_beside(int n)
{
    atexit(join_worker); /* before CUDA comes: it runs when the library has ended */
    start();
    REQUIRE(!pthread_create(&worker, NULL, work, NULL));
    while (atomic_load(&rounds) < n)
        sched_yield();
    exit(0);
}

/* Streams end with launches under way, beside a thread that launches. */
static int destroys(int n)
{
    pthread_t thread;
    start();
    CHECK(cuStreamDestroy_v2(line.stream));
    REQUIRE(!pthread_create(&thread, NULL, work, NULL));
    int bad = 0;
    for (int i = 0; i < n; i++) {
        struct line l;
        open_line(&l);
        steps(&l, 20, 9);
        CHECK(cuStreamDestroy_v2(l.stream));
        CHECK(cuCtxSynchronize());
        bad += ag_prog_read64(l.data) != l.want;
        CHECK(cuMemFree_v2(l.data));
    }
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
    printf("streams with a wrong value: %d, worker: %s\n", bad, wrong ? "WRONG" : "right");
    return bad || wrong;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(int n);
    } cases[] = {
        {"ahead", ahead},
        {"too-long", too_long},
        {"patient", patient},
        {"rests", rests},
        {"exit-handler", exit_handler},
        {"forks", forks},
        {"graphs-refused", graphs_refused},
        {"told-by-launch", told_by_launch},
        {"told-alone", told_alone},
        {"build-behind", build_behind},
        {"query-with-lock", query_with_lock},
        {"tied", tied},
        {"in-turn", in_turn},
        {"seen-by-other", seen_by_other},
        {"many", many},
        {"singles", singles},
        {"slow-singles", slow_singles},
        {"slower-singles", slower_singles},
        {"measured-singles", measured_singles},
        {"stuck", stuck},
        {"behind", behind},
        {"beside", beside},
        {"behind-steps", behind_steps},
        {"adds", adds},
        {"patience", patience},
        {"patience-new", patience_new},
        {"patience-known", patience_known},
        {"gate", gate},
        {"slower-gpu", slower_gpu},
        {"gpu-of-64", gpu_of_64},
        {"exit-far", exit_far},
        {"stuck-call", stuck_call},
        {"stuck-exit", stuck_exit},
        {"exit-at-fault", exit_at_fault},
        {"exit-asked", exit_asked},
        {"no-context", no_context},
        {"host-function-fills", host_function_fills},
        {"stuck-nth", stuck_nth},
        {"stuck-always", stuck_always},
        {"destroys", destroys},
        {"exit-beside", exit_beside},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (argc == 3 && !strcmp(argv[1], cases[i].name))
            return cases[i].run(atoi(argv[2]));
    fprintf(stderr, "usage: submit CASE N\n");
    return 2;
}
