/*
 * fuzz_kernels.cu - the kernels of fuzz programs on a GPU, bit for bit those of tests/fuzz/kernels.c.
 *
 * One thread does the work, whatever the shape of the launch: the order of the launches is what
 * shows in memory. Every kernel begins by waiting for the one before, because launches that may
 * overlap it (programmatic stream serialization) start earlier and would read what is not there yet.
 */
#include <stdint.h>

__device__ static inline void wait_for_the_one_before(void)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ static inline bool first(void)
{
    wait_for_the_one_before();
    return !(blockIdx.x | blockIdx.y | blockIdx.z | threadIdx.x | threadIdx.y | threadIdx.z);
}

__device__ static inline uint64_t shape(void)
{
    uint32_t shared;
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(shared));
    return gridDim.x * 3ull + gridDim.y * 5ull + gridDim.z * 7ull + blockDim.x * 11ull +
           blockDim.y * 13ull + blockDim.z * 17ull + shared * 19ull;
}

struct big {
    uint64_t word[512];
};
struct bytes {
    uint8_t e[12];
};

extern "C" {

__global__ void fz_mix(uint64_t *x, uint64_t k)
{
    if (first())
        *x = *x * 31 + k + shape();
}

__global__ void fz_join(uint64_t *x, const uint64_t *y, uint64_t k)
{
    if (first())
        *x = *x * 31 + *y + k + shape();
}

__global__ void fz_span(uint64_t *x, uint32_t n, uint64_t k)
{
    if (first())
        for (uint32_t i = 0; i < n; i++)
            x[i] = x[i] * 31 + k + i + shape();
}

__global__ void fz_none(void)
{
    wait_for_the_one_before();
}

__global__ void fz_big(uint64_t *x, const __grid_constant__ struct big s)
{
    if (!first())
        return;
    uint64_t sum = *x + shape();
    for (int i = 0; i < 512; i++)
        sum = sum * 31 + s.word[i];
    *x = sum;
}

__global__ void fz_odd(uint8_t a, uint16_t b, uint64_t *x, uint8_t c, float d, struct bytes e)
{
    if (!first())
        return;
    uint64_t sum = *x * 31 + a + shape();
    sum = sum * 31 + b;
    sum = sum * 31 + c;
    sum = sum * 31 + (uint64_t)d;
    for (int i = 0; i < 12; i++)
        sum = sum * 31 + e.e[i];
    *x = sum;
}

__global__ void fz_publish(uint32_t *flag, uint32_t value)
{
    if (first()) {
        __threadfence_system();
        *(volatile uint32_t *)flag = value;
    }
}

__device__ static inline uint64_t nanoseconds(void)
{
    uint64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

__global__ void fz_slow(uint32_t us)
{
    if (!first())
        return;
    for (uint64_t begin = nanoseconds(); nanoseconds() - begin < us * 1000ull;)
        ;
}

/* Only the simulated driver is asked to run it (tests/fuzz/execute_wait.c). */
__global__ void fz_await(const volatile uint32_t *flag, uint32_t value)
{
    if (first())
        while (*flag < value)
            ;
}
}
