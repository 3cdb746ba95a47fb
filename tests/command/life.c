/*
 * life.c - contexts and streams that come and go beside threads that launch; `life CASE N`.
 *
 * Each prints what must be the same with the library and without. Threads wait for each other's
 * progress, so that launches lie between any two of the calls that end something, and the other way
 * round.
 */
#define _GNU_SOURCE
#include "tests/simdriver/simprog.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { STEP = 20 };

/* A stream with a word that all of its launches work on. */
struct work {
    CUcontext ctx;
    CUfunction hash;
    CUstream stream;
    CUdeviceptr x;
    uint64_t want;
};

static _Atomic bool stop;
static atomic_ulong launched; /* steps, of all launching threads */

/* In the current context, with a stream of its own where it is not given. */
static struct work make_work(CUstream stream)
{
    struct work w = {.stream = stream};
    CHECK(cuCtxGetCurrent(&w.ctx));
    w.hash = ag_prog_function(ag_prog_module(), "hash");
    w.x = ag_prog_alloc(8);
    CHECK(cuCtxSynchronize()); /* the fill is the legacy stream's, which orders nothing here */
    if (!stream)
        CHECK(cuStreamCreate(&w.stream, CU_STREAM_NON_BLOCKING));
    return w;
}

/* Launches number `from` to `to` of a step; they look unlike each other. */
static void launches(struct work *w, uint64_t from, uint64_t to)
{
    for (uint64_t k = from; k < to; k++) {
        CHECK(cuLaunchKernel(w->hash, 1 + (unsigned int)k, 1, 1, 1, 1, 1, 0, w->stream,
                             (void *[]){&w->x, &k}, NULL));
        w->want = w->want * 31 + k;
    }
}

static void step(struct work *w)
{
    launches(w, 0, STEP);
    CHECK(cuStreamSynchronize(w->stream));
}

static void steps(struct work *w, int n)
{
    for (int i = 0; i < n; i++)
        step(w);
}

static bool is_right(const struct work *w)
{
    CHECK(cuStreamSynchronize(w->stream));
    return ag_prog_read64(w->x) == w->want;
}

static int print(const char *what, bool right)
{
    printf("%s: %s\n", what, right ? "right" : "WRONG");
    return !right;
}

/* ---- threads that launch meanwhile ------------------------------------------------------- */

static void *launching(void *argument)
{
    struct work *w = argument;
    CHECK(cuCtxSetCurrent(w->ctx));
    while (!atomic_load(&stop)) {
        launches(w, 0, STEP);
        atomic_fetch_add(&launched, 1);
        CHECK(cuStreamSynchronize(w->stream));
    }
    return NULL;
}

/* Until launching threads have got on. */
static void let_launch(void)
{
    unsigned long before = atomic_load(&launched);
    while (atomic_load(&launched) == before)
        sched_yield();
}

enum { THREADS = 2 };

/* `act`, n times, beside threads that launch into the primary context of device 0 all the while. */
static int beside(void (*act)(void), int n, const char *what)
{
    struct work w[THREADS];
    pthread_t thread[THREADS];
    bool right = true;
    uint64_t graphs = 0; /* of the threads, while this one launches nothing */
    ag_prog_start();
    for (int i = 0; i < THREADS; i++) {
        w[i] = make_work(NULL);
        steps(&w[i], 8); /* a known step */
        REQUIRE(!pthread_create(&thread[i], NULL, launching, &w[i]));
    }
    for (int i = 0; i < n; i++) {
        act();
        uint64_t before = cuSimCallCount("cuGraphLaunch");
        let_launch();
        graphs += cuSimCallCount("cuGraphLaunch") - before;
    }
    atomic_store(&stop, true);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        right &= is_right(&w[i]);
    }
    if (cuSimCallCount("cuGraphLaunch")) /* with the library */
        REQUIRE(graphs > (uint64_t)n / 4);
    return print(what, right);
}

/* ---- the primary context ------------------------------------------------------------------ */

static void pair(void)
{
    CUcontext ctx;
    CHECK(cuDevicePrimaryCtxRetain(&ctx, 0));
    CHECK(cuDevicePrimaryCtxRelease_v2(0));
}

