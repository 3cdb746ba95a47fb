/* faults_sim.c - the fault kernel for the simulated driver, where the suite tries itself. */
#include "faults.h"

static void fault_kernel(const struct cuSimLaunch *launch)
{
    uint32_t *data = *(uint32_t **)launch->params[0];
    uint32_t mul = *(const uint32_t *)launch->params[1];
    uint32_t add = *(const uint32_t *)launch->params[2];
    int size = *(const int *)launch->params[3];
    int action = *(const int *)launch->params[4];
    volatile uint32_t *flag = *(volatile uint32_t **)launch->params[5];
    for (int i = 0; i < size; i++) {
        data[i] = mul * data[i] + add;
    }
    if (action == 1) {
        __typeof__(&cuSimRaise) raise_error =
            (__typeof__(&cuSimRaise))dlsym(RTLD_DEFAULT, "cuSimRaise");
        raise_error(CUDA_ERROR_LAUNCH_FAILED);
    }
    if (action == 2) {
        *flag = *flag + 1;
    }
}

static const size_t sizes[] = {sizeof(CUdeviceptr), 4, 4, 4, 4, sizeof(CUdeviceptr)};

const struct driver_cpu_kernel faults_on_cpu[] = {{"fault_kernel", fault_kernel, 6, sizes},
                                                  {NULL, NULL, 0, NULL}};
