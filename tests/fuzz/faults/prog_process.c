/*
 * prog_process.c - what a process may do while work is deferred: prog_process MODE.
 *
 *     exit, quick_exit, release   end without a wait: all work must have been submitted
 *     fork    the child sees CUDA as any child does, the parent's work is not disturbed
 *     exec    the process becomes another program
 *     abort, kill   it dies of the signal
 *     signals a timer interrupts it all the time
 *     threads a thousand threads come and go, eight at a time
 *     handed  a stream and its sequence go from thread to thread
 *
 * Prints "kernels N" where it lives to tell, for comparison with an eager run.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tests/simdriver/simprog.h"

enum { STEP = 7, STEPS = 30 };

static CUcontext context;
static CUfunction hash;

/* Memory that is known to be filled: that is done in the legacy stream, which waits for nobody
 * here. */
static CUdeviceptr make_word(void)
{
    CUdeviceptr x = ag_prog_alloc(8);
    CHECK(cuStreamSynchronize(NULL));
    return x;
}

/* `n` launches of the step's sequence, from its start. */
static void launches(CUstream stream, CUdeviceptr x, int n)
{
    for (int i = 0; i < n; i++)
        CHECK(ag_prog_hash(hash, stream, x, (uint64_t)i));
}

static uint64_t expected(int steps, int n)
{
    uint64_t x = 0;
    for (int s = 0; s < steps; s++)
        for (int i = 0; i < STEP; i++)
            x = x * 31 + (uint64_t)i;
    for (int i = 0; i < n; i++)
        x = x * 31 + (uint64_t)i;
    return x;
}

/* Leaves three launches of a known sequence deferred, where anything defers. */
static CUdeviceptr leave_deferred(CUstream stream)
{
    CUdeviceptr x = make_word();
    for (int s = 0; s < STEPS; s++) {
        launches(stream, x, STEP);
        CHECK(cuStreamSynchronize(stream));
    }
    launches(stream, x, 3);
    return x;
}

static void tell(void)
{
    printf("kernels %llu\n", (unsigned long long)cuSimExecuted("kernel"));
    fflush(stdout);
}

static void check_rest(CUstream stream, CUdeviceptr x)
{
    CHECK(cuStreamSynchronize(stream));
    REQUIRE(ag_prog_read64(x) == expected(STEPS, 3));
    tell();
}

static int in_child(CUstream stream, CUdeviceptr x)
{
    /* as the driver itself answers in a child of a process that used it */
    EXPECT(ag_prog_hash(hash, stream, x, 1), CUDA_ERROR_NOT_INITIALIZED);
    EXPECT(cuCtxSynchronize(), CUDA_ERROR_NOT_INITIALIZED);
    return 0;
}

static void fork_mode(CUstream stream)
{
    CUdeviceptr x = leave_deferred(stream);
    for (int i = 0; i < 3; i++) {
        int status;
        pid_t child = fork();
        REQUIRE(child >= 0);
        if (!child)
            _exit(in_child(stream, x));
        REQUIRE(waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status));
    }
    check_rest(stream, x);
}

static volatile sig_atomic_t alarms;

static void on_alarm(int signal)
{
    (void)signal;
    alarms = alarms + 1;
}

static void signals_mode(CUstream stream)
{
    struct sigaction action = {.sa_handler = on_alarm}; /* without SA_RESTART */
    struct itimerval often = {{0, 200}, {0, 200}};
    REQUIRE(!sigaction(SIGALRM, &action, NULL) && !setitimer(ITIMER_REAL, &often, NULL));
    CUdeviceptr x = make_word();
    int steps = 0;
    for (; steps < 400 || alarms < 20; steps++) {
        launches(stream, x, STEP);
        if (steps % 3 == 0)
            CHECK(cuStreamSynchronize(stream));
    }
    CHECK(cuStreamSynchronize(stream));
    REQUIRE(ag_prog_read64(x) == expected(steps, 0));
    puts("signals");
}

