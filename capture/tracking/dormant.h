/*
 * dormant.h - launches that pass unseen, while the observer of their stream sleeps
 * (policy/observe.c).
 *
 * A hook asks ag_dormant_passes() before anything else and jumps to the driver where it says so: no
 * lock, no call, nothing of the launch is stored. What must hold:
 *
 *  - `active` is set and cleared under the lock of the stream, and is only set while nothing of the
 *    stream is deferred and its policy follows nothing. So what passes overtakes nothing: a
 * deferral that the program has ordered before a launch is one whose thread found `active` cleared,
 * and then the launch does too. A launch that looked before it was cleared, and reaches the driver
 *    after, runs beside the other thread's launches, in no order with them.
 *  - `left` is a count without meaning for order. Threads that share a stream may lose some of each
 *    other's steps, and one that slept in between may write an old value.
 *  - What the legacy default stream orders before the launch is not held back at that moment: the
 *    counter that tells is looked at with every launch.
 */
#ifndef AG_NAP_H
#define AG_NAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct ag_dormant {
    _Atomic uint32_t active;
    _Atomic uint32_t left;    /* ops to pass */
    _Atomic uint32_t granted; /* of so many; 0 while awake. Nobody decides by it */
};

/* The streams of this thread that sleep, as the program names them: NULL is the legacy default
 * stream. Void when ag_stream_generation has changed. */
enum { AG_NAP_SLOTS = 4 };
struct ag_dormant_streams {
    uint64_t generation;
    struct ag_dormant_slot {
        const void *stream;
        struct ag_dormant *dormant;
        const _Atomic uint32_t *held; /* not 0: what must go first is held back elsewhere */
    } slots[AG_NAP_SLOTS];
};
extern __thread struct ag_dormant_streams ag_dormant_streams
    __attribute__((tls_model("initial-exec")));

/* Changes when a stream goes, and when one comes that others are ordered with. */
extern _Atomic uint64_t ag_stream_generation;

#define AG_NAP_MULTIPLIER 0x9E3779B97F4A7C15ull
static inline uint32_t ag_dormant_slot_of(const void *stream)
{
    return (uint32_t)((uint64_t)(uintptr_t)stream * AG_NAP_MULTIPLIER >> 62);
}

/* One op less, if there are any left. */
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

/* Whether a launch on this stream is to go straight to the driver. Not to be asked for NULL where
 * that is the per-thread default stream. */
static inline __attribute__((always_inline)) bool ag_dormant_passes(const void *stream)
{
    const struct ag_dormant_slot *slot = &ag_dormant_streams.slots[ag_dormant_slot_of(stream)];
    return slot->stream == stream &&
           ag_dormant_streams.generation ==
               atomic_load_explicit(&ag_stream_generation, memory_order_acquire) &&
           ag_dormant_is_active(slot->dormant) &&
           !atomic_load_explicit(slot->held, memory_order_relaxed) &&
           ag_dormant_step(slot->dormant);
}

#endif
