/*
 * startup.c - microseconds that a program's first look-up of a driver function takes: what the
 * library does once (find the driver, fill its tables, check the getter) happens there. One figure
 * a process.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <time.h>

static double microseconds(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec * 1e-3;
}

int main(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) {
        fprintf(stderr, "bench_startup: %s\n", dlerror());
        return 1;
    }
    double begin = microseconds();
    void *found = dlsym(driver, "cuInit");
    double end = microseconds();
    printf("startup 1 %.1f\n", end - begin);
    return found ? 0 : 1;
}
