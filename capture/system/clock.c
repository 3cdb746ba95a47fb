/* clock.c - the rate of the processor's counter. */
#include "capture/system/clock.h"
#include "capture/system/hot.h"

enum { FAKED_NS = 10000000 };

bool ag_clock_is_faked;

/* Whether the clock stands still, or is far from the kernel's. Where that cannot be asked, there is
 * no other. */
static bool is_faked(void)
{
    struct timespec t;
    if (syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t))
        return false;
    uint64_t before = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    ag_clock_is_faked = false;
    uint64_t shown = ag_clock_monotonic_ns();
    ag_clock_is_faked = true;
    uint64_t after = ag_clock_monotonic_ns();
    ag_clock_is_faked = false;
    return ag_clock_monotonic_ns() == shown || shown + FAKED_NS < before ||
           shown > after + FAKED_NS;
}

#if defined(__x86_64__)
struct ag_clock ag_clock AG_HOT;

enum {
    MEASURED_NS = 1000000,
    ATTEMPTS = 10,
    CLOSE = 256, /* the two clocks must be read within this fraction of the measured time */
};

/* Reads both clocks; returns how many ticks lay between the readings. */
static uint64_t read_both(uint64_t *ns, uint64_t *ticks)
{
    uint64_t before = __builtin_ia32_rdtsc();
    *ns = ag_clock_monotonic_ns();
    uint64_t after = __builtin_ia32_rdtsc();
    *ticks = before + (after - before) / 2;
    return after - before;
}

void ag_clock_start(void)
{
    ag_clock_is_faked = is_faked();
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < ATTEMPTS; i++) {
        uint64_t ns, ticks, apart = read_both(&ns, &ticks);
        if (apart < best) {
            best = apart;
            ag_clock.start_ns = ns;
            ag_clock.start_ticks = ticks;
        }
    }
}

/* If a thread was interrupted between the two readings, it leaves the rate to the next caller. */
uint64_t ag_clock_scaling_ns(void)
{
    uint64_t now, ticks, unknown = 0, apart = read_both(&now, &ticks);
    uint64_t passed = now - ag_clock.start_ns;
    ticks -= ag_clock.start_ticks;
    if (ag_clock.start_ns && passed > MEASURED_NS && apart < ticks / CLOSE)
        atomic_compare_exchange_strong_explicit(
            &ag_clock.scale, &unknown, (uint64_t)(((unsigned __int128)passed << 32) / ticks),
            memory_order_relaxed, memory_order_relaxed);
    return now;
}
#else
void ag_clock_start(void)
{
    ag_clock_is_faked = is_faked();
}
#endif
