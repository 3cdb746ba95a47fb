/*
 * tasks.c - programs that make a stream for each of their tasks and destroy it; `tasks CASE N`.
 *
 * Each prints what must be the same with the library and without. How many graphs were built, and
 * how many streams went on with what another one had learnt, is in the summary.
 */
#define _GNU_SOURCE
#include "tests/simdriver/simprog.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

/* A word that all launches of a loop work on. */
struct word {
    CUfunction hash;
    CUdeviceptr x;
    uint64_t want;
    CUcontext ctx; /* for threads */
    int rounds;
};

static struct word make_word(void)
{
    struct word w = {.hash = ag_prog_function(ag_prog_module(), "hash"), .x = ag_prog_alloc(8)};
    CHECK(cuCtxSynchronize()); /* the fill is the legacy stream's */
    return w;
}

static CUstream make_stream(unsigned int flags, int priority)
{
    CUstream stream;
    CHECK(cuStreamCreateWithPriority(&stream, flags, priority));
    return stream;
}

enum { STEPS = 20, LAUNCHES = 12 };

/* Loops of different `looks` are of different launches. */
static void launch_part(struct word *w, CUstream stream, uint64_t look, uint64_t n)
{
    for (uint64_t k = 0; k < n; k++) {
        uint64_t value = look * 100 + k;
        CHECK(cuLaunchKernel(w->hash, 1 + (unsigned int)k, 1, 1, 1 + (unsigned int)look, 1, 1, 0,
                             stream, (void *[]){&w->x, &value}, NULL));
        w->want = w->want * 31 + value;
    }
}

static void launch_step(struct word *w, CUstream stream, uint64_t look)
{
    launch_part(w, stream, look, LAUNCHES);
}

static void steps(struct word *w, CUstream stream, uint64_t look, int n)
{
    for (int i = 0; i < n; i++) {
        launch_step(w, stream, look);
        CHECK(cuStreamSynchronize(stream));
    }
}

static int print(const char *what, struct word *w)
{
    bool right = ag_prog_read64(w->x) == w->want;
    printf("%s: %s, misuse %d\n", what, right ? "right" : "WRONG", (int)cuSimMisuseCount());
    return !right;
}

/* The stream of one task: so many steps of a look. */
static void task_of(struct word *w, unsigned int flags, int priority, uint64_t look)
{
    CUstream stream = make_stream(flags, priority);
    steps(w, stream, look, STEPS);
    CHECK(cuStreamDestroy_v2(stream));
}

static void task(struct word *w)
{
    task_of(w, CU_STREAM_NON_BLOCKING, 0, 0);
}

static int plain(int n)
{
    ag_prog_start();
    struct word w = make_word();
    for (int i = 0; i < n; i++)
        task(&w);
    return print("a stream for each task", &w);
}

/* Streams by turns, each with a loop of its own. They end in the order in which they were made, or
 * in the other. */
static int turns(int n, bool backwards)
{
    enum { STREAMS = 3 };
    struct word w[STREAMS];
    ag_prog_start();
    for (int i = 0; i < STREAMS; i++)
        w[i] = make_word();
    for (int i = 0; i < n; i++) {
        CUstream stream[STREAMS];
        for (int k = 0; k < STREAMS; k++)
            stream[k] = make_stream(CU_STREAM_NON_BLOCKING, 0);
        for (int step = 0; step < STEPS; step++)
            for (int k = 0; k < STREAMS; k++)
                steps(&w[k], stream[k], (uint64_t)k, 1);
        for (int k = 0; k < STREAMS; k++)
            CHECK(cuStreamDestroy_v2(stream[backwards ? STREAMS - 1 - k : k]));
    }
    int bad = 0;
    for (int k = 0; k < STREAMS; k++)
        bad |= print("streams by turns", &w[k]);
    return bad;
}

static int forwards(int n)
{
    return turns(n, false);
}

static int backwards(int n)
{
    return turns(n, true);
}

struct thread {
    pthread_t thread;
    CUcontext ctx;
    struct word word;
    int n;
};

static void *tasks_of_thread(void *argument)
{
    struct thread *t = argument;
    CHECK(cuCtxSetCurrent(t->ctx));
    for (int i = 0; i < t->n; i++)
        task_of(&t->word, i & 1 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT, 0, 0);
    return NULL;
}

