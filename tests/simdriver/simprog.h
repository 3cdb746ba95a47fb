/*
 * simprog.h - what driver-API test programs share: checks, set-up, kernels by name.
 *
 * A program includes it once and calls ag_prog_start(); on the simulated driver the built-in
 * kernels (kernels.c) are there by name. It binds plainly (-lcuda). Failures print file and line,
 * exit 1.
 */
#pragma once

#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL
#endif
#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "tests/simdriver/simcuda.h"

#define CHECK(call)                                                                                \
    do {                                                                                           \
        CUresult check_result = (call);                                                            \
        if (check_result != CUDA_SUCCESS) {                                                        \
            fprintf(stderr, "%s:%d: %s gave %d\n", __FILE__, __LINE__, #call, (int)check_result);  \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#define EXPECT(call, code)                                                                         \
    do {                                                                                           \
        CUresult check_result = (call);                                                            \
        if (check_result != (CUresult)(code)) {                                                    \
            fprintf(stderr, "%s:%d: %s gave %d, not %d\n", __FILE__, __LINE__, #call,              \
                    (int)check_result, (int)(code));                                               \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);              \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* Device 0 with its primary context current. */
static inline CUcontext ag_prog_start(void)
{
    CUdevice device;
    CUcontext ctx;
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&ctx, device));
    CHECK(cuCtxSetCurrent(ctx));
    return ctx;
}

/* A module that shows every registered kernel. */
static inline CUmodule ag_prog_module(void)
{
    CUmodule module;
    CHECK(cuModuleLoadData(&module, SIMCUDA_IMAGE_MAGIC));
    return module;
}

static inline CUfunction ag_prog_function(CUmodule module, const char *name)
{
    CUfunction f;
    CHECK(cuModuleGetFunction(&f, module, name));
    return f;
}

/* A CUkernel cast to a CUfunction, which is what cudart 13 launches. */
static inline CUfunction ag_prog_kernel(CUlibrary library, const char *name)
{
    CUkernel k;
    CHECK(cuLibraryGetKernel(&k, library, name));
    return (CUfunction)k;
}

static inline CUdeviceptr ag_prog_alloc(size_t bytes)
{
    CUdeviceptr p;
    CHECK(cuMemAlloc_v2(&p, bytes));
    CHECK(cuMemsetD8_v2(p, 0, bytes));
    return p;
}

/* One block of one thread. */
static inline CUresult ag_prog_launch(CUfunction f, CUstream stream, void **params)
{
    return cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
}

/* x = x * 31 + k on the device: what is left in x tells the order of all such launches. */
static inline CUresult ag_prog_hash(CUfunction f, CUstream stream, CUdeviceptr x, uint64_t k)
{
    return ag_prog_launch(f, stream, (void *[]){&x, &k});
}

static inline uint64_t ag_prog_read64(CUdeviceptr p)
{
    uint64_t value;
    CHECK(cuMemcpyDtoH_v2(&value, p, sizeof value));
    return value;
}

static inline double ag_prog_seconds(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}
