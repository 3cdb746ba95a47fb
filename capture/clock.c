/* clock.c - the rate of the processor's counter. */
#include "capture/clock.h"

#if defined(__x86_64__)
uint64_t ag_clock_scale;

void ag_clock_start(void)
{
    struct timespec pause = {0, 1000000};
    uint64_t t0 = ag_clock_monotonic_ns(), c0 = __builtin_ia32_rdtsc();
    nanosleep(&pause, NULL);
    uint64_t t1 = ag_clock_monotonic_ns(), c1 = __builtin_ia32_rdtsc();
    if (c1 > c0)
        ag_clock_scale = (uint64_t)(((unsigned __int128)(t1 - t0) << 32) / (c1 - c0));
}
#else
void ag_clock_start(void)
{
}
#endif