static int threads(int n)
{
    enum { THREADS = 4 };
    struct thread t[THREADS];
    CUcontext ctx = ag_prog_start();
    for (int i = 0; i < THREADS; i++) {
        t[i] = (struct thread){.ctx = ctx, .word = make_word(), .n = n};
        REQUIRE(!pthread_create(&t[i].thread, NULL, tasks_of_thread, &t[i]));
    }
    int bad = 0;
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i].thread, NULL);
    for (int i = 0; i < THREADS; i++)
        bad |= print("streams of several threads", &t[i].word);
    return bad;
}

/* A stream of each kind, n times. None takes what one of another kind has learnt. */
static int kinds(int n)
{
    CUcontext ctx, home = ag_prog_start();
    struct word w = make_word();
    CHECK(cuCtxCreate_v2(&ctx, 0, 1));
    struct word other = make_word();
    CHECK(cuCtxSetCurrent(home));
    for (int i = 0; i < n; i++) {
        task_of(&w, CU_STREAM_NON_BLOCKING, 0, 0);
        task_of(&w, CU_STREAM_DEFAULT, 0, 0);
        task_of(&w, CU_STREAM_NON_BLOCKING, -2, 0);
        CHECK(cuCtxSetCurrent(ctx));
        task(&other);
        CHECK(cuCtxSetCurrent(home));
    }
    int bad = print("kinds of streams", &w);
    CHECK(cuCtxSetCurrent(ctx));
    return bad | print("a second context", &other);
}

/* A context of its own for each task, beside a task in one that stays. */
static int contexts(int n)
{
    CUcontext ctx, home = ag_prog_start();
    struct word w = make_word();
    int bad = 0;
    for (int i = 0; i < n; i++) {
        CHECK(cuCtxCreate_v2(&ctx, 0, i & 1));
        struct word inner = make_word();
        task(&inner);
        task(&inner);
        bad |= print("a context of its own", &inner);
        if (i & 1)
            CHECK(cuCtxDestroy_v2(ctx));
        else
            CHECK(cuDevicePrimaryCtxReset_v2(1)); /* ends nothing here */
        CHECK(cuCtxSetCurrent(home));
        task(&w);
        if (!(i & 1))
            CHECK(cuCtxDestroy_v2(ctx));
    }
    return bad | print("the context that stays", &w);
}

static void CUDA_CB hold(void *open)
{
    while (!atomic_load((_Atomic bool *)open))
        sched_yield();
}

/* Streams that are destroyed while they work: the next one does not wait for them. */
static int busy(int n)
{
    ag_prog_start();
    struct word w[2] = {make_word(), make_word()};
    for (int i = 0; i < n; i++) {
        _Atomic bool open = false;
        CUstream stream = make_stream(CU_STREAM_NON_BLOCKING, 0);
        steps(&w[0], stream, 0, STEPS);
        CHECK(cuLaunchHostFunc(stream, hold, &open));
        launch_step(&w[0], stream, 0);
        CHECK(cuStreamDestroy_v2(stream));
        task_of(&w[1], CU_STREAM_NON_BLOCKING, 0, 0);
        atomic_store(&open, true);
        CHECK(cuCtxSynchronize());
    }
    return print("behind work", &w[0]) | print("beside work", &w[1]);
}

/* The same where a kernel works until the program has written a word. The next task's stream does
 * not wait for that, and the one behind it goes on with what the first has learnt. */
static int working(int n)
{
    ag_prog_start();
    struct word w[2] = {make_word(), make_word()};
    CUfunction poll_word = ag_prog_function(ag_prog_module(), "poll");
    unsigned int *flag, value = 0;
    void *none = NULL;
    CHECK(cuMemHostAlloc((void **)&flag, sizeof *flag, CU_MEMHOSTALLOC_DEVICEMAP));
    *flag = 0;
    while (value < (unsigned int)n) {
        value++;
        CUstream stream = make_stream(CU_STREAM_NON_BLOCKING, 0);
        steps(&w[0], stream, 0, STEPS);
        CHECK(ag_prog_launch(poll_word, stream, (void *[]){&flag, &value, &none}));
        for (int i = 0; i < STEPS; i++)
            launch_step(&w[0], stream, 0);
        CHECK(cuStreamDestroy_v2(stream));
        task_of(&w[1], CU_STREAM_NON_BLOCKING, 0, 0);
        __atomic_store_n(flag, value, __ATOMIC_RELEASE);
        CHECK(cuCtxSynchronize());
    }
    return print("behind work", &w[0]) | print("beside work", &w[1]);
}

