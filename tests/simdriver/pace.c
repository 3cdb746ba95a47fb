/* pace.c - SIMCUDA_PACE: calls and kernels take time, as on a real driver and GPU. */
#include "sim.h"
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

/* A real launch queue holds about as many; a call with one more waits. */
enum { MOST_AHEAD = 1024 };

struct sim_pace sim_pace;
static _Atomic bool busy; /* a call is under way: the driver makes one at a time */

bool sim_pace_parse(const char *text)
{
    struct sim_pace p;
    char rest;
    if (sscanf(text, "%u:%u:%u:%u%c", &p.launch_ns, &p.graph_ns, &p.update_ns, &p.kernel_ns,
               &rest) != 4)
        return false;
    p.on = true;
    sim_pace = p;
    return true;
}

static void spin_until(uint64_t ns)
{
    while (sim_now_ns() < ns)
        ;
}

void sim_pace_call(uint64_t ns)
{
    if (!sim_pace.on)
        return;
    while (atomic_exchange(&busy, true))
        sched_yield();
    spin_until(sim_now_ns() + ns);
    atomic_store(&busy, false);
}

void sim_pace_submit(struct sim_stream *s, uint64_t ns, unsigned int kernels)
{
    sim_pace_call(ns);
    uint64_t ahead = (uint64_t)MOST_AHEAD * sim_pace.kernel_ns;
    uint64_t idle_at = atomic_load(&s->idle_at), begins;
    spin_until(idle_at > ahead ? idle_at - ahead : 0);
    do {
        uint64_t now = sim_now_ns();
        begins = idle_at > now ? idle_at : now;
    } while (!atomic_compare_exchange_weak(&s->idle_at, &idle_at,
                                           begins + (uint64_t)kernels * sim_pace.kernel_ns));
}

void sim_pace_wait(struct sim_stream *s)
{
    spin_until(atomic_load(&s->idle_at));
}

bool sim_pace_is_idle(struct sim_stream *s)
{
    return !sim_pace.on || atomic_load(&s->idle_at) <= sim_now_ns();
}
