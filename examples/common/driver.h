/*
 * driver.h - the little that every driver-API example does the same way.
 *
 * The kernels of an example lie beside the program in NAME.fatbin, built by nvcc. On the simulated
 * driver, which executes on the CPU, the same kernels exist as C functions.
 */
#pragma once

#include <cuda.h>
#include "tests/simdriver/simcuda.h"

#define CHECK(call) driver_check((call), #call, __FILE__, __LINE__)

/* A kernel as the simulated driver runs it. Tables end with a NULL name. */
struct driver_cpu_kernel {
    const char *name;
    cuSimKernelFn function;
    unsigned int num_params;
    const size_t *param_sizes;
};

/* Stops the program where a driver call failed. */
void driver_check(CUresult result, const char *call, const char *file, int line);

/* Initialises CUDA and makes device 0's primary context current. */
void driver_start(void);

/* Gives back what driver_start took. */
void driver_stop(void);

/* Loads NAME.fatbin, or `on_cpu` where the driver is the simulated one. */
CUmodule driver_load(const char *name, const struct driver_cpu_kernel *on_cpu);

/* Cycles of the GPU's clock, as clock64() counts them, in a microsecond at full speed. */
double driver_cycles_per_us(void);

/* A kernel of a module. */
CUfunction driver_kernel(CUmodule module, const char *name);
