/* waited.c - see waited.h. */
#include "capture/report/waited.h"
#include "capture/tracking/count.h"

static _Atomic uint64_t counts[AG_LIVE_WAITS];
static _Atomic uint64_t longest_ns;

void ag_waited(uint64_t ns)
{
    uint64_t longest = atomic_load_explicit(&longest_ns, memory_order_relaxed);
    ag_count_by(AG_COUNT_HANDED_WAIT_NS, ns);
    while (longest < ns && !atomic_compare_exchange_weak(&longest_ns, &longest, ns))
        ;
    atomic_fetch_add(&counts[ag_live_wait_place(ns)], 1);
}

/* The longest is read last: it is then no less than any that is counted. */
void ag_waited_fill(struct ag_live_waits *w)
{
    for (uint32_t i = 0; i < AG_LIVE_WAITS; i++)
        w->counts[i] = atomic_load(&counts[i]);
    w->longest_ns = atomic_load(&longest_ns);
}
