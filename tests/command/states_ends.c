/*
 * states_ends.c - cases of states.c: the process or a thread ends, threads of the library,
 * captures, launch attributes.
 */
#define _GNU_SOURCE
#include "tests/command/states.h"
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- ends ---------------------------------------------------------------------------------------
 */

enum { MANY = 256 };

static CUstream many[MANY];
static CUdeviceptr many_data[MANY];
static _Atomic bool stop, wrong;
static pthread_t worker;

/* Each round is a step whose result is looked at. */
static void *work(void *unused)
{
    (void)unused;
    CHECK(cuCtxSetCurrent(home));
    while (!atomic_load(&stop)) {
        uint64_t got;
        step();
        CHECK(cuMemcpyDtoHAsync_v2(&got, data, sizeof got, stream));
        CHECK(cuStreamSynchronize(stream));
        if (got != want)
            atomic_store(&wrong, true);
        atomic_fetch_add(&rounds, 1);
    }
    return NULL;
}

static void await_rounds(int n)
{
    int before = atomic_load(&rounds);
    while (atomic_load(&rounds) < before + n && !atomic_load(&wrong))
        sched_yield();
}

/* Many streams, each with the beginning of a known step held back, and a thread that works on one
 * more, which is older than they. */
static void many_streams(void)
{
    for (int i = 0; i < MANY; i++) {
        CHECK(cuStreamCreate(&many[i], CU_STREAM_NON_BLOCKING));
        many_data[i] = ag_prog_alloc(8);
    }
    CHECK(cuCtxSynchronize());
    for (int round = 0; round < 6; round++)
        for (int i = 0; i < MANY; i++) {
            for (uint64_t k = 0; k < STEP; k++)
                CHECK(launch(many[i], many_data[i], k));
            CHECK(cuStreamSynchronize(many[i]));
        }
    REQUIRE(!pthread_create(&worker, NULL, work, NULL));
    await_rounds(10);
    for (int i = 0; i < MANY; i++)
        for (uint64_t k = 0; k < STEP - 1; k++)
            CHECK(launch(many[i], many_data[i], k));
}

/* As a static thread pool does, whose handler was registered before CUDA came. */
static void join_worker(void)
{
    await_rounds(3);
    atomic_store(&stop, true);
    pthread_join(worker, NULL);
    printf("worker: %s\n", wrong ? "WRONG" : "right");
    fflush(stdout);
    _exit(wrong);
}

int exit_beside_worker(int n)
{
    (void)n;
    atexit(join_worker);
    start();
    hash = ag_prog_function(module, "hash");
    many_streams();
    exit(0);
}

/* The context of another device is lost with work held back everywhere. */
int dead_beside_worker(int n)
{
    CUcontext lost;
    CUdeviceptr x;
    CUstream s;
    (void)n;
    start();
    CHECK(cuDevicePrimaryCtxRetain(&lost, 1));
    CHECK(cuCtxSetCurrent(lost));
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    x = ag_prog_alloc(64);
    CHECK(cuMemsetD8Async(x, 1, 8, s));
    CHECK(cuCtxSetCurrent(home));
    many_streams();
    CHECK(cuCtxSetCurrent(lost));
    cuSimFail("cuMemsetD8Async", 1, CUDA_ERROR_LAUNCH_FAILED);
    EXPECT(cuMemsetD8Async(x, 2, 64, s), CUDA_ERROR_LAUNCH_FAILED);
    join_worker();
    return 0;
}

static void end_process(int signal)
{
    (void)signal;
    puts("the handler ends the process");
    exit(0);
}

static atomic_int until_signal = -1;

/* A kernel of this program, which runs in the call that submits it (SIMCUDA_MODE=inline). */
static void signals(const struct cuSimLaunch *l)
{
    (void)l;
    if (atomic_fetch_sub(&until_signal, 1) == 0)
        raise(SIGTERM);
}

/* The process ends in a handler that has interrupted a call that submits work, N kernels on. */
int exit_in_handler(int n)
{
    size_t size = 8;
    REQUIRE(!cuSimRegisterKernel("signals", signals, 1, NULL, &size, 0));
    signal(SIGTERM, end_process);
    start();
    CUfunction f = ag_prog_function(module, "signals");
    atomic_store(&until_signal, n);
    for (int i = 0; i <= n; i++) {
        launches(0, STEP / 2);
        CHECK(ag_prog_launch(f, stream, (void *[]){&data}));
        launches(STEP / 2, STEP);
        CHECK(cuStreamSynchronize(stream));
    }
    puts("no signal came");
    return 1;
}

