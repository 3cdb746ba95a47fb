/* driver.c - see driver.h. */
#define _GNU_SOURCE
#include "driver.h"
#include "example.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static CUdevice device;

void driver_check(CUresult result, const char *call, const char *file, int line)
{
    if (result != CUDA_SUCCESS) {
        const char *text = NULL;
        cuGetErrorString(result, &text);
        fprintf(stderr, "%s:%d: %s: %s (%d)\n", file, line, call, text ? text : "unknown error",
                (int)result);
        exit(1);
    }
}

void driver_start(void)
{
    CUcontext context;
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
}

void driver_stop(void)
{
    CHECK(cuDevicePrimaryCtxRelease(device));
}

CUmodule driver_load(const char *name, const struct driver_cpu_kernel *on_cpu)
{
    CUmodule module;
    __typeof__(&cuSimRegisterKernel) register_kernel =
        (__typeof__(&cuSimRegisterKernel))dlsym(RTLD_DEFAULT, "cuSimRegisterKernel");
    if (register_kernel) {
        for (; on_cpu->name; on_cpu++) {
            register_kernel(on_cpu->name, on_cpu->function, on_cpu->num_params, NULL,
                            on_cpu->param_sizes, 0);
        }
        CHECK(cuModuleLoadData(&module, SIMCUDA_IMAGE_MAGIC));
        return module;
    }
    char file[64];
    snprintf(file, sizeof file, "%s.fatbin", name);
    char *path = ex_beside_program(file);
    CHECK(cuModuleLoad(&module, path));
    free(path);
    return module;
}

CUfunction driver_kernel(CUmodule module, const char *name)
{
    CUfunction function;
    CHECK(cuModuleGetFunction(&function, module, name));
    return function;
}

double driver_cycles_per_us(void)
{
    int khz;
    if (dlsym(RTLD_DEFAULT, "cuSimRegisterKernel")) {
        return 1e3; /* kernels there count nanoseconds */
    }
    CHECK(cuDeviceGetAttribute(&khz, CU_DEVICE_ATTRIBUTE_CLOCK_RATE, device));
    return khz * 1e-3;
}
