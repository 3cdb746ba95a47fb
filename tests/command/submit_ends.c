/* submit_ends.c - cases of `submit`: the process ends, forks or faults, and streams end, with
 * launches under way. */
#define _GNU_SOURCE
#include "tests/command/submit.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- ends of the process ----------------------------------------------------------------------
 */

/* The exit handlers use what was launched. */
static void look_at_exit(void)
{
    print_value(&line);
}

int exit_handler(int n)
{
    atexit(look_at_exit); /* before CUDA comes: it runs when the library has ended */
    start();
    steps(&line, 30, 1);
    steps(&line, n, n + 1);
    exit(0);
}

/* Children are made with launches under way, and end in each of two ways. */
int forks(int n)
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
int exit_at_fault(int n)
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

/* ---- beside a thread that launches ------------------------------------------------------------
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
int exit_beside(int n)
{
    atexit(join_worker); /* before CUDA comes: it runs when the library has ended */
    start();
    REQUIRE(!pthread_create(&worker, NULL, work, NULL));
    while (atomic_load(&rounds) < n)
        sched_yield();
    exit(0);
}

/* Streams end with launches under way, beside a thread that launches. */
int destroys(int n)
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