/* In one that has interrupted the program itself, with work held back. */
int exit_in_handler_between(int n)
{
    signal(SIGTERM, end_process);
    start();
    steps(n);
    launches(0, STEP / 2);
    raise(SIGTERM);
    return 1;
}

static _Atomic bool signals_before_driver;

/* The library calls this with a stream's lock taken, and outside the driver. */
__attribute__((visibility("default"))) int pthread_setcancelstate(int state, int *before)
{
    static int (*real)(int, int *);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "pthread_setcancelstate");
    if (atomic_exchange(&signals_before_driver, false))
        raise(SIGTERM);
    return real(state, before);
}

/* In one that has interrupted the library on its way to the driver. */
int exit_in_handler_locked(int n)
{
    signal(SIGTERM, end_process);
    start();
    steps(n);
    launches(0, STEP / 2);
    atomic_store(&signals_before_driver, true);
    CHECK(cuStreamSynchronize(stream));
    raise(SIGTERM); /* without the library */
    return 1;
}

/* In one with a stack of so many bytes, below which nobody may write. */
int exit_on_alternate_stack(int bytes)
{
    enum { GUARD = 65536 };
    char *memory = mmap(NULL, GUARD + (size_t)bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t stack = {.ss_sp = memory + GUARD, .ss_size = (size_t)bytes};
    struct sigaction action = {.sa_handler = end_process, .sa_flags = SA_ONSTACK};
    REQUIRE(memory != MAP_FAILED && !mprotect(stack.ss_sp, stack.ss_size, PROT_READ | PROT_WRITE));
    REQUIRE(!sigaltstack(&stack, NULL) && !sigaction(SIGTERM, &action, NULL));
    start();
    steps(100);
    launches(0, STEP / 2);
    raise(SIGTERM);
    return 1;
}

/* All threads of the program block what it waits for, so the process does not end by it. */
int signals_are_awaited(int n)
{
    static const int sent[] = {SIGTERM, SIGABRT, SIGUSR1};
    sigset_t all, one;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    start();
    steps(n);
    for (size_t i = 0; i < sizeof sent / sizeof *sent; i++) {
        int got = 0;
        sigemptyset(&one);
        sigaddset(&one, sent[i]);
        REQUIRE(!kill(getpid(), sent[i]));
        usleep(20000); /* it is busy when the signal comes */
        REQUIRE(!sigwait(&one, &got));
        printf("signal %d: %s\n", sent[i], got == sent[i] ? "seen" : "WRONG");
    }
    return print_value();
}

/* ---- cancellation ------------------------------------------------------------------------------
 */

/* Ends at the calls of the driver that look for that, if the library let them, or behind a step. */
static void *cancelled(void *unused)
{
    (void)unused;
    CHECK(cuCtxSetCurrent(home));
    for (;;) {
        launches(0, STEP);
        atomic_fetch_add(&rounds, 1);
        pthread_testcancel();
    }
    return NULL;
}

/* Threads are cancelled in the middle of launches (SIMCUDA_SLOW_US: in those of graphs). */
int cancel(int n)
{
    start();
    steps(10);
    for (int i = 0; i < n; i++) {
        pthread_t thread;
        REQUIRE(!pthread_create(&thread, NULL, cancelled, NULL));
        await_rounds(3);
        pthread_cancel(thread);
        pthread_join(thread, NULL);
        step();
    }
    return print_value();
}

/* Makes the process's first calls, none of which looks whether a thread has been cancelled. */
static void *starts_cancelled(void *unused)
{
    (void)unused;
    CHECK(cuInit(0));
    pthread_cancel(pthread_self());
    ag_prog_start();
    CUfunction f = ag_prog_function(ag_prog_module(), "hash");
    CHECK(ag_prog_hash(f, NULL, ag_prog_alloc(8), 1));
    puts("behind the first calls");
    pthread_testcancel();
    return NULL;
}

int cancelled_at_start(int n)
{
    pthread_t thread;
    REQUIRE(!pthread_create(&thread, NULL, starts_cancelled, NULL));
    pthread_join(thread, NULL);
    start();
    steps(n);
    return print_value();
}

static void *exits_cancelled(void *unused)
{
    (void)unused;
    CHECK(cuCtxSetCurrent(home));
    int bad = print_value();
    fflush(stdout); /* else exit() writes, and looks whether the thread has been cancelled */
    pthread_cancel(pthread_self());
    exit(bad);
}

/* The main thread waits for ever. */
int cancelled_at_exit(int n)
{
    pthread_t thread;
    start();
    steps(n);
    REQUIRE(!pthread_create(&thread, NULL, exits_cancelled, NULL));
    pthread_join(thread, NULL);
    for (;;)
        pause();
}

/* ---- threads of the library
 * ----------------------------------------------------------------------
 */

static int denied_from = -1, made;
static int claimed_policy = -1;

static void describe(const char *name, const pthread_attr_t *a)
{
    int inherits = -1, policy = -1;
    cpu_set_t set;
    CPU_ZERO(&set);
    if (a) {
        pthread_attr_getinheritsched(a, &inherits);
        pthread_attr_getschedpolicy(a, &policy);
        pthread_attr_getaffinity_np(a, sizeof set, &set);
    }
    printf("%s: %s, %s, %d processors\n", name,
           inherits == PTHREAD_EXPLICIT_SCHED ? "class of its own" : "inherits",
           policy == SCHED_OTHER ? "ordinary" : "other", CPU_COUNT(&set));
}

/* Hears of the library's threads: their functions lie in it. */
__attribute__((visibility("default"))) int pthread_create(pthread_t *thread,
                                                          const pthread_attr_t *attributes,
                                                          void *(*run)(void *), void *data_of_it)
{
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    Dl_info from;
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    if (denied_from >= 0 && dladdr(*(void **)&run, &from) && from.dli_fname &&
        strstr(from.dli_fname, "libautograph")) {
        if (made++ >= denied_from)
            return EAGAIN;
        describe("a thread", attributes);
    }
    return real(thread, attributes, run, data_of_it);
}

__attribute__((visibility("default"))) int sched_getscheduler(pid_t pid)
{
    static int (*real)(pid_t);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "sched_getscheduler");
    return claimed_policy >= 0 ? claimed_policy : real(pid);
}

