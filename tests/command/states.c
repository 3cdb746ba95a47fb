/*
 * states.c - programs in which launches are refused, wait, or must not be held back; `states CASE
 * [N]`.
 *
 * Each prints what must be the same with the library and without, but for `sticky`, `threads`,
 * `refused-threads` and `starving`, which tell what the library does.
 */
#define _GNU_SOURCE
#include "tests/command/states.h"
#include <limits.h>
#include <pthread.h>

CUcontext home;
CUmodule module;
CUfunction hash;
CUstream stream;
atomic_int rounds; /* of another thread */
CUdeviceptr data;
uint64_t want;

void start(void)
{
    home = ag_prog_start();
    module = ag_prog_module();
    hash = ag_prog_function(module, "hash");
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    data = ag_prog_alloc(8);
    CHECK(cuCtxSynchronize()); /* the fill is the legacy stream's, which orders nothing here */
}

CUresult launch(CUstream s, CUdeviceptr x, uint64_t k)
{
    return cuLaunchKernel(hash, 1 + (unsigned int)k, 1, 1, 1, 1, 1, 0, s, (void *[]){&x, &k}, NULL);
}

/* Launches number `from` to `to` of a step; they look unlike each other. */
void launches(uint64_t from, uint64_t to)
{
    for (uint64_t k = from; k < to; k++) {
        CHECK(launch(stream, data, k));
        want = want * 31 + k;
    }
}

void step(void)
{
    launches(0, STEP);
    CHECK(cuStreamSynchronize(stream));
}

void steps(int n)
{
    for (int i = 0; i < n; i++)
        step();
}

int print_value(void)
{
    CHECK(cuStreamSynchronize(stream));
    bool right = ag_prog_read64(data) == want;
    printf("value %s\n", right ? "right" : "WRONG");
    return !right;
}

uint64_t submissions(void)
{
    return cuSimCallCount("cuLaunchKernel") + cuSimCallCount("cuGraphLaunch") +
           cuSimCallCount("cuEventRecord");
}

/* ---- refused launches --------------------------------------------------------------------- */

static int told;
static CUresult refusal;
static uint64_t submitted;

static void ask(CUresult r)
{
    if (r == refusal && r != CUDA_SUCCESS)
        told++;
    else
        CHECK(r);
}

/* The next launch is refused, whether it goes by itself or as a graph. */
static void refuse_next(CUresult error)
{
    refusal = error;
    cuSimFail("cuLaunchKernel", 1, error);
    cuSimFail("cuGraphLaunch", 1, error);
}

/* A launch of a known step is refused, and the next call is one that may submit it, but not tell.
 */
static int untold(void (*quiet)(void))
{
    start();
    steps(30);
    submitted = submissions();
    refuse_next(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES); /* nobody tries that again */
    ask(launch(stream, data, 0));
    quiet();
    ask(cuStreamSynchronize(stream));
    ask(cuStreamQuery(stream));
    ask(cuCtxSynchronize());
    printf("told %d time(s)\n", told);
    return print_value();
}

static void allocate(void)
{
    CUdeviceptr p;
    ask(cuMemAlloc_v2(&p, 8));
}

static void allocate_in_order(void)
{
    CUdeviceptr p;
    ask(cuMemAllocAsync(&p, 8, stream));
}

static void copy_2d(void)
{
    static uint64_t to;
    CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = data,
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = &to,
                          .WidthInBytes = 8,
                          .Height = 1};
    ask(cuMemcpy2D_v2(&copy));
}

static void query_event(void)
{
    CUevent event;
    ask(cuEventCreate(&event, 0));
    ask(cuEventQuery(event));
}

/* Until somebody submits what has been held back for too long. */
static void wait_for_submission(void)
{
    while (submissions() == submitted)
        sched_yield();
}

static int untold_alloc(int n)
{
    (void)n;
    return untold(allocate);
}

static int untold_alloc_async(int n)
{
    (void)n;
    return untold(allocate_in_order);
}

