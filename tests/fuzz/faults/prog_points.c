/*
 * prog_points.c - a short program of a repeating step, and what happens behind one of its ops:
 * prog_points STEP WHAT AT.
 *
 *     STEP   sync: ends with a wait; free: nothing waits before the end; forks: two streams that
 *            fork and join, and a wait in every other step
 *     WHAT   exit: the process ends there, and its exit handlers look at what has been done;
 *            fork: a child is made, which ends at once; thread: the thread that has made all calls
 *            so far ends, and another one goes on
 *     AT     behind which op, from 0; more than there are: behind the last
 *
 * Prints how many ops there were, what the kernels of each stream were and in which order they ran,
 * and the words that they left.
 */
#define _GNU_SOURCE
#include "tests/simdriver/simprog.h"
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STEPS = 16, MOST_OPS = 10 * STEPS, CHILD_STATUS = 7, HANGS_S = 30 };

static CUcontext context;
static CUfunction fold;
static CUevent forked, joined;
/* A stream, a word that its kernels fold all that they get into, and one that fills write. */
static struct line {
    CUstream stream;
    CUdeviceptr word, filled;
} lines[2];

/* Kernels in the order in which they ran: twice the op that launched them, and of which stream. */
static unsigned int ran[MOST_OPS];
static _Atomic unsigned int num_ran;
static unsigned int ops, at;

/* fold(uint64_t *word, const uint64_t *other, unsigned int id) */
static void run_fold(const struct cuSimLaunch *l)
{
    uint64_t *word = *(uint64_t *const *)l->params[0];
    const uint64_t *other = *(const uint64_t *const *)l->params[1];
    unsigned int id = *(const unsigned int *)l->params[2];
    *word = *word * 31 + *other * 7 + id;
    unsigned int n = atomic_fetch_add(&num_ran, 1);
    if (n < MOST_OPS)
        ran[n] = id;
}

/* ---- the step --------------------------------------------------------------------------------
 */

static void launch_in(unsigned int line, CUdeviceptr other)
{
    unsigned int id = 2 * ops + line;
    CHECK(ag_prog_launch(fold, lines[line].stream, (void *[]){&lines[line].word, &other, &id}));
}

static void launch(void)
{
    launch_in(0, lines[0].filled);
}

static void launch_side(void)
{
    launch_in(1, lines[1].filled);
}

/* The first stream has the second one's work behind it. */
static void launch_joined(void)
{
    launch_in(0, lines[1].word);
}

static void fill(void)
{
    CHECK(cuMemsetD32Async(lines[0].filled, ops, 2, lines[0].stream));
}

static void record(void)
{
    CHECK(cuEventRecord(forked, lines[0].stream));
}

static void side_waits(void)
{
    CHECK(cuStreamWaitEvent(lines[1].stream, forked, 0));
}

static void record_side(void)
{
    CHECK(cuEventRecord(joined, lines[1].stream));
}

static void join(void)
{
    CHECK(cuStreamWaitEvent(lines[0].stream, joined, 0));
}

static void synchronize(void)
{
    CHECK(cuStreamSynchronize(lines[0].stream));
}

typedef void (*op)(void);

static const struct step {
    const char *name;
    unsigned int ops;
    op list[10];
} steps[] = {
    {"sync", 7, {launch, launch, fill, launch, launch, launch, synchronize}},
    {"free", 6, {launch, launch, fill, launch, launch, launch}},
    {"forks",
     10,
     {launch, record, side_waits, launch_side, launch, launch_side, record_side, join,
      launch_joined, synchronize}},
};
static const struct step *step;

static void run_ops(unsigned int end)
{
    for (; ops < end && ops < STEPS * step->ops; ops++)
        step->list[ops % step->ops]();
}

/* ---- what happens ----------------------------------------------------------------------------
 */

static void print(void)
{
    printf("ops %u\n", ops);
    for (unsigned int line = 0; line < 2; line++) {
        printf("line %u:", line);
        for (unsigned int i = 0; i < atomic_load(&num_ran) && i < MOST_OPS; i++)
            if (ran[i] % 2 == line)
                printf(" %u", ran[i] / 2);
        printf("\nword %u: %016llx\n", line,
               (unsigned long long)*(const uint64_t *)(uintptr_t)lines[line].word);
    }
    fflush(stdout);
}

/* The child uses no CUDA. It ends by both ways in turn: with exit handlers, and without. */
static void make_child(void)
{
    int status = 0;
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (!child) {
        alarm(HANGS_S);
        if (at % 2)
            exit(CHILD_STATUS);
        _exit(CHILD_STATUS);
    }
    REQUIRE(waitpid(child, &status, 0) == child);
    printf("child: %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

static sem_t through;

/* Ends by both ways in turn. By the second it ends while the other thread goes on. */
static void *begin(void *unused)
{
    (void)unused;
    CHECK(cuCtxSetCurrent(context));
    run_ops(at + 1);
    sem_post(&through);
    if (at % 2)
        pthread_exit(NULL);
    return NULL;
}

static void change_thread(void)
{
    pthread_t thread;
    bool beside = at % 4 >= 2;
    REQUIRE(!sem_init(&through, 0, 0) && !pthread_create(&thread, NULL, begin, NULL));
    while (sem_wait(&through))
        ;
    if (!beside)
        REQUIRE(!pthread_join(thread, NULL));
    run_ops(UINT32_MAX);
    if (beside)
        REQUIRE(!pthread_join(thread, NULL));
}

static void start(void)
{
    static const size_t sizes[] = {8, 8, 4};
    REQUIRE(!cuSimRegisterKernel("fold", run_fold, 3, NULL, sizes, 0));
    context = ag_prog_start();
    fold = ag_prog_function(ag_prog_module(), "fold");
    for (int i = 0; i < 2; i++) {
        lines[i].word = ag_prog_alloc(8);
        lines[i].filled = ag_prog_alloc(8);
        CHECK(cuStreamCreate(&lines[i].stream, CU_STREAM_NON_BLOCKING));
    }
    CHECK(cuEventCreate(&forked, CU_EVENT_DISABLE_TIMING));
    CHECK(cuEventCreate(&joined, CU_EVENT_DISABLE_TIMING));
    CHECK(cuCtxSynchronize()); /* the fills are the legacy stream's, which orders nothing here */
}

int main(int argc, char **argv)
{
    for (size_t i = 0; argc == 4 && i < sizeof steps / sizeof *steps; i++)
        if (!strcmp(argv[1], steps[i].name))
            step = &steps[i];
    if (!step) {
        fprintf(stderr, "usage: prog_points sync|free|forks exit|fork|thread AT\n");
        return 2;
    }
    at = (unsigned int)atoi(argv[3]);
    if (!strcmp(argv[2], "exit"))
        atexit(print); /* before CUDA comes: it runs when the library has ended */
    start();
    if (!strcmp(argv[2], "thread")) {
        change_thread();
    } else {
        run_ops(at + 1);
        if (!strcmp(argv[2], "exit"))
            exit(0);
        make_child();
        run_ops(UINT32_MAX);
    }
    synchronize();
    print();
    return 0;
}