/* A program that looks at mapped memory, behind launches of a known step, without any call. */
static int look_without_calls(void)
{
    start();
    publish = ag_prog_function(module, "publish");
    CHECK(cuMemHostAlloc((void **)&flag, sizeof *flag, CU_MEMHOSTALLOC_DEVICEMAP));
    *flag = 0;
    for (unsigned int i = 1; i < 50; i++) {
        releasing_step(i, STEP);
        CHECK(cuStreamSynchronize(stream));
    }
    releasing_step(100, STEP - 5);
    while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) != 100)
        sched_yield();
    puts("seen");
    return print_value();
}

/* No thread can be started once the library has n of its own. */
int no_threads(int n)
{
    denied_from = n;
    return look_without_calls();
}

/* The same for steps, and how often the library tried. */
int refused_threads(int n)
{
    denied_from = n;
    start();
    steps(400);
    printf("threads asked for: %d\n", made);
    return print_value();
}

/* What the library asks for its threads, where this one gives itself one processor. */
int own_threads(int n)
{
    cpu_set_t one;
    denied_from = 100;
    start();
    REQUIRE(!sched_getaffinity(0, sizeof one, &one));
    printf("processors: %d\n", CPU_COUNT(&one));
    for (int i = 0, kept = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &one) && kept++)
            CPU_CLR(i, &one);
    REQUIRE(!sched_setaffinity(0, sizeof one, &one));
    steps(n);
    return print_value();
}

/* A thread that says it is a real-time one, with one processor for all (taskset). */
int starving(int n)
{
    claimed_policy = SCHED_FIFO;
    (void)n;
    return look_without_calls();
}

/* ---- observing, asked for during a capture
 * -------------------------------------------------------
 */

int table_in_capture(int n)
{
    static const CUuuid unknown = {
        .bytes = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}};
    const void *answer = NULL;
    CUstream captures;
    CUgraph graph;
    start();
    CHECK(cuStreamCreate(&captures, CU_STREAM_NON_BLOCKING));
    steps(n);
    CHECK(cuStreamBeginCapture_v2(captures, CU_STREAM_CAPTURE_MODE_RELAXED));
    printf("table: %d\n", (int)cuGetExportTable(&answer, &unknown));
    CHECK(cuStreamEndCapture(captures, &graph));
    uint64_t before = cuSimCallCount("cuGraphLaunch");
    steps(n);
    printf("graphs launched behind it: %d\n", (int)(cuSimCallCount("cuGraphLaunch") - before));
    return print_value();
}

