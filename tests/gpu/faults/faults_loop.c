/* faults_loop.c - see faults.h. */
#include "faults.h"

#include <stdio.h>

void fault_loop_start(struct fault_loop *loop)
{
    void *flag;
    loop->module = driver_load("faults_kernels", faults_on_cpu);
    loop->kernel = driver_kernel(loop->module, "fault_kernel");
    CHECK(cuStreamCreate(&loop->stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc(&loop->data, SIZE * sizeof(uint32_t)));
    CHECK(cuMemsetD32(loop->data, INITIAL, SIZE));
    CHECK(cuMemHostAlloc(&flag, sizeof(uint32_t), CU_MEMHOSTALLOC_DEVICEMAP));
    CHECK(cuMemHostGetDevicePointer(&loop->flag_on_device, flag, 0));
    loop->flag = flag;
    loop->shared = 0;
    *loop->flag = 0;
    CHECK(cuCtxSynchronize());
}

static uint32_t mul_of(int k)
{
    return 1664525u + 8 * (uint32_t)k;
}

static uint32_t add_of(int k)
{
    return 1013904223u + 97 * (uint32_t)k;
}

uint32_t fault_value(int k, uint32_t element)
{
    return mul_of(k) * element + add_of(k);
}

CUresult fault_launch(const struct fault_loop *loop, int k, enum fault_action action,
                      unsigned int block)
{
    CUdeviceptr data = loop->data, flag = loop->flag_on_device;
    uint32_t mul = mul_of(k), add = add_of(k);
    int size = SIZE, what = action;
    void *params[] = {&data, &mul, &add, &size, &what, &flag};
    return cuLaunchKernel(loop->kernel, 1, 1, 1, block, 1, 1, loop->shared, loop->stream, params,
                          NULL);
}

void fault_begin_step(const struct fault_loop *loop, int count)
{
    for (int k = 0; k < count; k++) {
        CHECK(fault_launch(loop, k, FAULT_NONE, SIZE));
    }
}

void fault_steps(const struct fault_loop *loop, int steps)
{
    for (int step = 0; step < steps; step++) {
        fault_begin_step(loop, KERNELS);
        CHECK(cuStreamSynchronize(loop->stream));
    }
}

void fault_print_memory(const struct fault_loop *loop)
{
    uint32_t host[SIZE];
    CHECK(cuMemcpyDtoH(host, loop->data, sizeof host));
    printf("memory 0x%016llx\n", (unsigned long long)ex_checksum(host, sizeof host));
}
