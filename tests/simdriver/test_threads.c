/* test_threads.c - several threads at once, and handles that come back (SIMCUDA_HANDLES=reuse). */
#include "tests/simdriver/simprog.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

enum { THREADS = 4, ROUNDS = 60, BURST = 10 };

static CUcontext context;
static CUmodule module;
static CUfunction hash;

struct worker {
    pthread_t thread;
    CUdeviceptr x;
    uint64_t expected;
    uint64_t seed;
    CUresult error;
};

#define TRY(call)                                                                                  \
    do {                                                                                           \
        if (w->error == CUDA_SUCCESS)                                                              \
            w->error = (call);                                                                     \
    } while (0)

static void step(struct worker *w, CUstream s, uint64_t k)
{
    TRY(ag_prog_hash(hash, s, w->x, k));
    w->expected = w->expected * 31 + k;
}

/* Two streams taking turns through an event, eagerly and by a captured graph that is updated. */
static void *work(void *argument)
{
    struct worker *w = argument;
    CUstream a, b;
    CUevent e;
    CUgraph g;
    CUgraphExec exec;
    CUgraphNode nodes[BURST];
    size_t count = BURST;
    TRY(cuCtxSetCurrent(context));
    TRY(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    TRY(cuStreamCreate(&b, w->seed % 2 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
    TRY(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    TRY(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_RELAXED));
    for (uint64_t k = 0; k < BURST; k++)
        TRY(ag_prog_hash(hash, a, w->x, k));
    TRY(cuStreamEndCapture(a, &g));
    TRY(cuGraphGetNodes(g, nodes, &count));
    TRY(cuGraphInstantiateWithFlags(&exec, g, 0));
    uint64_t last = BURST - 1;
    for (uint64_t round = 0; w->error == CUDA_SUCCESS && round < ROUNDS; round++) {
        CUstream s = round % 2 ? a : b, next = round % 2 ? b : a;
        for (uint64_t k = 0; k < BURST; k++)
            step(w, s, k + w->seed);
        if (round % 3 == 0) {
            last = round;
            CUDA_KERNEL_NODE_PARAMS p = {.func = hash,
                                         .gridDimX = 1,
                                         .gridDimY = 1,
                                         .gridDimZ = 1,
                                         .blockDimX = 1,
                                         .blockDimY = 1,
                                         .blockDimZ = 1,
                                         .kernelParams = (void *[]){&w->x, &last}};
            TRY(cuGraphExecKernelNodeSetParams_v2(exec, nodes[BURST - 1], &p));
        }
        TRY(cuGraphLaunch(exec, s));
        for (uint64_t k = 0; k + 1 < BURST; k++)
            w->expected = w->expected * 31 + k;
        w->expected = w->expected * 31 + last;
        TRY(cuEventRecord(e, s));
        TRY(cuStreamWaitEvent(next, e, 0));
        if (round % 16 == 15)
            TRY(cuStreamSynchronize(next));
    }
    TRY(cuStreamSynchronize(a));
    TRY(cuStreamSynchronize(b));
    TRY(cuGraphExecDestroy(exec));
    TRY(cuGraphDestroy(g));
    TRY(cuEventDestroy_v2(e));
    TRY(cuStreamDestroy_v2(a));
    TRY(cuStreamDestroy_v2(b));
    return NULL;
}

static void threads_do_not_disturb_each_other(void **state)
{
    (void)state;
    struct worker w[THREADS];
    memset(w, 0, sizeof w);
    for (int i = 0; i < THREADS; i++) {
        w[i].x = ag_prog_alloc(8);
        w[i].seed = (uint64_t)i;
    }
    CHECK(cuCtxSynchronize());
    for (int i = 0; i < THREADS; i++)
        pthread_create(&w[i].thread, NULL, work, &w[i]);
    CUdeviceptr y = ag_prog_alloc(8);
    for (uint64_t k = 0; k < 50; k++) /* the legacy stream joins the blocking ones all the time */
        CHECK(ag_prog_hash(hash, NULL, y, k));
    for (int i = 0; i < THREADS; i++)
        pthread_join(w[i].thread, NULL);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(w[i].error, CUDA_SUCCESS);
        assert_int_equal(ag_prog_read64(w[i].x), w[i].expected);
        CHECK(cuMemFree_v2(w[i].x));
    }
    CHECK(cuMemFree_v2(y));
}

static void handles_come_back_when_asked(void **state)
{
    (void)state;
    const char *handles = getenv("SIMCUDA_HANDLES");
    bool reuse = handles && !strcmp(handles, "reuse");
    CUstream s, t;
    CUmodule m;
    CUdeviceptr x = ag_prog_alloc(8);
    CHECK(cuCtxSynchronize());
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    CHECK(ag_prog_launch(ag_prog_function(module, "spin_us"), s, (void *[]){&(int){2000}}));
    CHECK(ag_prog_hash(hash, s, x, 1));
    CHECK(cuStreamDestroy_v2(s));
    CHECK(cuCtxSynchronize()); /* waits for a destroyed stream's work too */
    CHECK(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
    assert_true((s == t) == reuse);
    CHECK(ag_prog_hash(hash, t, x, 2));
    CHECK(cuCtxSynchronize());
    CHECK(cuStreamDestroy_v2(t));
    uint64_t value = ag_prog_read64(x);
    assert_int_equal(value, 33);
    /* A function of another name at the address of one that is gone. */
    CHECK(cuModuleLoadData(&m, SIMCUDA_IMAGE_MAGIC "kernel axpy\n"));
    CUfunction f = ag_prog_function(m, "axpy");
    CHECK(cuModuleUnload(m));
    CHECK(cuModuleLoadData(&m, SIMCUDA_IMAGE_MAGIC "kernel fill\n"));
    assert_true((ag_prog_function(m, "fill") == f) == reuse);
    CHECK(cuModuleUnload(m));
    CHECK(cuMemFree_v2(x));
}

/* A program polls for a word and clears it at once: the copy must not write it again. */
static void a_copy_writes_a_word_once(void **state)
{
    (void)state;
    CUstream s;
    CUdeviceptr x = ag_prog_alloc(sizeof(uint64_t));
    _Atomic uint64_t *word;
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemHostAlloc((void **)&word, sizeof *word, 0));
    *word = 0;
    CHECK(cuCtxSynchronize()); /* the memory has been cleared */
    for (uint64_t i = 1; i <= 20000; i++) {
        CHECK(cuMemsetD32Async(x, (unsigned int)i, 2, s));
        CHECK(cuMemcpyDtoHAsync_v2((void *)word, x, sizeof *word, s));
        for (int looks = 1; !*word; looks++) /* mostly at once: a second write is just behind */
            if (looks % 1000 == 0)
                sched_yield();
        *word = 0;
        CHECK(cuStreamSynchronize(s));
        assert_int_equal(*word, 0);
    }
    CHECK(cuMemFreeHost((void *)word));
    CHECK(cuMemFree_v2(x));
    CHECK(cuStreamDestroy_v2(s));
}

static int start(void **state)
{
    (void)state;
    context = ag_prog_start();
    module = ag_prog_module();
    hash = ag_prog_function(module, "hash");
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_do_not_disturb_each_other),
        cmocka_unit_test(handles_come_back_when_asked),
        cmocka_unit_test(a_copy_writes_a_word_once),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
