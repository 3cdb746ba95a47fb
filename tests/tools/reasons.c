/*
 * reasons.c - a program that gives every reason to submit launches one by one, each from a function
 * of its own.
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <stdlib.h>

CUresult cuCtxCreate_v2(CUcontext *ctx, unsigned int flags, CUdevice device);

enum { STEPS = 600, OPS = 24 };

static CUstream stream, side;
static CUdeviceptr memory;

static void check(CUresult r)
{
    if (r != CUDA_SUCCESS)
        exit(1);
}

static void fill(int i)
{
    check(cuMemsetD32Async(memory + (CUdeviceptr)(4 * i), (unsigned int)i, 64, stream));
}

/* Now and then, never at the same place. */
static int at(int step)
{
    return step % 5 ? -1 : step * 7 % 19 + 2;
}

__attribute__((noinline)) static void impatient(void)
{
    CUresult r = cuStreamQuery(stream);
    if (r != CUDA_ERROR_NOT_READY)
        check(r);
}

__attribute__((noinline)) static void elsewhere(void)
{
    check(cuMemcpyDtoDAsync_v2(memory + 32, memory, 64, side)); /* the two overlap */
    check(cuStreamSynchronize(side));
}

__attribute__((noinline)) static void end_step(void)
{
    check(cuStreamSynchronize(stream));
}

int main(void)
{
    CUcontext context;
    CUdevice device;
    check(cuInit(0));
    check(cuDeviceGet(&device, 0));
    check(cuCtxCreate_v2(&context, 0, device));
    check(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    check(cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
    check(cuMemAlloc_v2(&memory, 8192));
    for (int step = 0; step < 2 * STEPS; step++) {
        for (int i = 0; i < OPS; i++) {
            if (i == at(step) && step < STEPS)
                impatient();
            else if (i == at(step))
                check(cuMemcpyDtoDAsync_v2(memory + 4096, memory, 64, stream));
            fill(i);
        }
        end_step();
        if (step % 10 == 0)
            elsewhere();
    }
    return 0;
}
