/* loop_sim.c - the loop's kernel for the simulated driver. */
#include "loop_sim.h"

static void short_kernel(const struct cuSimLaunch *launch)
{
    uint32_t *data = *(uint32_t **)launch->params[0];
    uint32_t mul = *(const uint32_t *)launch->params[1];
    uint32_t add = *(const uint32_t *)launch->params[2];
    int size = *(const int *)launch->params[3];
    for (int i = 0; i < size; i++) {
        data[i] = mul * data[i] + add;
    }
}

static const size_t short_kernel_sizes[] = {sizeof(CUdeviceptr), 4, 4, 4};

const struct driver_cpu_kernel loop_on_cpu[] = {
    {"short_kernel", short_kernel, 4, short_kernel_sizes}, {NULL, NULL, 0, NULL}};
