/* check.h - what the programs of this folder share: giving up where a call fails, and a clock. */
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Of the runtime and of the driver alike: both use 0 for success. */
#define CHECK(call)                                                                                \
    do {                                                                                           \
        int error = (int)(call);                                                                   \
        if (error != 0) {                                                                          \
            fprintf(stderr, "%s: error %d\n", #call, error);                                       \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static inline double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}
