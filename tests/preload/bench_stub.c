/*
 * bench_stub.c - what a stub costs over the driver's own function while nothing is open, in
 * nanoseconds. Prints both, and fails above the limit given as first argument. The call is one that
 * has nothing to tell capture/ then.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef int (*function)(uint64_t);

enum { CALLS = 2000000, ROUNDS = 15 };

static double nanoseconds_per_call(function call)
{
    struct timespec begin;
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int i = 0; i < CALLS; i++)
        call((uint64_t)i);
    clock_gettime(CLOCK_MONOTONIC, &end);
    return ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)) /
           CALLS;
}

int main(int argc, char **argv)
{
    double limit = argc > 1 ? atof(argv[1]) : 3;
    void *libcuda = dlopen("libcuda.so.1", RTLD_NOW);
    if (!libcuda)
        return 2;
    void *(*address_of)(const char *);
    *(void **)&address_of = dlsym(libcuda, "fake_address");
    function stub;
    function direct;
    *(void **)&stub = dlsym(libcuda, "cuMemGetInfo_v2");
    *(void **)&direct = address_of("cuMemGetInfo_v2");
    if (stub == direct)
        return 2;
    double best_stub = 1e9;
    double best_direct = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        double direct_now = nanoseconds_per_call(direct);
        double stub_now = nanoseconds_per_call(stub);
        best_direct = direct_now < best_direct ? direct_now : best_direct;
        best_stub = stub_now < best_stub ? stub_now : best_stub;
    }
    printf("direct %.2f ns, stub %.2f ns, more by %.2f ns\n", best_direct, best_stub,
           best_stub - best_direct);
    return best_stub - best_direct < limit ? 0 : 1;
}
