/* test_late.c - threads that are late in their calls, or stuck: nobody else waits for them. */
#define _GNU_SOURCE
#include "tests/simdriver/simprog.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

enum { LATE_CALLS = 400, LATE_US = 1000 };

static CUcontext context;
static CUfunction hash;
static CUstream stream, other;
static CUdeviceptr x; /* 8 bytes of each stream */
static _Atomic bool done;

static void *launch_once(void *name)
{
    pthread_setname_np(pthread_self(), name);
    CHECK(cuCtxSetCurrent(context));
    CHECK(ag_prog_hash(hash, stream, x, 7));
    atomic_store(&done, true);
    return NULL;
}

static pthread_t start_launch(const char *name)
{
    pthread_t thread;
    atomic_store(&done, false);
    assert_int_equal(pthread_create(&thread, NULL, launch_once, (void *)(uintptr_t)name), 0);
    return thread;
}

static void until_held(void)
{
    while (!cuSimHeld())
        sched_yield();
}

/* On either side of what it does; the work of others goes on. */
static void a_call_is_stuck(void **state)
{
    (void)state;
    for (int behind = 0; behind < 2; behind++) {
        uint64_t before = ag_prog_read64(x), kernels = cuSimExecuted("kernel");
        assert_int_equal(cuSimHold("stuck-", "cuLaunchKernel", 1, behind), 0);
        pthread_t thread = start_launch("stuck-one");
        until_held();
        CHECK(ag_prog_hash(hash, other, x + 8, 1));
        CHECK(cuStreamSynchronize(other));
        CHECK(cuStreamSynchronize(stream));
        assert_int_equal(cuSimExecuted("kernel"), kernels + 1 + (uint64_t)behind);
        assert_false(atomic_load(&done));
        assert_int_equal(cuSimHeld(), 1);
        assert_int_equal(cuSimHold(NULL, NULL, 1, 0), 0);
        pthread_join(thread, NULL);
        CHECK(cuStreamSynchronize(stream));
        assert_int_equal(ag_prog_read64(x), before * 31 + 7);
        assert_int_equal(cuSimHeld(), 0);
    }
}

static void *launch_thrice(void *name)
{
    pthread_setname_np(pthread_self(), name);
    CHECK(cuCtxSetCurrent(context));
    for (uint64_t k = 1; k <= 3; k++) {
        CHECK(ag_prog_hash(hash, stream, x, k));
        CHECK(cuStreamQuery(other));
    }
    return NULL;
}

/* The thread makes seven calls, of which any counts, or the three launches alone. */
static void a_later_call_is_stuck(void **state)
{
    static char name[] = "stuck-later";
    (void)state;
    for (unsigned int nth = 1; nth <= 7; nth++) {
        pthread_t thread;
        uint64_t launches = cuSimCallCount("cuLaunchKernel");
        assert_int_equal(cuSimHold("stuck-", NULL, nth, 0), 0);
        assert_int_equal(pthread_create(&thread, NULL, launch_thrice, name), 0);
        until_held();
        /* the call that is held counts */
        assert_int_equal(cuSimCallCount("cuLaunchKernel") - launches, nth / 2);
        assert_int_equal(cuSimHold("stuck-", "cuLaunchKernel", 4 - nth / 2, 0), 0);
        pthread_join(thread, NULL); /* it makes fewer */
        assert_int_equal(cuSimCallCount("cuLaunchKernel") - launches, 3);
        CHECK(cuStreamSynchronize(stream));
    }
    assert_int_equal(cuSimHold(NULL, NULL, 1, 0), 0);
}

static void others_are_not(void **state)
{
    (void)state;
    assert_int_equal(cuSimHold("stuck-", "cuNoSuchCall", 1, 0), -1);
    assert_int_equal(cuSimHold("stuck-", "cuGraphLaunch", 1, 0), 0);
    pthread_join(start_launch("stuck-not"), NULL); /* another call */
    assert_int_equal(cuSimHold("stuck-", NULL, 1, 0), 0);
    pthread_join(start_launch("unstuck-one"), NULL); /* another name */
    pthread_t thread = start_launch("stuck-any");
    until_held();
    assert_int_equal(cuSimHold("stuck-elsewhere", NULL, 1, 0), 0); /* whoever is held goes on */
    pthread_join(thread, NULL);
    assert_int_equal(cuSimHold(NULL, NULL, 1, 0), 0);
}

static void *query_often(void *unused)
{
    (void)unused;
    pthread_setname_np(pthread_self(), "late-one");
    CHECK(cuCtxSetCurrent(context));
    for (int i = 0; i < LATE_CALLS; i++)
        CHECK(cuStreamQuery(other));
    return NULL;
}

/* Half as long as one call in four, for half of the most on average. */
static void calls_are_late(void **state)
{
    (void)state;
    pthread_t thread;
    double began = ag_prog_seconds();
    assert_int_equal(pthread_create(&thread, NULL, query_often, NULL), 0);
    pthread_join(thread, NULL);
    assert_true(ag_prog_seconds() - began > LATE_CALLS / 4.0 * (LATE_US * 1e-6 / 2) / 2);
}

static int start(void **state)
{
    (void)state;
    context = ag_prog_start();
    hash = ag_prog_function(ag_prog_module(), "hash");
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    x = ag_prog_alloc(16);
    CHECK(cuCtxSynchronize());
    return 0;
}

int main(int argc, char **argv)
{
    (void)argc;
    if (!getenv("SIMCUDA_LATE")) { /* the driver reads it when it is loaded */
        setenv("SIMCUDA_LATE", "late-:1000", 1);
        execv(argv[0], argv);
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_is_stuck),
        cmocka_unit_test(a_later_call_is_stuck),
        cmocka_unit_test(others_are_not),
        cmocka_unit_test(calls_are_late),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
