/* faults.c - the cases, see faults.h. */
#include "faults.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A kernel traps in the middle of a step: the step's sync reports it, and it stays. Which launches
 * after the trap already fail depends on time alone, so that their codes are not looked at. */
static int trap(struct fault_loop *loop)
{
    for (int step = 0; step < STEPS; step++) {
        bool trapping = step == STEPS / 2;
        for (int k = 0; k < KERNELS; k++) {
            fault_launch(loop, k, trapping && k == 7 ? FAULT_TRAP : FAULT_NONE, SIZE);
        }
        CUresult result = cuStreamSynchronize(loop->stream);
        if (result != CUDA_SUCCESS) {
            printf("step %d: sync answers %d\n", step, (int)result);
            printf("launch answers %d\n", (int)fault_launch(loop, 0, FAULT_NONE, SIZE));
            printf("context sync answers %d\n", (int)cuCtxSynchronize());
            printf("allocation answers %d\n", (int)cuMemAlloc(&loop->data, 64));
            return 5;
        }
    }
    printf("the trap was never reported\n");
    return 1;
}

/* Launches that the driver refuses, in the middle of a known step: at that call, and at no other.
 */
static int bad_launch(struct fault_loop *loop)
{
    for (int step = 0; step < STEPS; step++) {
        for (int k = 0; k < KERNELS; k++) {
            unsigned int block = step == STEPS / 2 && k == 7 ? 2048 : SIZE;
            block = step == STEPS / 2 + 5 && k == 11 ? 0 : block;
            CUresult result = fault_launch(loop, k, FAULT_NONE, block);
            if (result != CUDA_SUCCESS) {
                printf("step %d, launch %d answers %d\n", step, k, (int)result);
            }
        }
        CHECK(cuStreamSynchronize(loop->stream));
    }
    fault_print_memory(loop);
    return 0;
}

static int in_order(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The processor time of this thread. */
static double ran_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* The program launches a part of a known step and then looks at mapped memory only, without any
 * call. */
static int spin(struct fault_loop *loop)
{
    enum { ROUNDS = 101 };
    static double waits[ROUNDS];
    double total = 0.0, ran = 0.0;
    for (int round = 0; round < ROUNDS; round++) {
        fault_steps(loop, round ? 3 : STEPS);
        uint32_t before = *loop->flag;
        int place = round % KERNELS; /* wherever a sequence may be cut */
        fault_begin_step(loop, place);
        double start = ex_now_us(), ran_before = ran_us();
        CHECK(fault_launch(loop, place, FAULT_RAISE_FLAG, SIZE));
        while (*loop->flag == before) {
            if (ex_now_us() - start > 5e6) {
                printf("round %d: nothing within 5 s of the launch\n", round);
                return 1;
            }
        }
        total += waits[round] = ex_now_us() - start;
        ran += ran_us() - ran_before;
        CHECK(cuStreamSynchronize(loop->stream));
    }
    qsort(waits, ROUNDS, sizeof(waits[0]), in_order);
    printf("MEASURED launch to flag: mean %.1f us, median %.1f us, worst %.1f us; the thread ran "
           "%.0f %% of that\n",
           total / ROUNDS, waits[ROUNDS / 2], waits[ROUNDS - 1], 100 * ran / total);
    printf("flag %u\n", *loop->flag);
    fault_print_memory(loop);
    return 0;
}

/* fork in the middle of a step. CUDA does not work in the child, and the parent goes on
 * undisturbed. */
static int fork_in_step(struct fault_loop *loop)
{
    fault_begin_step(loop, 5);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        /* No stdio: another thread may have held the heap's lock at the fork. */
        char text[80];
        alarm(20);
        int length = snprintf(text, sizeof(text), "child: init answers %d, sync answers %d\n",
                              (int)cuInit(0), (int)cuCtxSynchronize());
        _exit(write(STDOUT_FILENO, text, (size_t)length) != length);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) {
        perror("fork");
        return 1;
    }
    printf("child ended with %d\n", status);
    for (int k = 5; k < KERNELS; k++) {
        CHECK(fault_launch(loop, k, FAULT_NONE, SIZE));
    }
    CHECK(cuStreamSynchronize(loop->stream));
    fault_steps(loop, STEPS);
    fault_print_memory(loop);
    return 0;
}