static int untold_copy(int n)
{
    (void)n;
    return untold(copy_2d);
}

static int untold_event(int n)
{
    (void)n;
    return untold(query_event);
}

static int untold_watchdog(int n)
{
    (void)n;
    return untold(wait_for_submission);
}

/* Lack of memory passes: a launch that was refused once, before it was known and afterwards, goes
 * through. */
static int transient(int n)
{
    start();
    for (int i = 0; i < 3; i++) {
        /* Every call: where graphs can be given back, the library calls again. */
        refusal = CUDA_ERROR_OUT_OF_MEMORY;
        cuSimFail("cuLaunchKernel", 0, CUDA_ERROR_OUT_OF_MEMORY);
        cuSimFail("cuGraphLaunch", 0, CUDA_ERROR_OUT_OF_MEMORY);
        ask(launch(stream, data, 0));
        ask(cuStreamSynchronize(stream));
        cuSimFail("cuLaunchKernel", 0, CUDA_SUCCESS);
        cuSimFail("cuGraphLaunch", 0, CUDA_SUCCESS);
        steps(n);
    }
    printf("told %d time(s)\n", told);
    return print_value();
}

/* ---- errors that end a context ------------------------------------------------------------- */

/* Steps that are known, and whether they went as graphs. */
static const char *replays(void)
{
    uint64_t before = cuSimCallCount("cuGraphLaunch");
    steps(10);
    return cuSimCallCount("cuGraphLaunch") - before > 5   ? "replayed"
           : cuSimCallCount("cuGraphLaunch") - before > 0 ? "hardly replayed"
                                                          : "eager";
}

/* A launch in another context ends in each of these errors (in this program the context itself
 * stays whole). */
static int sticky(int n)
{
    static const int codes[] = {1,   214, 220, 226, 700, 702, 710, 714, 715, 716, 717,
                                718, 719, 721, 805, 806, 807, 808, 809, 810, 911, 999};
    (void)n;
    start();
    steps(20);
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        CUcontext broken, other;
        CHECK(cuCtxCreate_v2(&other, 0, 0));
        CUfunction f = ag_prog_function(ag_prog_module(), "hash");
        CHECK(ag_prog_hash(f, NULL, ag_prog_alloc(8), 1));
        CHECK(cuCtxPopCurrent_v2(NULL));
        CHECK(cuCtxCreate_v2(&broken, 0, 0));
        f = ag_prog_function(ag_prog_module(), "hash");
        CUdeviceptr x = ag_prog_alloc(8);
        cuSimFail("cuLaunchKernel", 1, codes[i]);
        EXPECT(ag_prog_hash(f, NULL, x, 1), codes[i]);
        CHECK(cuCtxPopCurrent_v2(NULL));
        printf("%d: %s", codes[i], replays());
        CHECK(cuCtxDestroy_v2(other));
        printf(", %s", replays());
        CHECK(cuCtxDestroy_v2(broken));
        printf(", %s\n", replays());
    }
    return print_value();
}

/* An error that ends a context is met while another one is current. */
static int sticky_elsewhere(int n)
{
    CUcontext broken;
    CUstream there;
    start();
    steps(20);
    for (int i = 0; i < n; i++) {
        CHECK(cuCtxCreate_v2(&broken, 0, 1));
        int error = CUDA_ERROR_ILLEGAL_ADDRESS;
        CUfunction f = ag_prog_function(ag_prog_module(), "hash");
        CUfunction trap = ag_prog_function(ag_prog_module(), "trap");
        CHECK(cuStreamCreate(&there, CU_STREAM_NON_BLOCKING));
        CUdeviceptr x = ag_prog_alloc(8);
        CHECK(cuCtxSynchronize()); /* the fill of it is in the legacy stream */
        CHECK(ag_prog_hash(f, there, x, 1));
        CHECK(ag_prog_launch(trap, there, (void *[]){&error}));
        CHECK(cuCtxPopCurrent_v2(NULL));
        EXPECT(cuStreamSynchronize(there), error);
        CHECK(cuCtxDestroy_v2(broken));
        steps(100);
    }
    return print_value();
}