/* Launches are held back in one stream when a capture begins in another; then the calls that wait
 * for them. */
int held_at_capture(int n)
{
    CUstream captures;
    CUgraph graph;
    int late = 0;
    start();
    CHECK(cuStreamCreate(&captures, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemHostAlloc((void **)&flag, sizeof *flag, CU_MEMHOSTALLOC_DEVICEMAP));
    publish = ag_prog_function(module, "publish");
    *flag = 0;
    for (int i = 1; i <= 30 + n; i++) {
        uint64_t cut = (uint64_t)i / 3 % STEP; /* behind each launch in turn */
        publish_word((unsigned int)i);
        launches(0, cut);
        if (i > 30 && i % 3 == 0) {
            CHECK(cuStreamBeginCapture_v2(captures, CU_STREAM_CAPTURE_MODE_RELAXED));
            CHECK(cuStreamSynchronize(stream));
            late += *(volatile unsigned int *)flag != (unsigned int)i;
            CHECK(cuStreamEndCapture(captures, &graph));
            CHECK(cuGraphDestroy(graph));
        }
        launches(cut, STEP);
        CHECK(cuStreamSynchronize(stream));
    }
    printf("late: %d\n", late);
    return print_value();
}

/* ---- launch attributes on the stack
 * --------------------------------------------------------------- */

static uint64_t seed = 88172645463325252u;

/* What happened to be on the stack. */
static void litter(void *p, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        ((unsigned char *)p)[i] = (unsigned char)seed;
    }
}

static void attributed_launch(uint64_t k)
{
    CUlaunchAttribute a[3];
    litter(a, sizeof a);
    a[0].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    a[0].value.programmaticStreamSerializationAllowed = 0;
    a[1].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    a[1].value.clusterDim.x = a[1].value.clusterDim.y = a[1].value.clusterDim.z = 1;
    a[2].id = CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN;
    a[2].value.memSyncDomain = CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT;
    CUlaunchConfig config = {.gridDimX = 1 + (unsigned int)k,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 1,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .hStream = stream,
                             .attrs = a,
                             .numAttrs = 1 + (unsigned int)k % 3};
    CHECK(cuLaunchKernelEx(&config, hash, (void *[]){&data, &k}, NULL));
    want = want * 31 + k;
}

int attributes(int n)
{
    start();
    for (int i = 0; i < n; i++) {
        for (uint64_t k = 0; k < STEP; k++)
            attributed_launch(k);
        CHECK(cuStreamSynchronize(stream));
    }
    return print_value();
}

/* ---- a host function that has not returned, at any time ----------------------------------------
 */

static _Atomic uint64_t launched_steps;

static void CUDA_CB await_next_step(void *step)
{
    while (atomic_load(&launched_steps) <= (uint64_t)(uintptr_t)step)
        sched_yield();
}

int always_a_host_function(int n)
{
    start();
    for (int i = 0; i < n; i++) {
        launches(0, STEP);
        CHECK(cuLaunchHostFunc(stream, await_next_step, (void *)(uintptr_t)i));
        atomic_store(&launched_steps, (uint64_t)i);
    }
    atomic_store(&launched_steps, (uint64_t)n);
    return print_value();
}

/* Cooperative launches alone, by the call of their own; now and then one that the driver refuses.
 */
int cooperative(int n)
{
    start();
    for (int i = 0; i < n; i++) {
        for (uint64_t k = 0; k < STEP; k++) {
            CHECK(cuLaunchCooperativeKernel(hash, 1 + (unsigned int)k, 1, 1, 1, 1, 1, 0, stream,
                                            (void *[]){&data, &k}));
            want = want * 31 + k;
        }
        uint64_t k = STEP;
        if (i % 50 == 49)
            EXPECT(cuLaunchCooperativeKernel(hash, 1u << 20, 1, 1, 1, 1, 1, 0, stream,
                                             (void *[]){&data, &k}),
                   CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
        CHECK(cuStreamSynchronize(stream));
    }
    return print_value();
}
