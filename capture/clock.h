/*
 * clock.h - a clock that costs a few nanoseconds: the processor's own counter, scaled once against
 * CLOCK_MONOTONIC. For intervals, not for dates.
 */
#ifndef AG_CLOCK_H
#define AG_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t ag_clock_monotonic_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#if defined(__x86_64__)
extern uint64_t ag_clock_scale; /* ns per tick, 32.32 fixed point; 0 before ag_clock_start() */
static inline uint64_t ag_clock_ns(void)
{
    if (__builtin_expect(!ag_clock_scale, 0))
        return ag_clock_monotonic_ns();
    return (uint64_t)(((unsigned __int128)__builtin_ia32_rdtsc() * ag_clock_scale) >> 32);
}
#else
static inline uint64_t ag_clock_ns(void)
{
    return ag_clock_monotonic_ns();
}
#endif

/* Measures the counter's rate; takes about a millisecond. */
void ag_clock_start(void);

#endif
