/*
 * latency.c - how long single launches take while a long sequence is first met, learned and built.
 *
 * `latency OPS STEPS` does STEPS steps of OPS different launches and a sync, and prints percentiles
 * of the time that the launch calls took, and in which step the longest one was.
 */
#define _GNU_SOURCE
#include "spin.h"

#include <stdio.h>
#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: latency OPS STEPS\n");
        return 2;
    }
    int ops = (int)ex_number("OPS", argv[1], 1), steps = (int)ex_number("STEPS", argv[2], 1);
    size_t count = (size_t)ops * (size_t)steps, slowest = 0;
    double *us = calloc(count, sizeof *us);
    if (!us) {
        perror("calloc");
        return 1;
    }
    for (size_t i = 0; i < count; i++) {
        us[i] = -1.0; /* no page is first touched while a launch is timed */
    }
    struct spin spin;
    CUstream stream;
    spin_start(&spin);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    /* The first launch of a kernel loads it. */
    spin_launch(&spin, stream, 0, 0, 0);
    CHECK(cuStreamSynchronize(stream));
    for (int step = 0; step < steps; step++) {
        for (int k = 0; k < ops; k++) {
            size_t i = (size_t)step * (size_t)ops + (size_t)k;
            double start = ex_now_us();
            spin_launch(&spin, stream, 1, k, 0);
            us[i] = ex_now_us() - start;
            slowest = us[i] > us[slowest] ? i : slowest;
        }
        CHECK(cuStreamSynchronize(stream));
    }
    spin_verify(&spin, "latency");
    qsort(us, count, sizeof *us, by_value);
    printf("LATENCY p50 %.3f p99 %.3f max %.3f step %zu\n", us[count / 2], us[count * 99 / 100],
           us[count - 1], slowest / (size_t)ops + 1);
    free(us);
    CHECK(cuStreamDestroy(stream));
    spin_stop(&spin);
    return 0;
}