/* In the middle of each step. */
static int pairs(int n)
{
    ag_prog_start();
    struct work w = make_work(NULL);
    for (int i = 0; i < n; i++) {
        launches(&w, 0, STEP / 2);
        pair();
        launches(&w, STEP / 2, STEP);
        CHECK(cuStreamSynchronize(w.stream));
    }
    return print("pairs", is_right(&w));
}

static void *pairing(void *argument)
{
    (void)argument;
    while (!atomic_load(&stop))
        pair();
    return NULL;
}

static void nothing(void)
{
}

/* Of several threads, and none of them is the last. */
static int pairs_of_threads(int n)
{
    pthread_t thread[THREADS];
    CHECK(cuInit(0));
    CUcontext ctx;
    CHECK(cuDevicePrimaryCtxRetain(&ctx, 0));
    for (int i = 0; i < THREADS; i++)
        REQUIRE(!pthread_create(&thread[i], NULL, pairing, NULL));
    int result = beside(nothing, n, "pairs of threads");
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    return result;
}

/* Retained twice, released twice: the second ends it, with all that is in it. */
static int last_release(int n)
{
    bool right = true;
    for (int i = 0; i < 3; i++) {
        CUcontext ctx = ag_prog_start(), again;
        CHECK(cuDevicePrimaryCtxRetain(&again, 0));
        REQUIRE(again == ctx);
        struct work w = make_work(NULL);
        steps(&w, n);
        CHECK(cuDevicePrimaryCtxRelease_v2(0));
        steps(&w, n);
        right &= is_right(&w);
        launches(&w, 0, STEP / 2); /* in flight, or held back */
        CHECK(cuDevicePrimaryCtxRelease_v2(0));
        EXPECT(cuDevicePrimaryCtxRelease_v2(0), CUDA_ERROR_INVALID_CONTEXT);
        printf("streams alive: %d\n", (int)cuSimAlive("stream"));
    }
    return print("last release", right);
}

/* A context of device 1, in this thread. */
static void begin_of_device_1(CUcontext *before)
{
    CUcontext ctx;
    CHECK(cuCtxGetCurrent(before));
    CHECK(cuDevicePrimaryCtxRetain(&ctx, 1));
    CHECK(cuCtxSetCurrent(ctx));
}

static void reset_device_1(void)
{
    CUcontext before;
    begin_of_device_1(&before);
    struct work w = make_work(NULL);
    steps(&w, 3);
    REQUIRE(is_right(&w));
    launches(&w, 0, STEP / 2);
    CHECK(cuDevicePrimaryCtxReset_v2(1));
    CHECK(cuCtxSetCurrent(before));
}

static int resets(int n)
{
    return beside(reset_device_1, n, "reset of another device");
}

/* ---- other contexts ------------------------------------------------------------------------ */

static void other_context(void)
{
    CUcontext before, ctx;
    CHECK(cuCtxGetCurrent(&before));
    CHECK(cuCtxCreate_v2(&ctx, 0, 0));
    struct work w = make_work(NULL);
    steps(&w, 3);
    REQUIRE(is_right(&w));
    launches(&w, 0, STEP / 2);
    CHECK(cuCtxDestroy_v2(ctx));
    CHECK(cuCtxSetCurrent(before));
}

static int contexts(int n)
{
    return beside(other_context, n, "another context's end");
}

/* ---- a stream that is new while its context ends ------------------------------------------- */

struct newcomer {
    struct work work;
    uint32_t *word; /* what the end of the context waits for */
    uint64_t ends;  /* calls that end a context, before */
    int held_back;  /* launches that did not reach the driver at once */
};