/* ---- full queues (SIMCUDA_QUEUE) --------------------------------------------------------------
 */

enum { QUEUE = 32, REST = 2 };

static CUstream ahead; /* runs ahead, until its queue is full */
static CUdeviceptr ahead_data;
unsigned int *flag;
CUfunction poll_word, publish;
static _Atomic bool polls;
static bool leaves_rest; /* the last launches begin a step, with no call behind them */
static _Atomic uint64_t calls_before;

static void *run_ahead(void *unused)
{
    unsigned int value = 1;
    void *none = NULL;
    (void)unused;
    CHECK(cuCtxSetCurrent(home));
    for (int i = 0; i < 30; i++) {
        for (uint64_t k = 0; k < STEP; k++)
            CHECK(launch(ahead, ahead_data, k));
        CHECK(cuStreamSynchronize(ahead));
    }
    atomic_store(&calls_before, submissions());
    CHECK(ag_prog_launch(poll_word, ahead, (void *[]){&flag, &value, &none}));
    EXPECT(cuStreamQuery(ahead), CUDA_ERROR_NOT_READY);
    atomic_store(&polls, true);
    if (leaves_rest) { /* eagerly in this thread, with the library by the watchdog's */
        while (submissions() - atomic_load(&calls_before) < QUEUE)
            CHECK(ag_prog_launch(poll_word, ahead, (void *[]){&flag, &value, &none}));
        EXPECT(cuStreamQuery(ahead), CUDA_ERROR_NOT_READY); /* a step begins */
        for (uint64_t k = 0; k < REST; k++)
            CHECK(launch(ahead, ahead_data, k));
        return NULL;
    }
    for (int i = 0; i < 2 * QUEUE; i++) {
        for (uint64_t k = 0; k < STEP; k++)
            CHECK(launch(ahead, ahead_data, k));
        cuStreamQuery(ahead);
    }
    CHECK(cuStreamSynchronize(ahead));
    return NULL;
}

void publish_word(unsigned int value)
{
    CHECK(ag_prog_launch(publish, stream, (void *[]){&flag, &value}));
}

/* Lets the other thread go in the middle of the step. */
void releasing_step(unsigned int value, uint64_t to)
{
    launches(0, STEP / 2);
    publish_word(value);
    launches(STEP / 2, to);
}

/* Until the other thread is in a call that waits for room: it has made one more than there is room
 * for, behind work that does not end. Returns with that thread still there. */
