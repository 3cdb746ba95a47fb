/*
 * segments.c - steps with several waits, each behind other kernels.
 *
 * `segments KERNEL_US HOST_US MS WAIT OPS...` does steps for MS ms, and then for as long again. A
 * step has OPS[0] launches of kernels of KERNEL_US us, a wait, OPS[1] other launches, a wait and so
 * on; the host works for HOST_US us before each launch. WAIT is `sync`, `event` (a record, and a
 * wait for the event) or `copy` (4 KiB to pinned memory, and a sync). Prints the time of a launch
 * in the second half.
 */
#define _GNU_SOURCE
#include "spin.h"

#include <stdio.h>
#include <string.h>

enum { MOST = 8, BYTES = 4096 };

static CUstream stream;
static CUevent event;
static CUdeviceptr device;
static void *pinned;

static void by_event(void)
{
    CHECK(cuEventRecord(event, stream));
    CHECK(cuEventSynchronize(event));
}

static void by_copy(void)
{
    CHECK(cuMemcpyDtoHAsync(pinned, device, BYTES, stream));
    CHECK(cuStreamSynchronize(stream));
}

static void by_sync(void)
{
    CHECK(cuStreamSynchronize(stream));
}

int main(int argc, char **argv)
{
    int ops[MOST], segments = argc - 5;
    if (segments < 1 || segments > MOST) {
        fprintf(stderr, "usage: segments KERNEL_US HOST_US MS sync|event|copy OPS...\n");
        return 2;
    }
    double kernel_us = ex_number("KERNEL_US", argv[1], 0),
           host_us = ex_number("HOST_US", argv[2], 0);
    double ms = ex_number("MS", argv[3], 1);
    for (int i = 0; i < segments; i++) {
        ops[i] = (int)ex_number("OPS", argv[5 + i], 1);
    }
    void (*wait)(void) = !strcmp(argv[4], "event")  ? by_event
                         : !strcmp(argv[4], "copy") ? by_copy
                         : !strcmp(argv[4], "sync") ? by_sync
                                                    : NULL;
    if (!wait) {
        fprintf(stderr, "segments: %s is no way to wait\n", argv[4]);
        return 2;
    }
    struct spin spin;
    spin_start(&spin);
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CHECK(cuMemAlloc(&device, BYTES));
    CHECK(cuMemHostAlloc(&pinned, BYTES, 0));
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
            wait();
        }
        now = ex_now_us();
    }
    spin_verify(&spin, "segments");
    printf("US %.3f\n", (now - half) / (double)launches);
    CHECK(cuMemFreeHost(pinned));
    CHECK(cuMemFree(device));
    CHECK(cuEventDestroy(event));
    CHECK(cuStreamDestroy(stream));
    spin_stop(&spin);
    return 0;
}