static void *come_late(void *argument)
{
    struct newcomer *n = argument;
    CHECK(cuCtxSetCurrent(n->work.ctx));
    while (cuSimCallCount("cuCtxDestroy_v2") == n->ends)
        sched_yield();
    steps(&n->work, 20);
    REQUIRE(is_right(&n->work));
    uint64_t before = cuSimCallCount("cuLaunchKernel");
    launches(&n->work, 0, STEP / 2);
    n->held_back = STEP / 2 - (int)(cuSimCallCount("cuLaunchKernel") - before);
    CHECK(cuStreamSynchronize(n->work.stream));
    __atomic_store_n(n->word, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* The driver waits, in the call that destroys the context, for a stream that waits for a word.
 * Until then another thread launches into a stream of that context for the first time. */
static int new_in_ending(int n)
{
    uint32_t *word;
    int held_back = 0;
    CUcontext home = ag_prog_start(), ctx;
    struct work w = make_work(NULL);
    CHECK(cuMemHostAlloc((void **)&word, sizeof *word,
                         CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE));
    steps(&w, n);
    for (int i = 0; i < n; i++) {
        pthread_t thread;
        CUstream waits;
        CHECK(cuCtxCreate_v2(&ctx, 0, 0));
        struct work known = make_work(NULL);
        steps(&known, 5);
        struct newcomer new = {make_work(NULL), word, cuSimCallCount("cuCtxDestroy_v2"), 0};
        *word = 0;
        CHECK(cuStreamCreate(&waits, CU_STREAM_NON_BLOCKING));
        CHECK(cuStreamWaitValue32(waits, (CUdeviceptr)(uintptr_t)word, 1, CU_STREAM_WAIT_VALUE_EQ));
        REQUIRE(!pthread_create(&thread, NULL, come_late, &new));
        CHECK(cuCtxDestroy_v2(ctx));
        pthread_join(thread, NULL);
        held_back += new.held_back;
        CHECK(cuCtxSetCurrent(home));
        steps(&w, 10);
    }
    printf("held back in a context that ends: %d\n", held_back);
    return print("beside contexts with new streams", is_right(&w));
}

/* ---- a handle that is another stream's while the context still ends -------------------------- */

static void *destroy_context(void *ctx)
{
    CHECK(cuCtxDestroy_v2(ctx));
    return NULL;
}

/* In the current context. SIMCUDA_HANDLES=reuse, and SIMCUDA_SLOW_US for the time to do it in. */
static CUstream stream_with_handle(CUstream handle)
{
    enum { MOST = 4 };
    CUstream s[MOST];
    int n = 0;
    do {
        REQUIRE(n < MOST);
        CHECK(cuStreamCreate(&s[n], CU_STREAM_NON_BLOCKING));
    } while (s[n++] != handle);
    while (--n)
        CHECK(cuStreamDestroy_v2(s[n - 1]));
    return handle;
}

static void set_property(CUstream stream)
{
    CUstreamAttrValue value;
    memset(&value, 0, sizeof value);
    value.memSyncDomain = CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE;
    CHECK(cuStreamSetAttribute(stream, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, &value));
}

/* The streams of a context have ended, and the call that ends it has not returned. One of their
 * handles is a new stream's by then, which gets a property or is destroyed. */
static int handle_again(int n)
{
    bool right = true;
    ag_prog_start();
    for (int i = 0; i < n; i++) {
        pthread_t thread;
        CUcontext ctx;
        int64_t streams = cuSimAlive("stream");
        CHECK(cuCtxCreate_v2(&ctx, 0, 0));
        struct work old = make_work(NULL);
        step(&old);
        CHECK(cuCtxPopCurrent_v2(&ctx));
        REQUIRE(!pthread_create(&thread, NULL, destroy_context, ctx));
        while (cuSimAlive("stream") > streams)
            sched_yield();
        CUstream again = stream_with_handle(old.stream);
        if (i % 2)
            set_property(again);
        else
            CHECK(cuStreamDestroy_v2(again));
        pthread_join(thread, NULL);
        if (i % 2) {
            struct work w = make_work(again);
            steps(&w, 10);
            right &= is_right(&w);
            CHECK(cuStreamDestroy_v2(again));
        }
    }
    printf("graph launches of streams with a property that graphs lack: %d\n",
           (int)cuSimCallCount("cuGraphLaunch"));
    return print("handles given again", right);
}

/* The current context's stream waits for the program, which first destroys another one. */
static int ends_beside_wait(int n)
{
    uint32_t *word;
    void *none = NULL;
    ag_prog_start();
    struct work w = make_work(NULL);
    CUfunction poll = ag_prog_function(ag_prog_module(), "poll");
    CHECK(cuMemHostAlloc((void **)&word, sizeof *word, CU_MEMHOSTALLOC_DEVICEMAP));
    *word = 0;
    for (unsigned int i = 1; i <= (unsigned int)n; i++) {
        CUcontext ctx;
        CHECK(cuCtxCreate_v2(&ctx, 0, 0));
        struct work other = make_work(NULL);
        steps(&other, 3);
        CHECK(cuCtxPopCurrent_v2(NULL));
        CHECK(ag_prog_launch(poll, w.stream, (void *[]){&word, &i, &none}));
        CHECK(cuCtxDestroy_v2(ctx));
        __atomic_store_n(word, i, __ATOMIC_RELEASE);
        steps(&w, 3);
    }
    return print("beside a kernel that waits", is_right(&w));
}

/* ---- green contexts ----------------------------------------------------------------------- */

static CUgreenCtx new_green(void)
{
    CUdevResource all, part[2];
    CUdevResourceDesc desc;
    CUgreenCtx green;
    unsigned int groups = 2;
    CHECK(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
    CHECK(cuDevSmResourceSplitByCount(part, &groups, &all, NULL, 0, 20));
    CHECK(cuDevResourceGenerateDesc(&desc, part, 1));
    CHECK(cuGreenCtxCreate(&green, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    return green;
}

static void *destroy_green(void *green)
{
    CHECK(cuGreenCtxDestroy(green));
    return NULL;
}

/* The call that destroys a green context has not returned, and its handle is another one's. */
static int green_handle_again(int n)
{
    bool right = true;
    ag_prog_start();
    for (int i = 0; i < n; i++) {
        pthread_t thread;
        CUstream stream;
        CUgreenCtx green = new_green();
        CHECK(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
        REQUIRE(!pthread_create(&thread, NULL, destroy_green, green));
        while (cuSimAlive("green context"))
            sched_yield();
        REQUIRE(new_green() == green);
        CHECK(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
        pthread_join(thread, NULL);
        struct work w = make_work(stream);
        steps(&w, 10);
        right &= is_right(&w);
        CHECK(cuStreamDestroy_v2(stream));
        CHECK(cuGreenCtxDestroy(green));
    }
    printf("graph launches of streams with a property that graphs lack: %d\n",
           (int)cuSimCallCount("cuGraphLaunch"));
    return print("green contexts", right);
}

/* A stream of a green context has waited for a word. While that context ends, another thread's
 * steps come again, so often that graphs would be built. Whether the driver is asked meanwhile. */
static int green_asked(int n)
{
    uint32_t *word;
    int asked = 0;
    ag_prog_start();
    struct work w = make_work(NULL);
    CHECK(cuMemHostAlloc((void **)&word, sizeof *word, CU_MEMHOSTALLOC_DEVICEMAP));
    *word = 1;
    for (int i = 0; i < n; i++) {
        pthread_t thread;
        CUstream stream;
        CUgreenCtx green = new_green();
        CHECK(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
        struct work of_green = make_work(stream);
        step(&of_green);
        CHECK(
            cuStreamWaitValue32(stream, (CUdeviceptr)(uintptr_t)word, 1, CU_STREAM_WAIT_VALUE_EQ));
        CHECK(cuStreamSynchronize(stream));
        REQUIRE(!pthread_create(&thread, NULL, destroy_green, green));
        while (cuSimAlive("green context"))
            sched_yield();
        uint64_t before = cuSimCallCount("cuEventQuery");
        for (int k = 0; k < 5; k++) {
            launches(&w, 0, STEP - (uint64_t)i); /* not those of the round before */
            CHECK(cuStreamSynchronize(w.stream));
        }
        asked += cuSimCallCount("cuEventQuery") != before;
        pthread_join(thread, NULL);
    }
    printf("asked while a green context ends: %d\n", asked);
    return print("beside green contexts", is_right(&w));
}

static void green_context(void)
{
    CUgreenCtx green = new_green();
    CUstream stream;
    CHECK(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
    struct work w = make_work(stream);
    steps(&w, 3);
    REQUIRE(is_right(&w));
    CHECK(cuGreenCtxDestroy(green));
    CHECK(cuMemFree_v2(w.x));
}

static int green_contexts(int n)
{
    return beside(green_context, n, "a green context's end");
}

/* ---- what outlives a context that does not end ----------------------------------------------- */

static int kept_property(int n)
{
    uint64_t before = cuSimCallCount("cuGraphLaunch");
    CUcontext ctx = ag_prog_start();
    struct work w = make_work(NULL);
    step(&w);
    set_property(w.stream);
    steps(&w, n);
    pair();
    steps(&w, n);
    cuSimFail("cuDevicePrimaryCtxReset_v2", 1, CUDA_ERROR_INVALID_DEVICE);
    EXPECT(cuDevicePrimaryCtxReset_v2(0), CUDA_ERROR_INVALID_DEVICE);
    steps(&w, n);
    EXPECT(cuCtxDestroy_v2(ctx), CUDA_ERROR_INVALID_CONTEXT); /* a primary one */
    steps(&w, n);
    CHECK(cuCtxSetCurrent(ctx));
    printf("graph launches of a stream with a property that graphs lack: %d\n",
           (int)(cuSimCallCount("cuGraphLaunch") - before));
    return print("property", is_right(&w));
}

/* Calls that would end the context fail: all goes on as before. */
static int failing_ends(int n)
{
    CUcontext ctx = ag_prog_start();
    struct work w = make_work(NULL);
    for (int i = 0; i < 3; i++) {
        steps(&w, n);
        launches(&w, 0, STEP / 2);
        EXPECT(cuCtxDestroy_v2(ctx), CUDA_ERROR_INVALID_CONTEXT);
        CHECK(cuCtxSetCurrent(ctx));
        launches(&w, STEP / 2, STEP);
        cuSimFail("cuDevicePrimaryCtxReset_v2", 1, CUDA_ERROR_INVALID_DEVICE);
        EXPECT(cuDevicePrimaryCtxReset_v2(0), CUDA_ERROR_INVALID_DEVICE);
    }
    return print("failing ends", is_right(&w));
}

/* ---- waits of one context, while another ends --------------------------------------------------
 */

static _Atomic bool let_go, waiting;

static void CUDA_CB wait_for_program(void *unused)
{
    (void)unused;
    atomic_store(&waiting, true);
    while (!atomic_load(&let_go))
        sched_yield();
}

static void end_another_context(CUcontext home)
{
    CUcontext ctx;
    CHECK(cuCtxCreate_v2(&ctx, 0, 0));
    struct work w = make_work(NULL);
    step(&w);
    CHECK(cuCtxDestroy_v2(ctx));
    CHECK(cuCtxSetCurrent(home));
    reset_device_1();
    pair();
}

/* Nothing may be built while something waits for the program; the counts are 0 without the
 * library. */
static int builds_while_waiting(struct work *w, CUcontext home)
{
    uint64_t before = cuSimCallCount("cuGraphInstantiateWithFlags");
    steps(w, 20);
    end_another_context(home);
    steps(w, 20);
    return (int)(cuSimCallCount("cuGraphInstantiateWithFlags") - before);
}

static int host_function_waits(int n)
{
    CUcontext home = ag_prog_start();
    CUstream waits;
    struct work w = make_work(NULL);
    CHECK(cuStreamCreate(&waits, CU_STREAM_NON_BLOCKING));
    CHECK(cuLaunchHostFunc(waits, wait_for_program, NULL));
    while (!atomic_load(&waiting))
        sched_yield();
    printf("built behind a host function: %d\n", builds_while_waiting(&w, home));
    atomic_store(&let_go, true);
    CHECK(cuStreamSynchronize(waits));
    steps(&w, n);
    return print("host function", is_right(&w));
}

/* `stream` as a program names it; 0: one that it launches to as well. */
static int word_waits(int n, CUstream stream)
{
    CUcontext home = ag_prog_start();
    struct work w = make_work(NULL);
    uint32_t *word;
    CHECK(cuMemHostAlloc((void **)&word, sizeof *word, CU_MEMHOSTALLOC_DEVICEMAP));
    *word = 0;
    struct work behind = make_work(stream);
    if (!stream)
        step(&behind);
    CHECK(cuStreamWaitValue32(behind.stream, (CUdeviceptr)(uintptr_t)word, 1,
                              CU_STREAM_WAIT_VALUE_EQ));
    printf("built behind a wait: %d\n", builds_while_waiting(&w, home));
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
    CHECK(cuStreamSynchronize(behind.stream));
    steps(&w, n);
    return print("wait", is_right(&w) && is_right(&behind));
}

static int stream_waits(int n)
{
    return word_waits(n, NULL);
}

/* In a stream of which nothing is kept. */
static int loose_waits(int n)
{
    return word_waits(n, CU_STREAM_PER_THREAD);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

/* A context is attached to and detached from, and lives on with a stream that waits. */
static int attached(int n)
{
    CUcontext ctx, same;
    ag_prog_start();
    CHECK(cuCtxCreate_v2(&ctx, 0, 0));
    struct work w = make_work(NULL), behind = make_work(CU_STREAM_PER_THREAD);
    uint32_t *word;
    CHECK(cuMemHostAlloc((void **)&word, sizeof *word, CU_MEMHOSTALLOC_DEVICEMAP));
    *word = 0;
    CHECK(cuStreamWaitValue32(behind.stream, (CUdeviceptr)(uintptr_t)word, 1,
                              CU_STREAM_WAIT_VALUE_EQ));
    uint64_t before = cuSimCallCount("cuGraphInstantiateWithFlags");
    for (int i = 0; i < 20; i++) {
        step(&w);
        CHECK(cuCtxAttach(&same, 0));
        CHECK(cuCtxDetach(same));
    }
    steps(&w, 20);
    printf("built behind a wait: %d\n",
           (int)(cuSimCallCount("cuGraphInstantiateWithFlags") - before));
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
    CHECK(cuStreamSynchronize(behind.stream));
    steps(&w, n);
    int bad = print("attached", is_right(&w));
    CHECK(cuCtxDetach(ctx));
    EXPECT(cuCtxDetach(ctx), CUDA_ERROR_INVALID_CONTEXT);
    return bad;
}

#pragma GCC diagnostic pop

static void begin_capture(void)
{
    CUstream stream;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
}

/* Captures that end with their contexts, in streams that nothing was launched to. */
static int lost_captures(int n)
{
    CUcontext ctx, home = ag_prog_start();
    struct work w = make_work(NULL);
    CHECK(cuCtxCreate_v2(&ctx, 0, 1));
    begin_capture();
    begin_capture();
    CHECK(cuCtxDestroy_v2(ctx));
    CHECK(cuCtxSetCurrent(home));
    steps(&w, n);
    int bad = print("behind a context", is_right(&w));
    begin_capture();
    CHECK(cuDevicePrimaryCtxReset_v2(0));
    CHECK(cuCtxSetCurrent(ag_prog_start()));
    w = make_work(NULL);
    steps(&w, n);
    return bad | print("behind a reset", is_right(&w));
}

/* A capture spreads to another stream, which is destroyed before the capture ends, beside a capture
 * of another stream, which goes on. */
static int spread_capture(int n)
{
    CUstream spread, to;
    CUevent event;
    CUgraph graph = NULL;
    CUgraphExec exec;
    size_t nodes = 0;
    ag_prog_start();
    struct work w = make_work(NULL);
    steps(&w, n);
    CHECK(cuStreamCreate(&spread, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&to, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CHECK(cuStreamBeginCapture_v2(w.stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK(cuStreamBeginCapture_v2(spread, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK(cuEventRecord(event, spread));
    CHECK(cuStreamWaitEvent(to, event, 0));
    CHECK(cuStreamDestroy_v2(to));
    cuStreamEndCapture(spread, &graph); /* what it returns is the driver's affair */
    launches(&w, 0, STEP);
    launches(&w, 0, STEP);
    CHECK(cuStreamEndCapture(w.stream, &graph));
    CHECK(cuGraphGetNodes(graph, NULL, &nodes));
    printf("nodes: %zu\n", nodes);
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    CHECK(cuGraphLaunch(exec, w.stream));
    CHECK(cuStreamSynchronize(w.stream));
    steps(&w, n);
    return print("captured", is_right(&w)) | (nodes != (size_t)2 * STEP);
}

/* Another context, with work of its own, ends while a stream captures in global mode. */
static int context_ends_beside_capture(int n)
{
    CUcontext ctx, home = ag_prog_start();
    CUgraph graph = NULL;
    pthread_t thread;
    struct work w = make_work(NULL);
    steps(&w, n);
    CHECK(cuCtxCreate_v2(&ctx, 0, 0));
    struct work other = make_work(NULL);
    steps(&other, n);
    int bad = print("in the other context", is_right(&other));
    CHECK(cuCtxSetCurrent(home));
    CHECK(cuStreamBeginCapture_v2(w.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    REQUIRE(!pthread_create(&thread, NULL, destroy_context, ctx));
    pthread_join(thread, NULL);
    CHECK(ag_prog_launch(w.hash, w.stream, (void *[]){&w.x, &(uint64_t){1}}));
    CHECK(cuStreamEndCapture(w.stream, &graph));
    CHECK(cuGraphDestroy(graph));
    steps(&w, n);
    return bad | print("behind the capture", is_right(&w));
}

/* A wait in a stream of which nothing is kept, and then in another context while the first one has
 * ended and the call that ends it has not returned. */
static int loose_waits_while_ending(int n)
{
    CUcontext ctx;
    uint32_t *word;
    ag_prog_start();
    struct work w = make_work(NULL);
    CHECK(cuMemHostAlloc((void **)&word, sizeof *word,
                         CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE));
    *word = 1;
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        int64_t contexts = cuSimAlive("context");
        CHECK(cuCtxCreate_v2(&ctx, 0, 0));
        CHECK(cuStreamWaitValue32(CU_STREAM_PER_THREAD, (CUdeviceptr)(uintptr_t)word, 1,
                                  CU_STREAM_WAIT_VALUE_EQ));
        CHECK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
        CHECK(cuCtxPopCurrent_v2(&ctx));
        REQUIRE(!pthread_create(&thread, NULL, destroy_context, ctx));
        while (cuSimAlive("context") > contexts)
            sched_yield();
        CHECK(cuStreamWaitValue32(CU_STREAM_PER_THREAD, (CUdeviceptr)(uintptr_t)word, 1,
                                  CU_STREAM_WAIT_VALUE_EQ));
        pthread_join(thread, NULL);
    }
    steps(&w, n);
    return print("behind waits", is_right(&w));
}

/* A capture that the program forgets. */
static int forgotten_capture(int n)
{
    ag_prog_start();
    struct work w = make_work(NULL);
    begin_capture();
    steps(&w, n);
    return print("beside a capture", is_right(&w));
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(int n);
    } cases[] = {
        {"pairs", pairs},
        {"pairs-of-threads", pairs_of_threads},
        {"last-release", last_release},
        {"resets", resets},
        {"contexts", contexts},
        {"new-in-ending", new_in_ending},
        {"handle-again", handle_again},
        {"green-handle-again", green_handle_again},
        {"green-asked", green_asked},
        {"green-contexts", green_contexts},
        {"ends-beside-wait", ends_beside_wait},
        {"kept-property", kept_property},
        {"failing-ends", failing_ends},
        {"host-function-waits", host_function_waits},
        {"stream-waits", stream_waits},
        {"loose-waits", loose_waits},
        {"loose-waits-while-ending", loose_waits_while_ending},
        {"attached", attached},
        {"lost-captures", lost_captures},
        {"spread-capture", spread_capture},
        {"forgotten-capture", forgotten_capture},
        {"context-ends-beside-capture", context_ends_beside_capture},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (argc == 3 && !strcmp(argv[1], cases[i].name))
            return cases[i].run(atoi(argv[2]));
    fprintf(stderr, "usage: life CASE N\n");
    return 2;
}
