/*
 * life.c - contexts and streams that come and go beside threads that launch; `life CASE N`.
 *
 * Each prints what must be the same with the library and without. Threads wait for each other's
 * progress, so that launches lie between any two of the calls that end something, and the other way
 * round.
 */
#include "tests/command/life.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

/* In the current context, with a stream of its own where it is not given. */
struct work make_work(CUstream stream)
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
void launches(struct work *w, uint64_t from, uint64_t to)
{
    for (uint64_t k = from; k < to; k++) {
        CHECK(cuLaunchKernel(w->hash, 1 + (unsigned int)k, 1, 1, 1, 1, 1, 0, w->stream,
                             (void *[]){&w->x, &k}, NULL));
        w->want = w->want * 31 + k;
    }
}

void step(struct work *w)
{
    launches(w, 0, STEP);
    CHECK(cuStreamSynchronize(w->stream));
}

void steps(struct work *w, int n)
{
    for (int i = 0; i < n; i++)
        step(w);
}

bool is_right(const struct work *w)
{
    CHECK(cuStreamSynchronize(w->stream));
    return ag_prog_read64(w->x) == w->want;
}

int print(const char *what, bool right)
{
    printf("%s: %s\n", what, right ? "right" : "WRONG");
    return !right;
}

void set_property(CUstream stream)
{
    CUstreamAttrValue value;
    memset(&value, 0, sizeof value);
    value.memSyncDomain = CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE;
    CHECK(cuStreamSetAttribute(stream, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, &value));
}

void *destroy_context(void *ctx)
{
    CHECK(cuCtxDestroy_v2(ctx));
    return NULL;
}

/* ---- threads that launch meanwhile --------------------------------------------------------- */

static _Atomic bool stop;
static atomic_ulong launched; /* steps, of all launching threads */

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
int beside(void (*act)(void), int n, const char *what)
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

/* ---- the primary context ------------------------------------------------------------------- */

void pair(void)
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

void reset_device_1(void)
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
