/*
 * clock.h - a clock that costs a few nanoseconds: the processor's own counter, scaled once against
 * CLOCK_MONOTONIC. It is for intervals, not for dates.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

static inline uint64_t ag_clock_monotonic_ns(void)
{
    struct timespec t;
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