static void *task_of_thread(void *word)
{
    struct word *w = word;
    CHECK(cuCtxSetCurrent(w->ctx));
    steps(w, CU_STREAM_PER_THREAD, 0, STEPS);
    return NULL;
}

/* Threads one after the other, each with its default stream, beside a blocking stream that works
 * until they have ended. */
static int beside_blocking(int n)
{
    CUcontext ctx = ag_prog_start();
    struct word w = make_word();
    CUfunction poll_word = ag_prog_function(ag_prog_module(), "poll");
    CUstream blocking = make_stream(CU_STREAM_DEFAULT, 0);
    unsigned int *flag, value = 0;
    void *none = NULL;
    w.ctx = ctx;
    CHECK(cuMemHostAlloc((void **)&flag, sizeof *flag, CU_MEMHOSTALLOC_DEVICEMAP));
    *flag = 0;
    while (value < (unsigned int)n) {
        value++;
        CHECK(ag_prog_launch(poll_word, blocking, (void *[]){&flag, &value, &none}));
        for (int i = 0; i < 2; i++) {
            pthread_t thread;
            CHECK(pthread_create(&thread, NULL, task_of_thread, &w) ? CUDA_ERROR_UNKNOWN
                                                                    : CUDA_SUCCESS);
            pthread_join(thread, NULL);
        }
        __atomic_store_n(flag, value, __ATOMIC_RELEASE);
        CHECK(cuCtxSynchronize());
    }
    return print("threads beside a blocking stream", &w);
}

/* A thread holds back a part of a step in its default stream for some time, and another thread
 * makes a blocking stream wait for the program meanwhile. The program lets that go on once the
 * first has waited for its stream. */
static _Atomic int turn, gate_is_open;

static void CUDA_CB wait_at_gate(void *unused)
{
    (void)unused;
    while (!atomic_load(&gate_is_open))
        sched_yield();
}

static void *holds_back(void *word)
{
    struct word *w = word;
    CHECK(cuCtxSetCurrent(w->ctx));
    for (int round = 0; round < w->rounds; round++) {
        steps(w, CU_STREAM_PER_THREAD, 0, STEPS);
        launch_part(w, CU_STREAM_PER_THREAD, 0, 5 + (uint64_t)round % 6);
        atomic_store(&turn, 1);
        while (atomic_load(&turn) != 2)
            sched_yield();
        CHECK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
        atomic_store(&gate_is_open, 1);
        while (atomic_load(&turn) != 0)
            sched_yield();
    }
    return NULL;
}

static int gates(int n)
{
    pthread_t thread;
    CUcontext ctx = ag_prog_start();
    struct word w = make_word();
    CUstream blocking = make_stream(CU_STREAM_DEFAULT, 0);
    w.ctx = ctx;
    w.rounds = n;
    CHECK(pthread_create(&thread, NULL, holds_back, &w) ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS);
    for (int round = 0; round < n; round++) {
        while (atomic_load(&turn) != 1)
            sched_yield();
        usleep((useconds_t)(round * 100)); /* the watchdog is about to submit it, or does */
        atomic_store(&gate_is_open, 0);
        CHECK(cuLaunchHostFunc(blocking, wait_at_gate, NULL));
        atomic_store(&turn, 2);
        CHECK(cuStreamSynchronize(blocking));
        atomic_store(&turn, 0);
    }
    pthread_join(thread, NULL);
    return print("beside gates", &w);
}

/* All of them work until the last has been destroyed. Then their context ends, and another begins.
 */
static int still_working(int n)
{
    int bad = 0;
    unsigned int *flag, one = 1;
    void *none = NULL;
    ag_prog_start();
    for (int round = 0; round < 2; round++) {
        CUcontext ctx;
        CHECK(cuCtxCreate_v4(&ctx, NULL, 0, 0));
        struct word w = make_word();
        CUfunction poll_word = ag_prog_function(ag_prog_module(), "poll");
        CHECK(cuMemHostAlloc((void **)&flag, sizeof *flag, CU_MEMHOSTALLOC_DEVICEMAP));
        *flag = 0;
        for (int i = 0; i < n; i++) {
            CUstream stream = make_stream(CU_STREAM_NON_BLOCKING, 0);
            steps(&w, stream, 0, STEPS);
            CHECK(ag_prog_launch(poll_word, stream, (void *[]){&flag, &one, &none}));
            CHECK(cuStreamDestroy_v2(stream));
        }
        __atomic_store_n(flag, one, __ATOMIC_RELEASE);
        CHECK(cuCtxSynchronize());
        bad |= print("still working", &w);
        CHECK(cuCtxDestroy_v2(ctx));
    }
    return bad;
}

