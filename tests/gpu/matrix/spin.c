/* spin.c - see spin.h. */
#define _GNU_SOURCE
#include "spin.h"

#include <stdio.h>
#include <stdlib.h>

static void spin_on_cpu(const struct cuSimLaunch *launch)
{
    double end_us = ex_now_us() + (double)*(const long long *)launch->params[2] * 1e-3;
    **(uint32_t **)launch->params[0] += *(const uint32_t *)launch->params[1];
    while (ex_now_us() < end_us) {
    }
}

static const size_t sizes[] = {sizeof(CUdeviceptr), 4, sizeof(long long)};
static const struct driver_cpu_kernel on_cpu[] = {{"spin_kernel", spin_on_cpu, 3, sizes},
                                                  {NULL, NULL, 0, NULL}};

void spin_start(struct spin *spin)
{
    driver_start();
    spin->module = driver_load("spin_kernel", on_cpu);
    spin->kernel = driver_kernel(spin->module, "spin_kernel");
    CHECK(cuMemAlloc(&spin->sum, sizeof(uint32_t)));
    CHECK(cuMemsetD32(spin->sum, 0, 1));
    CHECK(cuCtxSynchronize());
    spin->expected = 0;
}

void spin_stop(struct spin *spin)
{
    CHECK(cuMemFree(spin->sum));
    CHECK(cuModuleUnload(spin->module));
    driver_stop();
}

void spin_launch(struct spin *spin, CUstream stream, int family, int k, long long cycles)
{
    uint32_t add = 1 + (uint32_t)k;
    unsigned int block = 32 * (1 + ex_hash((uint32_t)k) % 8);
    void *params[] = {&spin->sum, &add, &cycles};
    CHECK(cuLaunchKernel(spin->kernel, 1, 1, 1, block, 1, 1, 16 * (unsigned int)family, stream,
                         params, NULL));
    spin->expected += add;
}

void spin_host(double us)
{
    double end = ex_now_us() + us;
    while (us > 0 && ex_now_us() < end) {
    }
}

void spin_verify(const struct spin *spin, const char *what)
{
    uint32_t sum;
    CHECK(cuMemcpyDtoH(&sum, spin->sum, sizeof sum));
    if (sum != spin->expected) {
        fprintf(stderr, "%s: the sum is %u and not %u\n", what, sum, spin->expected);
        exit(1);
    }
}
