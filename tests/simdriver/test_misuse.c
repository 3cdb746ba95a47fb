/* test_misuse.c - what is destroyed or used by two threads while a slow call works with it. */
#include "tests/simdriver/simprog.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

enum { SOON_US = 30000 }; /* within SIMCUDA_SLOW_US */

static CUcontext context;
static CUstream stream;
static CUevent event;
static CUgraphExec exec;

/* Calls that other threads make; so many began. */
static uint64_t began(void)
{
    return cuSimCallCount("cuEventQuery") + cuSimCallCount("cuGraphLaunch");
}

static void *ask(void *unused)
{
    CHECK(cuCtxSetCurrent(context));
    cuEventQuery(event);
    return unused;
}

static void *start(void *unused)
{
    CHECK(cuCtxSetCurrent(context));
    cuGraphLaunch(exec, stream);
    return unused;
}

static void make_exec(void)
{
    CUgraph graph;
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    CHECK(cuGraphDestroy(graph));
}

/* Misuse that is reported where `meanwhile` runs in the middle of `work` in another thread. */
static uint64_t reported(void *(*work)(void *), void (*meanwhile)(void))
{
    pthread_t thread;
    uint64_t before = cuSimMisuseCount(), calls = began();
    assert_int_equal(pthread_create(&thread, NULL, work, NULL), 0);
    while (began() == calls)
        sched_yield();
    usleep(SOON_US);
    meanwhile();
    pthread_join(thread, NULL);
    return cuSimMisuseCount() - before;
}

/* Whether it is reported. On a busy machine this thread may come too late, so there are ten tries.
 */
static bool is_reported(void (*make)(void), void *(*work)(void *), void (*meanwhile)(void))
{
    for (int i = 0; i < 10; i++) {
        make();
        uint64_t times = reported(work, meanwhile);
        if (times)
            return times == 1;
    }
    return false;
}

static void make_event(void)
{
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
}

static void destroy_event(void)
{
    CHECK(cuEventDestroy_v2(event));
}

static void ask_too(void)
{
    CHECK(cuEventQuery(event));
}

static void destroy_exec(void)
{
    CHECK(cuGraphExecDestroy(exec));
}

static void launch_too(void)
{
    CHECK(cuGraphLaunch(exec, stream));
}

static void events(void **state)
{
    (void)state;
    make_event();
    assert_int_equal(reported(ask, ask_too), 0); /* events may be shared */
    assert_true(is_reported(make_event, ask, destroy_event));
}

static void graphs(void **state)
{
    (void)state;
    assert_true(is_reported(make_exec, start, launch_too));
    assert_true(is_reported(make_exec, start, destroy_exec));
    make_exec();
    start(NULL);
    uint64_t before = cuSimMisuseCount();
    destroy_exec(); /* what it launched may be under way */
    assert_int_equal(cuSimMisuseCount(), before);
}

static int begin(void **state)
{
    (void)state;
    ag_prog_start();
    CHECK(cuCtxGetCurrent(&context));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return 0;
}

int main(int argc, char **argv)
{
    (void)argc;
    if (!getenv("SIMCUDA_SLOW_US")) { /* the driver reads it when it is loaded */
        setenv("SIMCUDA_SLOW_US", "100000", 1);
        execv(argv[0], argv);
        return 1;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(events), cmocka_unit_test(graphs)};
    return cmocka_run_group_tests(tests, begin, NULL);
}