static pthread_t fill_queue(bool ahead_first)
{
    pthread_t thread;
    start();
    CHECK(cuStreamDestroy_v2(stream));
    poll_word = ag_prog_function(module, "poll");
    publish = ag_prog_function(module, "publish");
    ahead_data = ag_prog_alloc(8);
    CHECK(cuMemHostAlloc((void **)&flag, sizeof *flag, CU_MEMHOSTALLOC_DEVICEMAP));
    *flag = 0;
    CHECK(cuCtxSynchronize());
    if (ahead_first)
        CHECK(cuStreamCreate(&ahead, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    if (!ahead_first)
        CHECK(cuStreamCreate(&ahead, CU_STREAM_NON_BLOCKING));
    for (unsigned int i = 0; i < 30; i++) {
        releasing_step(0, STEP);
        CHECK(cuStreamSynchronize(stream));
    }
    REQUIRE(!pthread_create(&thread, NULL, run_ahead, NULL));
    while (!atomic_load(&polls) || submissions() - atomic_load(&calls_before) <= QUEUE)
        sched_yield();
    return thread;
}

static void do_nothing(void)
{
}

static void look_at_event(void)
{
    CUevent event;
    CHECK(cuEventCreate(&event, 0));
    CHECK(cuEventQuery(event));
    CHECK(cuEventSynchronize(event));
    CHECK(cuEventDestroy_v2(event));
}

static void read_back(void)
{
    uint64_t got;
    CHECK(cuMemcpyDtoHAsync_v2(&got, data, sizeof got, stream));
    CHECK(cuStreamSynchronize(stream));
    printf("read %s\n", got == want ? "right" : "WRONG");
}

static void query_other(void)
{
    printf("the other's stream: %d\n", (int)cuStreamQuery(ahead));
}

/* More signatures than the library keeps (AUTOGRAPH_MEMORY_MB=1). */
static void many_signatures(void)
{
    CUstream s;
    CUdeviceptr x;
    CHECK(cuMemAlloc_v2(&x, 8));
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    for (uint64_t k = 0; k < 3000; k++)
        CHECK(launch(s, x, 100 + k));
    puts("launched");
}

/* On a driver that does not wait in them. */
static void load_and_instantiate(void)
{
    CUmodule m;
    CUlibrary library;
    CUgraph graph;
    CUgraphExec exec;
    CHECK(cuModuleLoadData(&m, SIMCUDA_IMAGE_MAGIC));
    CHECK(cuLibraryLoadData(&library, SIMCUDA_IMAGE_MAGIC, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
}

static void leave(void)
{
    puts("main leaves");
    exit(0);
}

static void another_stream(void)
{
    CUstream s;
    CUdeviceptr x;
    CHECK(cuMemAlloc_v2(&x, 8));
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    CHECK(launch(s, x, 1));
    CHECK(cuStreamSynchronize(s));
    CHECK(cuStreamDestroy_v2(s));
}

/* They are ordered with blocking streams alone. */
static void fill_and_copy(void)
{
    uint64_t got = 1;
    CUdeviceptr x;
    CHECK(cuMemAlloc_v2(&x, 8));
    CHECK(cuMemsetD8_v2(x, 0, 8));
    CHECK(cuMemcpyDtoH_v2(&got, x, 8));
    CHECK(cuMemcpyHtoD_v2(x, &got, 8));
    CUevent event;
    CHECK(cuEventCreate(&event, 0));
    CHECK(cuEventRecord(event, NULL));
    CHECK(cuStreamSynchronize(NULL));
    printf("filled with %d\n", (int)got);
}

/* `how`: the call that is made while the other thread waits; its lowest bit, which of the two
 * streams came first. */
static int full(int how)
{
    static void (*const calls[])(void) = {
        do_nothing,     allocate,      look_at_event, read_back,       query_other,
        another_stream, fill_and_copy, leave,         many_signatures, load_and_instantiate};
    pthread_t thread = fill_queue(how & 1);
    calls[how / 2 % (int)(sizeof calls / sizeof *calls)]();
    releasing_step(1, how & 1 ? STEP : STEP - 5);
    /* what follows waits for the other thread by other means than CUDA */
    pthread_join(thread, NULL);
    uint64_t x = 0;
    for (int i = 0; i < 30 + 2 * QUEUE; i++)
        for (uint64_t k = 0; k < STEP; k++)
            x = x * 31 + k;
    printf("ahead %s\n", ag_prog_read64(ahead_data) == x ? "right" : "WRONG");
    return print_value();
}

/* The beginning of a step is held back where there is no room for it, by a thread that goes on.
 * What another stream holds back behind it makes room. */
static int full_of_rest(int how)
{
    leaves_rest = true;
    pthread_t thread = fill_queue(how & 1);
    releasing_step(1, STEP - 5);
    pthread_join(thread, NULL);
    uint64_t x = 0;
    for (int i = 0; i < 30; i++)
        for (uint64_t k = 0; k < STEP; k++)
            x = x * 31 + k;
    for (uint64_t k = 0; k < REST; k++)
        x = x * 31 + k;
    CHECK(cuStreamSynchronize(ahead));
    printf("ahead %s\n", ag_prog_read64(ahead_data) == x ? "right" : "WRONG");
    return print_value();
}

/* ---- what another thread holds back -----------------------------------------------------------
 */

static _Atomic unsigned int launched_value;
static CUstream asked_stream;

/* Asks for the stream of the thread that launches, or one behind it, and looks at memory once there
 * is nothing left to do. */
static void *ask_for_stream(void *early)
{
    unsigned int seen = 0;
    CHECK(cuCtxSetCurrent(home));
    while (seen != UINT_MAX) {
        unsigned int value = atomic_load(&launched_value);
        if (value == seen) {
            sched_yield();
            continue;
        }
        seen = value;
        if (value == UINT_MAX)
            break;
        CUresult r;
        while ((r = cuStreamQuery(asked_stream)) == CUDA_ERROR_NOT_READY)
            sched_yield();
        CHECK(r);
        *(int *)early += __atomic_load_n(flag, __ATOMIC_ACQUIRE) != value;
        atomic_fetch_add(&rounds, 1);
    }
    return NULL;
}

static int query_of_launches(int n)
{
    pthread_t thread;
    int early = 0;
    publish = ag_prog_function(module, "publish");
    CHECK(cuMemHostAlloc((void **)&flag, sizeof *flag, CU_MEMHOSTALLOC_DEVICEMAP));
    *flag = 0;
    for (int i = 0; i < 30; i++) {
        publish_word(0);
        step();
    }
    REQUIRE(!pthread_create(&thread, NULL, ask_for_stream, &early));
    for (int i = 1; i <= n; i++) {
        publish_word((unsigned int)i);
        launches(0, 1);
        atomic_store(&launched_value, (unsigned int)i);
        while (atomic_load(&rounds) < i)
            sched_yield();
        launches(1, STEP);
        CHECK(cuStreamSynchronize(stream));
    }
    atomic_store(&launched_value, UINT_MAX);
    pthread_join(thread, NULL);
    printf("queries that came too early: %d\n", early);
    return print_value();
}

static int query_of_other(int n)
{
    start();
    asked_stream = stream;
    return query_of_launches(n);
}

/* The legacy stream, to which nobody ever launches, has done its work once all blocking streams
 * have. */
static int query_of_legacy(int n)
{
    start();
    CHECK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    asked_stream = NULL;
    return query_of_launches(n);
}

/* ---- CUDA_LAUNCH_BLOCKING=1 --------------------------------------------------------------------
 */

static int blocking(int n)
{
    int late = 0;
    start();
    CHECK(cuMemAllocManaged(&data, 8, CU_MEM_ATTACH_GLOBAL));
    volatile uint64_t *word = (uint64_t *)(uintptr_t)data;
    *word = 0;
    for (int i = 0; i < n; i++) {
        for (uint64_t k = 0; k < 4; k++) {
            launches(k, k + 1);
            late += __atomic_load_n(word, __ATOMIC_ACQUIRE) != want;
        }
        CHECK(cuStreamSynchronize(stream));
    }
    printf("reads of the host that saw old data: %d\n", late);
    for (uint64_t k = 0; k < 4; k++)
        printf("launch %d: %d\n", (int)k, (int)launch(stream, k == 1 ? 16 : data, k));
    printf("sync: %d\n", (int)cuStreamSynchronize(stream));
    return 0;
}

/* ---- kernels that may launch kernels
 * -------------------------------------------------------------
 */

/* Each step has a kernel of a module that was linked with the device runtime. */
static int children(int n)
{
    CUmodule linked;
    CUfunction parent;
    start();
    CHECK(cuModuleLoadData(&linked,
                           SIMCUDA_IMAGE_MAGIC "kernel hash\nglobal __CNPRT_VERSION_NUMBER__ 4\n"));
    CHECK(cuModuleGetFunction(&parent, linked, "hash"));
    for (int i = 0; i < n; i++) {
        uint64_t k = (uint64_t)i;
        launches(0, 6);
        CHECK(cuLaunchKernel(parent, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&data, &k}, NULL));
        want = want * 31 + k;
        launches(6, 12);
        CHECK(cuStreamSynchronize(stream));
    }
    return print_value();
}

/* ---- CUDA_DEVICE_MAX_CONNECTIONS=1 -------------------------------------------------------------
 */

/* Streams that nothing orders but the launches, to the device as the program makes them. */
static int one_connection(int n)
{
    CUstream other;
    start();
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    const CUstream streams[] = {stream,           other, stream,
                                CU_STREAM_LEGACY, other, CU_STREAM_PER_THREAD};
    for (int i = 0; i < n; i++) {
        for (uint64_t k = 0; k < 6 * 6; k++) {
            CHECK(launch(streams[k / 6], data, k));
            want = want * 31 + k;
        }
        CHECK(cuCtxSynchronize());
    }
    return print_value();
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(int n);
    } cases[] = {
        {"untold-alloc", untold_alloc},
        {"untold-alloc-async", untold_alloc_async},
        {"untold-copy", untold_copy},
        {"untold-event", untold_event},
        {"untold-watchdog", untold_watchdog},
        {"transient", transient},
        {"sticky", sticky},
        {"sticky-elsewhere", sticky_elsewhere},
        {"full", full},
        {"full-of-rest", full_of_rest},
        {"query-of-other", query_of_other},
        {"query-of-legacy", query_of_legacy},
        {"blocking", blocking},
        {"children", children},
        {"one-connection", one_connection},
        {"exit", exit_beside_worker},
        {"dead", dead_beside_worker},
        {"exit-in-handler", exit_in_handler},
        {"exit-in-handler-between", exit_in_handler_between},
        {"exit-in-handler-locked", exit_in_handler_locked},
        {"exit-on-alternate-stack", exit_on_alternate_stack},
        {"signals-are-awaited", signals_are_awaited},
        {"cancel", cancel},
        {"cancelled-at-start", cancelled_at_start},
        {"cancelled-at-exit", cancelled_at_exit},
        {"no-threads", no_threads},
        {"own-threads", own_threads},
        {"starving", starving},
        {"refused-threads", refused_threads},
        {"table-in-capture", table_in_capture},
        {"held-at-capture", held_at_capture},
        {"attributes", attributes},
        {"cooperative", cooperative},
        {"host-functions", always_a_host_function},
        {"load-behind-publish", load_behind_publish},
        {"first-retain", first_retain},
        {"variable-in-step", variable_in_step},
        {"semaphore", semaphore},
        {"wait-behind-write", wait_behind_write},
        {"sticky-launches", sticky_launches},
        {"sticky-look", sticky_look},
        {"error-behind-error", error_behind_error},
        {"error-of-other-context", error_of_other_context},
        {"refused-in-other-context", refused_in_other_context},
        {"refused-in-named-context", refused_in_named_context},
        {"error-of-ended-context", error_of_ended_context},
        {"end-of-lost-context", end_of_lost_context},
        {"asked-for-lost-context", asked_for_lost_context},
        {"function-of-two-contexts", function_of_two_contexts},
        {"function-of-unknown-context", function_of_unknown_context},
        {"primary-beside-full-queue", primary_beside_full_queue},
        {"query-fails", query_fails},
        {"peers", peers},
        {"module-in-step", module_in_step},
        {"word-behind-launches", word_behind_launches},
        {"looks-beside-ends", looks_beside_ends},
        {"memory-beside-thread", memory_beside_thread},
        {"signatures-beside-wait", signatures_beside_wait},
        {"cancel-behind-build", cancel_behind_build},
        {"cancel-beside-wait", cancel_beside_wait},
        {"exit-beside-full-queue", exit_beside_full_queue},
        {"locked-for-checkpoint", locked_for_checkpoint},
        {"copy-between-devices", copy_between_devices},
        {"polls-anywhere", polls_anywhere},
        {"polls-beside-streams", polls_beside_streams},
        {"refused-attribute", refused_attribute},
        {"attribute-of-unloaded", attribute_of_unloaded},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (argc == 3 && !strcmp(argv[1], cases[i].name))
            return cases[i].run(atoi(argv[2]));
    fprintf(stderr, "usage: states CASE N\n");
    return 2;
}