static int exit_in_step(struct fault_loop *loop)
{
    fault_begin_step(loop, 5);
    printf("leaving main\n");
    return 3;
}

static int exit_at_once(struct fault_loop *loop)
{
    fault_begin_step(loop, 5);
    printf("leaving at once\n");
    fflush(stdout);
    _exit(4);
}

/* The module goes with launches of its kernel outstanding, and comes back. */
static int unload(struct fault_loop *loop)
{
    fault_begin_step(loop, 5);
    printf("unload answers %d\n", (int)cuModuleUnload(loop->module));
    CHECK(cuCtxSynchronize());
    fault_print_memory(loop);
    loop->module = driver_load("faults_kernels", faults_on_cpu);
    loop->kernel = driver_kernel(loop->module, "fault_kernel");
    fault_steps(loop, STEPS);
    fault_print_memory(loop);
    return 0;
}

static int free_in_step(struct fault_loop *loop)
{
    fault_begin_step(loop, 5);
    printf("free answers %d\n", (int)cuMemFree(loop->data));
    CHECK(cuStreamSynchronize(loop->stream));
    CHECK(cuMemAlloc(&loop->data, SIZE * sizeof(uint32_t)));
    CHECK(cuMemsetD32(loop->data, 9, SIZE));
    CHECK(cuCtxSynchronize());
    fault_steps(loop, STEPS);
    fault_print_memory(loop);
    return 0;
}

static int destroy_stream(struct fault_loop *loop)
{
    fault_begin_step(loop, 5);
    printf("destroy answers %d\n", (int)cuStreamDestroy(loop->stream));
    CHECK(cuCtxSynchronize());
    fault_print_memory(loop);
    CHECK(cuStreamCreate(&loop->stream, CU_STREAM_NON_BLOCKING));
    fault_steps(loop, STEPS);
    fault_print_memory(loop);
    return 0;
}

/* A context of the program's own dies with launches outstanding, and another takes its place. */
static int destroy_context(struct fault_loop *loop)
{
    for (int round = 0; round < 3; round++) {
        CUcontext context;
#if CUDA_VERSION >= 13000
        CHECK(cuCtxCreate(&context, NULL, 0, 0));
#else
        CHECK(cuCtxCreate(&context, 0, 0));
#endif
        fault_loop_start(loop);
        fault_steps(loop, STEPS);
        fault_print_memory(loop);
        fault_begin_step(loop, 5);
        printf("destroy answers %d\n", (int)cuCtxDestroy(context));
    }
    return 0;
}

static const struct {
    const char *name;
    int (*run)(struct fault_loop *loop);
    bool learns; /* whether a learnt loop comes first */
} cases[] = {
    {"trap", trap, true},
    {"bad-launch", bad_launch, true},
    {"spin", spin, false},
    {"fork", fork_in_step, true},
    {"exit", exit_in_step, true},
    {"exit-at-once", exit_at_once, true},
    {"unload", unload, true},
    {"free", free_in_step, true},
    {"destroy-stream", destroy_stream, true},
    {"destroy-context", destroy_context, false},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc == 2 && i < sizeof cases / sizeof *cases; i++) {
        if (!strcmp(argv[1], cases[i].name)) {
            struct fault_loop loop = {0};
            driver_start();
            fault_loop_start(&loop);
            if (cases[i].learns) {
                fault_steps(&loop, STEPS);
            }
            return cases[i].run(&loop);
        }
    }
    fprintf(stderr, "usage: faults CASE\ncases:");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fprintf(stderr, " %s", cases[i].name);
    }
    fprintf(stderr, "\n");
    return 2;
}
