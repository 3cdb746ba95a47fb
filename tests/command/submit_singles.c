/* submit_singles.c - cases of `submit`: launches that are in no graph, and launches that the driver
 * refuses. */
#define _GNU_SOURCE
#include "tests/command/submit.h"
#include <sched.h>

/* ---- errors -----------------------------------------------------------------------------------
 */

/* Graph launches and updates are refused now and then: nobody hears of it. */
int graphs_refused(int n)
{
    start();
    for (int i = 0; i < n; i++) {
        steps(&line, 20, 7);
        cuSimFail("cuGraphLaunch", 1, CUDA_ERROR_UNKNOWN);
        steps(&line, 2, 2);
        cuSimFail("cuGraphLaunch", 1, CUDA_SUCCESS);
    }
    return print_value(&line);
}

/* A launch is refused, and the program does nothing but launch: one of its launches tells. */
int told_by_launch(int n)
{
    int told = 0;
    start();
    steps(&line, 50, 1);
    cuSimFail("cuLaunchKernel", 1, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    cuSimFail("cuGraphLaunch", 1, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    for (int i = 0; i < n && !told; i++)
        for (uint64_t k = 0; k < STEP; k++)
            told += launch(&line, k) == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    cuSimFail("cuGraphLaunch", 1, CUDA_SUCCESS);
    printf("told by launches: %d\n", told);
    printf("sync: %d\n", (int)cuStreamSynchronize(line.stream));
    return told != 1;
}

/* ---- launches that are in no graph -------------------------------------------------------------
 */

/* N times a launch is refused that looks unlike all before it. Each of the next two comes when the
 * driver has seen the one in front of it, and then one of the two tells. */
int told_alone(int n)
{
    start();
    CHECK(launch(&line, 0));
    for (int round = 0; round < n; round++) {
        int told = 0;
        CHECK(cuStreamSynchronize(line.stream));
        cuSimFail("cuLaunchKernel", 1, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
        for (uint64_t i = 0; i < 3; i++) {
            uint64_t k = 1 + (uint64_t)round * 3 + i, calls = cuSimCallCount("cuLaunchKernel");
            told += cuLaunchKernel(hash, 1 + (unsigned int)k, 1, 1, 1, 1, 1, 0, line.stream,
                                   (void *[]){&line.data, &k}, NULL) != CUDA_SUCCESS;
            line.want = i ? line.want * 31 + k : line.want;
            while (cuSimCallCount("cuLaunchKernel") == calls)
                sched_yield();
        }
        printf("told by launches: %d, sync: %d\n", told, (int)cuStreamSynchronize(line.stream));
    }
    return print_value(&line);
}

/* How often the next N launches and a sync tell of an error that the driver gives at the next
 * launch, and whether the first launch does. */
static int told(const char *what, uint64_t k, unsigned int block)
{
    enum { CALLS = 3 };
    int n = 0;
    CHECK(cuStreamSynchronize(line.stream));
    cuSimFail("cuLaunchKernel", 1, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    CUresult first = cuLaunchKernel(hash, 1 + (unsigned int)k, 1, 1, block, 1, 1, 0, line.stream,
                                    (void *[]){&line.data, &k}, NULL);
    for (int i = 0; i < CALLS; i++)
        n += cuStreamSynchronize(line.stream) != CUDA_SUCCESS;
    n += first != CUDA_SUCCESS;
    printf("%s: told %d time, %s\n", what, n, first == CUDA_SUCCESS ? "later" : "by the launch");
    return n;
}

/* A kernel whose first launch finds no memory, and the next one, with another grid, neither. */
static void short_of_memory(void)
{
    CUfunction f = ag_prog_function(module, "publish");
    void *none = NULL;
    for (unsigned int grid = 1; grid <= 2; grid++) {
        cuSimFail("cuLaunchKernel", 1, CUDA_ERROR_OUT_OF_MEMORY);
        printf("no memory: %d\n", (int)cuLaunchKernel(f, grid, 1, 1, 1, 1, 1, 0, line.stream,
                                                      (void *[]){&none, &grid}, NULL));
        CHECK(cuStreamSynchronize(line.stream));
    }
}

/* N launches that never repeat: a new grid each, one stream. Then launches that the driver refuses:
 * one of a kind that was launched, one with another grid than any, one with another block, and one
 * whose kernel got another attribute. */
int singles(int n)
{
    start();
    for (int i = 0; i < n; i++) {
        CHECK(launch(&line, (uint64_t)i));
        if (i % 97 == 96)
            CHECK(cuStreamSynchronize(line.stream));
    }
    told("known", 7, 1);
    told("another grid", (uint64_t)n + 7, 1);
    told("another block", 3, 2);
    CHECK(cuFuncSetAttribute(hash, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 50));
    told("another attribute", 9, 1);
    short_of_memory();
    return print_value(&line);
}

static float elapsed(void)
{
    CUevent from, to;
    float ms;
    CHECK(cuEventCreate(&from, CU_EVENT_DEFAULT));
    CHECK(cuEventCreate(&to, CU_EVENT_DEFAULT));
    CHECK(cuEventRecord(from, line.stream));
    CHECK(cuEventRecord(to, line.stream));
    CHECK(cuEventSynchronize(to));
    CHECK(cuEventElapsedTime(&ms, from, to));
    CHECK(cuEventDestroy_v2(from));
    CHECK(cuEventDestroy_v2(to));
    return ms;
}

/* The same for a host that has something else to do for some us between two launches of few kinds,
 * in an order that never comes again. Before launch number `asks` and every so many behind it the
 * program asks for the time between two events; 0: it never does. */
static int other_work(int n, double us, int asks)
{
    uint64_t random = 1;
    start();
    double began = ag_prog_seconds();
    for (int i = 0; i < n; i++) {
        if (asks && i % asks == asks / 2)
            REQUIRE(elapsed() >= 0);
        double until = ag_prog_seconds() + us * 1e-6;
        random = random * 6364136223846793005u + 1442695040888963407u;
        CHECK(launch(&line, random >> 58));
        while (ag_prog_seconds() < until)
            ;
    }
    printf("MEASURED %d ms\n", (int)((ag_prog_seconds() - began) * 1000));
    return print_value(&line);
}

/* If N is odd, it asks once, half way. */
int slow_singles(int n)
{
    return other_work(n, 20, n % 2 ? n : 0);
}

int slower_singles(int n)
{
    return other_work(n, 200, 0);
}

int measured_singles(int n)
{
    return other_work(n, 20, 100);
}
