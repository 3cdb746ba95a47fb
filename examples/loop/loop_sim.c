/* loop_sim.c - the loop's kernels for the simulated driver. */
#include "loop_sim.h"
#include "common/example.h"

static void short_kernel(const struct cuSimLaunch *launch)
{
    uint32_t *data = *(uint32_t **)launch->params[0];
    uint32_t mul = *(const uint32_t *)launch->params[1];
    uint32_t add = *(const uint32_t *)launch->params[2];
    int size = *(const int *)launch->params[3];
    for (int i = 0; i < size; i++) {
        /* atomic, as the program may be polling it */
        __atomic_store_n(&data[i], mul * data[i] + add, __ATOMIC_RELEASE);
    }
}

static void filled_kernel(const struct cuSimLaunch *launch)
{
    uint32_t *data = *(uint32_t **)launch->params[0];
    uint32_t mul = *(const uint32_t *)launch->params[1];
    const uint32_t *add = *(const uint32_t **)launch->params[2];
    int size = *(const int *)launch->params[3];
    int words = *(const int *)launch->params[4];
    for (int i = 0; i < size; i++) {
        data[i] = mul * data[i] + add[i % words];
    }
}

/* A cycle counts as a nanosecond here. */
static void busy_kernel(const struct cuSimLaunch *launch)
{
    double end_us = ex_now_us() + (double)*(const long long *)launch->params[4] * 1e-3;
    short_kernel(launch);
    while (ex_now_us() < end_us) {
    }
}

static const size_t short_sizes[] = {sizeof(CUdeviceptr), 4, 4, 4};
static const size_t filled_sizes[] = {sizeof(CUdeviceptr), 4, sizeof(CUdeviceptr), 4, 4};
static const size_t busy_sizes[] = {sizeof(CUdeviceptr), 4, 4, 4, sizeof(long long)};

const struct driver_cpu_kernel loop_on_cpu[] = {{"short_kernel", short_kernel, 4, short_sizes},
                                                {"filled_kernel", filled_kernel, 5, filled_sizes},
                                                {"busy_kernel", busy_kernel, 5, busy_sizes},
                                                {NULL, NULL, 0, NULL}};
