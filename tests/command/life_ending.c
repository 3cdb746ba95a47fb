/*
 * life_ending.c - cases of `life`: while a context ends, streams begin in it, get handles of its
 * streams, or wait. Green contexts end as well.
 */
#include "tests/command/life.h"
#include <pthread.h>
#include <sched.h>

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
int new_in_ending(int n)
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

/* ---- a handle that is another stream's while the context still ends ------------------------ */

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

/* The streams of a context have ended, and the call that ends it has not returned. One of their
 * handles is a new stream's by then, which gets a property or is destroyed. */
int handle_again(int n)
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

/* ---- waits --------------------------------------------------------------------------------- */

/* The current context's stream waits for the program, which first destroys another one. */
int ends_beside_wait(int n)
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

/* A wait in a stream of which nothing is kept, and then in another context while the first one has
 * ended and the call that ends it has not returned. */
int loose_waits_while_ending(int n)
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

/* ---- green contexts ------------------------------------------------------------------------ */

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
int green_handle_again(int n)
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
int green_asked(int n)
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

int green_contexts(int n)
{
    return beside(green_context, n, "a green context's end");
}
