/*
 * dormant.h - launches that go straight to the driver while their stream is dormant
 * (policy/observe.c).
 *
 * A hook calls ag_dormant_passes() first. If that returns true, the hook jumps to the driver: it
 * takes no lock, calls nothing and stores nothing of the launch. What must hold:
 *
 *  - `active` is set and cleared under the stream's lock. It is set only while the stream has
 *    nothing deferred and its policy follows no sequence. So a launch that passes overtakes
 *    nothing: if the program ordered a deferral before the launch, then the deferring thread found
 *    `active` cleared, and so does the launch. A launch that read `active` before it was cleared,
 *    but reaches the driver after, runs beside the other thread's launches and is not ordered with
 *    them.
 *  - `left` is only an approximate count. Threads that share a stream may lose some of each
 *    other's steps, and a thread that was suspended in between may write an old value.
 *  - Nothing that the legacy default stream orders before the launch is held back at that moment:
 *    each launch reads the counter that shows it.
 */
#pragma once

#include "capture/system/current.h"
#include "driver/entries.h"

struct ag_dormant {
    _Atomic uint32_t active;
    _Atomic uint32_t left;    /* ops still to pass */
    _Atomic uint32_t granted; /* ops granted at first; 0 while awake. Nothing depends on it */
};

/* What threads keep of streams (ag_thread) is void once it has changed. It changes when a stream is
 * removed, when its context may end from here on, and when one is added that others are ordered
 * with. */
extern _Atomic uint64_t ag_stream_generation;

#define AG_DORMANT_MULTIPLIER 0x9E3779B97F4A7C15ull
static inline uint32_t ag_dormant_slot_of(const void *stream)
{
    return (uint32_t)((uint64_t)(uintptr_t)stream * AG_DORMANT_MULTIPLIER >> 62);
}

/* Counts one op down; false if none is left. */
static inline __attribute__((always_inline)) bool ag_dormant_step(struct ag_dormant *dormant)
{
    uint32_t left = atomic_load_explicit(&dormant->left, memory_order_relaxed);
    if (!left)
        return false;
    atomic_store_explicit(&dormant->left, left - 1, memory_order_relaxed);
    return true;
}

static inline bool ag_dormant_is_active(const struct ag_dormant *dormant)
{
    return __builtin_expect(atomic_load_explicit(&dormant->active, memory_order_relaxed), 0);
}

/* Whether a launch on this stream goes straight to the driver. `ptsz`: NULL is the calling thread's
 * own default stream. */
static inline __attribute__((always_inline)) bool ag_dormant_passes(const void *stream, bool ptsz)
{
    if (ptsz && !stream)
        stream = CU_STREAM_PER_THREAD;
    const struct ag_dormant_slot *slot = &ag_thread.dormant[ag_dormant_slot_of(stream)];
    return slot->stream == stream &&
           ag_thread.generation ==
               atomic_load_explicit(&ag_stream_generation, memory_order_acquire) &&
           ag_dormant_is_active(slot->dormant) &&
           !atomic_load_explicit(slot->held, memory_order_relaxed) &&
           ag_dormant_step(slot->dormant);
}
