/*
 * clock.h - a clock that costs a few nanoseconds: the processor's own counter, scaled once against
 * CLOCK_MONOTONIC. It is for intervals, not for dates.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Another preloaded library answers for the clock (libfaketime): it may stand still, and waits that
 * end by it would not. The kernel is then asked by a system call, which takes many times as long.
 */
extern bool ag_clock_is_faked;

static inline uint64_t ag_clock_monotonic_ns(void)
{
    struct timespec t;
    if (__builtin_expect(ag_clock_is_faked, 0))
        syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
    else
        clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#if defined(__x86_64__)
/* Both clocks at ag_clock_start(), and ns per tick in 32.32 fixed point. The scale is 0 until it
 * is known. */
extern struct ag_clock {
    uint64_t start_ns, start_ticks;
    _Atomic uint64_t scale;
} ag_clock;
uint64_t ag_clock_scaling_ns(void);
static inline uint64_t ag_clock_ns(void)
{
    uint64_t scale = atomic_load_explicit(&ag_clock.scale, memory_order_relaxed);
    if (__builtin_expect(!scale, 0))
        return ag_clock_scaling_ns();
    uint64_t ticks = __builtin_ia32_rdtsc() - ag_clock.start_ticks;
    return ag_clock.start_ns + (uint64_t)(((unsigned __int128)ticks * scale) >> 32);
}
#else
static inline uint64_t ag_clock_ns(void)
{
    return ag_clock_monotonic_ns();
}
#endif

/* Starts measuring the counter's rate, which takes a millisecond. Before that and meanwhile the
 * clock is CLOCK_MONOTONIC; the change causes no step. Nobody waits for the measurement. */
void ag_clock_start(void);