static void *visitor(void *argument)
{
    unsigned int n = *(unsigned int *)argument;
    CUstream stream = CU_STREAM_PER_THREAD;
    CHECK(cuCtxSetCurrent(context));
    if (n % 4)
        CHECK(cuStreamCreate(&stream, n % 2 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
    CUdeviceptr x = make_word();
    for (int s = 0; s < 6; s++) {
        launches(stream, x, STEP);
        CHECK(cuStreamSynchronize(stream));
    }
    launches(stream, x, (int)(n % STEP));
    if (n % 4 && n % 3) { /* destroyed with work deferred */
        CHECK(cuStreamDestroy_v2(stream));
        CHECK(cuCtxSynchronize());
    } else {
        CHECK(cuStreamSynchronize(stream));
        if (n % 4)
            CHECK(cuStreamDestroy_v2(stream));
    }
    REQUIRE(ag_prog_read64(x) == expected(6, (int)(n % STEP)));
    CHECK(cuMemFree_v2(x));
    return NULL;
}

static void threads_mode(void)
{
    enum { AT_ONCE = 8, ALL = 1000 };
    pthread_t threads[AT_ONCE];
    unsigned int numbers[AT_ONCE];
    for (unsigned int n = 0; n < ALL; n += AT_ONCE) {
        for (unsigned int i = 0; i < AT_ONCE; i++) {
            numbers[i] = n + i;
            REQUIRE(!pthread_create(&threads[i], NULL, visitor, &numbers[i]));
        }
        for (unsigned int i = 0; i < AT_ONCE; i++)
            pthread_join(threads[i], NULL);
    }
    tell();
}

struct handed {
    CUstream stream;
    CUdeviceptr x;
    int from, to;
};

static void *hand_over(void *argument)
{
    struct handed *h = argument;
    CHECK(cuCtxSetCurrent(context));
    for (int i = h->from; i < h->to; i++)
        CHECK(ag_prog_hash(hash, h->stream, h->x, (uint64_t)i));
    return NULL;
}

/* Half of the sequence comes from one thread, half from another that ends with work deferred. */
static void handed_mode(CUstream stream)
{
    struct handed h = {.stream = stream, .x = make_word()};
    for (int s = 0; s < 100; s++)
        for (int half = 0; half < 2; half++) {
            pthread_t thread;
            h.from = half ? 4 : 0;
            h.to = half ? STEP : 4;
            REQUIRE(!pthread_create(&thread, NULL, hand_over, &h));
            pthread_join(thread, NULL);
            if (half && s % 4 == 0)
                CHECK(cuStreamSynchronize(stream));
        }
    CHECK(cuStreamSynchronize(stream));
    REQUIRE(ag_prog_read64(h.x) == expected(100, 0));
    tell();
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    CUstream stream;
    context = ag_prog_start();
    hash = ag_prog_function(ag_prog_module(), "hash");
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    if (!strcmp(mode, "fork")) {
        fork_mode(stream);
    } else if (!strcmp(mode, "signals")) {
        signals_mode(stream);
    } else if (!strcmp(mode, "threads")) {
        threads_mode();
    } else if (!strcmp(mode, "handed")) {
        handed_mode(stream);
    } else if (!strcmp(mode, "release")) {
        leave_deferred(stream);
        CHECK(cuDevicePrimaryCtxRelease_v2(0));
        tell();
    } else {
        leave_deferred(stream);
        if (!strcmp(mode, "quick_exit"))
            quick_exit(0);
        if (!strcmp(mode, "_exit"))
            _exit(0);
        if (!strcmp(mode, "abort"))
            abort();
        if (!strcmp(mode, "kill"))
            raise(SIGTERM);
        if (!strcmp(mode, "exec")) {
            execl("/bin/sh", "sh", "-c", "echo another program", NULL);
            return 1;
        }
        REQUIRE(!strcmp(mode, "exit"));
    }
    return 0;
}
