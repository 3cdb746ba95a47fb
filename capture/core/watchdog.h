/*
 * watchdog.h - the thread that submits what has been held back for too long.
 *
 * The thread looks every AUTOGRAPH_MAX_DEFER_US / 2, and submits what a stream already held back at
 * the look before. So nothing waits longer than that time plus the scheduling of one thread, and
 * the launch path keeps no timestamps. A stream that had to wait that long is likely to do so
 * again: a program that polls memory makes no call which says so. So the looks come faster for a
 * while. When no stream has deferred anything for a while, the thread sleeps until one does. While
 * the thread waits in the driver for room in a stream's queue, another thread takes its place.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* BUSY: the thread on watch is in the driver. */
enum { AG_WATCHDOG_ABSENT, AG_WATCHDOG_ASLEEP, AG_WATCHDOG_AWAKE, AG_WATCHDOG_BUSY };
extern _Atomic uint32_t ag_watchdog_state;

struct ag_stream;
/* Call it once, before there are streams. The watchdog calls `submits` with a stream that has held
 * ops back for too long, under that stream's lock. */
void ag_watchdog_start(void (*submits)(struct ag_stream *stream));

void ag_watchdog_wake(void);

/* Whether the thread runs or can be started, and will get a processor. If not, nothing may be held
 * back. */
bool ag_watchdog_is_ready(void);

/* Call it when a stream has begun to defer, after a sequentially consistent store that the watchdog
 * reads (ag_stream.deferring). */
static inline void ag_watchdog_arm(void)
{
    if (__builtin_expect(atomic_load(&ag_watchdog_state) != AG_WATCHDOG_AWAKE, 0))
        ag_watchdog_wake();
}

void ag_watchdog_stop(void);
