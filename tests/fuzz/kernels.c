/*
 * kernels.c - the kernels as the simulated driver runs them.
 *
 * Each folds what it was launched with (arguments, grid, block, shared memory) into a hash in
 * memory: x = x * 31 + k, so that what is left tells which launches ran, with what, and in which
 * order.
 */
#include "tests/fuzz/kernels.h"
#include "tests/fuzz/program.h"
#include "tests/simdriver/simcuda.h"
#include <sched.h>
#include <string.h>
#include <unistd.h>

const char *const fz_kernel_names[] = {
    [FZ_MIX] = "fz_mix",         [FZ_JOIN] = "fz_join",   [FZ_SPAN] = "fz_span",
    [FZ_NONE] = "fz_none",       [FZ_BIG] = "fz_big",     [FZ_ODD] = "fz_odd",
    [FZ_PUBLISH] = "fz_publish", [FZ_AWAIT] = "fz_await", [FZ_SLOW] = "fz_slow",
};

#define ARG(type, i) (*(type const *)l->params[i])

static uint64_t shape(const struct cuSimLaunch *l)
{
    return l->grid[0] * 3ull + l->grid[1] * 5ull + l->grid[2] * 7ull + l->block[0] * 11ull +
           l->block[1] * 13ull + l->block[2] * 17ull + l->shared_bytes * 19ull;
}

/* fz_mix(uint64_t *x, uint64_t k) */
static void mix(const struct cuSimLaunch *l)
{
    uint64_t *x = ARG(uint64_t *, 0);
    if (cuSimCheck(x, 8))
        *x = *x * 31 + ARG(uint64_t, 1) + shape(l);
}

/* fz_join(uint64_t *x, const uint64_t *y, uint64_t k) */
static void join(const struct cuSimLaunch *l)
{
    uint64_t *x = ARG(uint64_t *, 0), *y = ARG(uint64_t *, 1);
    if (cuSimCheck(x, 8) && cuSimCheck(y, 8))
        *x = *x * 31 + *y + ARG(uint64_t, 2) + shape(l);
}

/* fz_span(uint64_t *x, uint32_t n, uint64_t k) */
static void span(const struct cuSimLaunch *l)
{
    uint64_t *x = ARG(uint64_t *, 0);
    uint32_t n = ARG(uint32_t, 1);
    if (cuSimCheck(x, n * 8ull))
        for (uint32_t i = 0; i < n; i++)
            x[i] = x[i] * 31 + ARG(uint64_t, 2) + i + shape(l);
}

/* fz_none() */
static void none(const struct cuSimLaunch *l)
{
    (void)l;
}

/* fz_big(uint64_t *x, struct fz_big s) */
static void big(const struct cuSimLaunch *l)
{
    uint64_t *x = ARG(uint64_t *, 0), word, sum;
    if (!cuSimCheck(x, 8))
        return;
    sum = *x + shape(l);
    for (size_t i = 0; i < 512; i++) {
        memcpy(&word, (const char *)l->params[1] + i * 8, 8);
        sum = sum * 31 + word;
    }
    *x = sum;
}

/* fz_odd(uint8_t a, uint16_t b, uint64_t *x, uint8_t c, float d, struct { uint8_t e[12]; } e) */
static void odd(const struct cuSimLaunch *l)
{
    uint64_t *x = ARG(uint64_t *, 2), sum;
    if (!cuSimCheck(x, 8))
        return;
    sum = *x * 31 + ARG(uint8_t, 0) + shape(l);
    sum = sum * 31 + ARG(uint16_t, 1);
    sum = sum * 31 + ARG(uint8_t, 3);
    sum = sum * 31 + (uint64_t)ARG(float, 4);
    for (int i = 0; i < 12; i++)
        sum = sum * 31 + ((const uint8_t *)l->params[5])[i];
    *x = sum;
}

/* fz_publish(uint32_t *flag, uint32_t value) */
static void publish(const struct cuSimLaunch *l)
{
    uint32_t *flag = ARG(uint32_t *, 0);
    if (cuSimCheck(flag, 4))
        __atomic_store_n(flag, ARG(uint32_t, 1), __ATOMIC_RELEASE);
}

/* fz_await(uint32_t *flag, uint32_t value) */
static void await(const struct cuSimLaunch *l)
{
    const uint32_t *flag = ARG(const uint32_t *, 0);
    if (!cuSimCheck(flag, 4))
        return;
    while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) < ARG(uint32_t, 1))
        sched_yield();
}

/* fz_slow(uint32_t us) */
static void slow(const struct cuSimLaunch *l)
{
    usleep(ARG(uint32_t, 0));
}

/* Weak: a program that may also run on a real driver has one that chooses. */
__attribute__((weak)) const void *fz_image(void)
{
    return SIMCUDA_IMAGE_MAGIC;
}

void fz_kernels_register(void)
{
    static const struct {
        cuSimKernelFn fn;
        unsigned int count;
        size_t sizes[6], offsets[6];
    } kernels[FZ_ALL_KERNELS] = {
        [FZ_MIX] = {mix, 2, {8, 8}, {0, 8}},
        [FZ_JOIN] = {join, 3, {8, 8, 8}, {0, 8, 16}},
        [FZ_SPAN] = {span, 3, {8, 4, 8}, {0, 8, 16}},
        [FZ_NONE] = {none, 0, {0}, {0}},
        [FZ_BIG] = {big, 2, {8, sizeof(struct fz_big)}, {0, 8}},
        [FZ_ODD] = {odd,
                    6,
                    {1, 2, 8, 1, 4, 12},
                    {offsetof(struct fz_odd, a), offsetof(struct fz_odd, b),
                     offsetof(struct fz_odd, x), offsetof(struct fz_odd, c),
                     offsetof(struct fz_odd, d), offsetof(struct fz_odd, e)}},
        [FZ_PUBLISH] = {publish, 2, {8, 4}, {0, 8}},
        [FZ_AWAIT] = {await, 2, {8, 4}, {0, 8}},
        [FZ_SLOW] = {slow, 1, {4}, {0}},
    };
    for (int i = 0; i < FZ_ALL_KERNELS; i++)
        cuSimRegisterKernel(fz_kernel_names[i], kernels[i].fn, kernels[i].count, kernels[i].offsets,
                            kernels[i].sizes, i == FZ_AWAIT ? CUSIM_MAY_BLOCK : 0);
}