/* The same by short tasks, and a long one behind them: how many of its steps went by graphs alone
 * shows whether it was given any. */
static int short_tasks(int n)
{
    enum { SHORT = 3, LONG = 2000, BUSY_US = 300, TOGETHER = 100 };
    CUstream streams[TOGETHER];
    ag_prog_start();
    struct word w = make_word();
    CUfunction spin = ag_prog_function(ag_prog_module(), "spin_us");
    for (int i = 0; i < n; i++) {
        CUstream stream = streams[i % TOGETHER] = make_stream(CU_STREAM_NON_BLOCKING, 0);
        steps(&w, stream, 0, SHORT);
        CHECK(ag_prog_launch(spin, stream, (void *[]){&(int){BUSY_US}}));
        for (int k = 0; k < TOGETHER && i % TOGETHER == TOGETHER - 1; k++)
            CHECK(cuStreamDestroy_v2(streams[k]));
        if (i % TOGETHER == TOGETHER - 1)
            CHECK(cuCtxSynchronize()); /* there is room for graphs again */
    }
    CUstream last = make_stream(CU_STREAM_NON_BLOCKING, 0);
    uint64_t before = cuSimCallCount("cuGraphLaunch");
    steps(&w, last, 1, LONG);
    bool library = cuSimCallCount("cuGraphInstantiateWithFlags");
    if (library && cuSimCallCount("cuGraphLaunch") - before < LONG / 2)
        printf("the last stream has no graphs\n");
    return print("short tasks", &w);
}

/* One stream, whose loop is another one after each dozen steps: n of these, and then more until the
 * library has built five graphs more. */
static int phases(int n)
{
    enum { STEPS_A_PHASE = 12, BLOCKS = 1000, MORE = 5 };
    ag_prog_start();
    struct word w = make_word();
    CUstream stream = make_stream(CU_STREAM_NON_BLOCKING, 0);
    uint64_t built = 0, now = 0;
    for (unsigned int i = 0; i < (unsigned int)n || (built && now < built + MORE); i++) {
        for (uint64_t k = 0; k < STEPS_A_PHASE * LAUNCHES; k++) {
            CHECK(cuLaunchKernel(w.hash, 1 + k % LAUNCHES, 1, 1, 1 + i % BLOCKS, 1, 1, i / BLOCKS,
                                 stream, (void *[]){&w.x, &k}, NULL));
            w.want = w.want * 31 + k;
            if (k % LAUNCHES == LAUNCHES - 1)
                CHECK(cuStreamSynchronize(stream));
        }
        now = cuSimCallCount("cuGraphInstantiateWithFlags");
        built = i < (unsigned int)n ? now : built;
    }
    CHECK(cuStreamDestroy_v2(stream));
    return print("phases", &w);
}

/* What belongs to a handle ends with it: every other stream has an attribute, or ends in a capture.
 */
static int properties(int n)
{
    ag_prog_start();
    struct word w = make_word();
    for (int i = 0; i < n; i++) {
        CUstream stream = make_stream(CU_STREAM_NON_BLOCKING, 0);
        CUstreamAttrValue value = {.priority = -1};
        CUgraph graph;
        steps(&w, stream, 0, STEPS / 2);
        if (i % 3 == 0) {
            CHECK(cuStreamSetAttribute(stream, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
            steps(&w, stream, 0, STEPS / 2);
        } else if (i % 3 == 1) {
            CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
            CHECK(cuStreamEndCapture(stream, &graph));
            CHECK(cuGraphDestroy(graph));
            CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        }
        CHECK(cuStreamDestroy_v2(stream));
        task(&w);
    }
    return print("properties", &w);
}

/* What invalidates sequences also does so while no stream has them. */
static int changes(int n)
{
    ag_prog_start();
    struct word w = make_word();
    for (int i = 0; i < n; i++) {
        CUmodule module = ag_prog_module();
        w.hash = ag_prog_function(module, "hash");
        task(&w);
        task(&w);
        if (i & 1)
            CHECK(cuFuncSetAttribute(w.hash, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
                                     10 + i));
        else
            CHECK(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, (1 << 20) + (size_t)i * 4096));
        if (!(i & 1) && cuSimAlive("exec"))
            printf("%d graphs are left behind change %d\n", (int)cuSimAlive("exec"), i);
        task(&w);
        CHECK(cuModuleUnload(module));
        if (cuSimAlive("exec"))
            printf("%d graphs are left behind module %d\n", (int)cuSimAlive("exec"), i);
    }
    return print("behind changes", &w);
}

/* More streams at a time than are kept. The program then lacks memory, which graphs have. */
static int many(int n)
{
    enum { MOST = 64 };
    ag_prog_start();
    struct word w = make_word();
    CUstream stream[MOST];
    REQUIRE(n <= MOST);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < n; i++) {
            stream[i] = make_stream(CU_STREAM_NON_BLOCKING, 0);
            steps(&w, stream[i], 0, STEPS);
        }
        for (int i = 0; i < n; i++)
            CHECK(cuStreamDestroy_v2(stream[i]));
    }
    int bad = print("many streams", &w);
    CUdeviceptr p;
    EXPECT(cuMemAlloc_v2(&p, (size_t)1 << 50), CUDA_ERROR_OUT_OF_MEMORY);
    printf("graphs left: %d\n", (int)cuSimAlive("exec"));
    task(&w);
    return bad | print("behind a lack of memory", &w);
}

