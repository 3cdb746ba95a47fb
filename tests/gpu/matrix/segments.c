/*
 * segments.c - steps with several waits, each behind other kernels.
 *
 * `segments KERNEL_US HOST_US MS OPS...` does steps for MS ms, and then for as long again. A step
 * has OPS[0] launches of kernels of KERNEL_US us, a wait, OPS[1] other launches, a wait and so on;
 * the host works for HOST_US us before each launch. Prints the time of a launch in the second half.
 */
#define _GNU_SOURCE
#include "spin.h"

#include <stdio.h>

enum { MOST = 8 };

int main(int argc, char **argv)
{
    int ops[MOST], segments = argc - 4;
    if (segments < 1 || segments > MOST) {
        fprintf(stderr, "usage: segments KERNEL_US HOST_US MS OPS...\n");
        return 2;
    }
    double kernel_us = ex_number("KERNEL_US", argv[1], 0),
           host_us = ex_number("HOST_US", argv[2], 0);
    double ms = ex_number("MS", argv[3], 1);
    for (int i = 0; i < segments; i++) {
        ops[i] = (int)ex_number("OPS", argv[4 + i], 1);
    }
    struct spin spin;
    CUstream stream;
    spin_start(&spin);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    long long cycles = (long long)(kernel_us * driver_cycles_per_us());
    double began = ex_now_us(), half = 0, now = began;
    long launches = 0;
    while (now < began + 2000 * ms) {
        if (!half && now >= began + 1000 * ms) {
            half = now;
            launches = 0;
        }
        for (int i = 0; i < segments; i++) {
            for (int k = 0; k < ops[i]; k++) {
                spin_host(host_us);
                spin_launch(&spin, stream, i, k, cycles);
                launches++;
            }
            CHECK(cuStreamSynchronize(stream));
        }
        now = ex_now_us();
    }
    spin_verify(&spin, "segments");
    printf("US %.3f\n", (now - half) / (double)launches);
    CHECK(cuStreamDestroy(stream));
    spin_stop(&spin);
    return 0;
}