enum { CROWD = 20 };

/* Streams at a time, of which those of two threads are more than are kept. */
static void crowd(struct word *w)
{
    CUstream stream[CROWD];
    for (int i = 0; i < CROWD; i++) {
        stream[i] = make_stream(CU_STREAM_NON_BLOCKING, 0);
        steps(w, stream[i], 0, 6);
    }
    for (int i = 0; i < CROWD; i++)
        CHECK(cuStreamDestroy_v2(stream[i]));
}

static void *crowds_of_thread(void *argument)
{
    struct thread *t = argument;
    CHECK(cuCtxSetCurrent(t->ctx));
    for (int i = 0; i < t->n; i++)
        crowd(&t->word);
    return NULL;
}

/* Contexts end while streams that had been destroyed there have to go, as another thread destroys
 * more than are kept. */
static int crowds(int n)
{
    CUcontext ctx, home = ag_prog_start();
    struct thread t = {.ctx = home, .word = make_word(), .n = n};
    int bad = 0;
    REQUIRE(!pthread_create(&t.thread, NULL, crowds_of_thread, &t));
    for (int i = 0; i < n; i++) {
        CHECK(cuCtxCreate_v2(&ctx, 0, 0));
        struct word inner = make_word();
        crowd(&inner);
        bad |= print("a context that ends", &inner);
        CHECK(cuCtxDestroy_v2(ctx));
    }
    pthread_join(t.thread, NULL);
    CHECK(cuCtxSetCurrent(home));
    return bad | print("the other thread", &t.word);
}

/* The graphs of n streams take all the room there is, and then those of another one need some. */
static int room(int n)
{
    enum { MOST = 16, ENOUGH = 100, TRIES = 20000 };
    ag_prog_start();
    struct word w = make_word();
    CUstream stream[MOST];
    REQUIRE(n <= MOST);
    for (int i = 0; i < n; i++) {
        stream[i] = make_stream(CU_STREAM_NON_BLOCKING, 0);
        steps(&w, stream[i], 0, STEPS);
    }
    for (int i = 0; i < n; i++)
        CHECK(cuStreamDestroy_v2(stream[i]));
    CUstream last = make_stream(CU_STREAM_DEFAULT, 0);
    int whole = 0; /* steps that went by graphs alone */
    for (int i = 0; i < TRIES && whole < ENOUGH; i++) {
        uint64_t before = cuSimCallCount("cuLaunchKernel");
        steps(&w, last, 1, 1);
        whole += cuSimCallCount("cuLaunchKernel") == before;
    }
    if (cuSimCallCount("cuGraphLaunch") && whole < ENOUGH) /* with the library */
        printf("the last stream found no room\n");
    return print("a stream that needs room", &w);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(int n);
    } cases[] = {
        {"plain", plain},
        {"forwards", forwards},
        {"backwards", backwards},
        {"threads", threads},
        {"kinds", kinds},
        {"contexts", contexts},
        {"busy", busy},
        {"properties", properties},
        {"changes", changes},
        {"many", many},
        {"room", room},
        {"crowds", crowds},
        {"short", short_tasks},
        {"phases", phases},
        {"working", working},
        {"still-working", still_working},
        {"beside-blocking", beside_blocking},
        {"gates", gates},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (argc == 3 && !strcmp(argv[1], cases[i].name))
            return cases[i].run(atoi(argv[2]));
    fprintf(stderr, "usage: tasks CASE N\n");
    return 2;
}
