/*
 * state.h - why hooks submit at once: the process-wide states, and the one way in and out of them.
 *
 * Each reason is a bit in two words. `eager` is read under a stream's lock: while any bit is set,
 * no op of any stream is deferred. `bypass` is read before any lock: while any bit is set, hooks
 * pass straight to the driver. To enter a state,
 *
 *  1. set its bit in `eager`: ops that take their stream's lock from now on are not deferred;
 *  2. take every stream's lock once and submit what the stream has deferred, even if it seems to
 *     have nothing: now an op that takes no lock has nothing left to overtake;
 *  3. set its bit in `bypass`.
 *
 * ag_state_enter() (enter.h) does all three. The only other way to set a bit is ag_state_set(),
 * which submits nothing. Two callers use it: the child of a fork, in which the other threads and
 * the locks that they held are gone; and a signal handler that has interrupted the library and
 * ends the process.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum ag_reason {
    AG_EAGER_OFF = 1,      /* AUTOGRAPH=0, or not started; for good */
    AG_EAGER_FORKED = 2,   /* in the child of a fork; for good */
    AG_EAGER_END = 4,      /* the process ends; for good */
    AG_EAGER_CAPTURE = 8,  /* the program has an active stream capture */
    AG_EAGER_BROKEN = 16,  /* an error has ended a context that still exists */
    AG_EAGER_OBSERVE = 32, /* the library replays nothing: every stream is dormant; for good */
};

struct ag_state {
    _Atomic uint32_t eager, bypass; /* enum ag_reason */
    _Atomic uint32_t captures;      /* the program's active stream captures */
    _Atomic uint32_t observe_only;  /* enum ag_observe: who decided to build no graph */
};

enum ag_observe {
    AG_OBSERVE_NOT,
    AG_OBSERVE_WANTED, /* by the user, who wants to see everything */
    AG_OBSERVE_OWN,    /* by the library's own decision: every stream is dormant */
};

extern struct ag_state ag_state;

/* The first and the last step of ag_state_enter(). After the first, nothing more is deferred.
 * After the last, hooks bypass the library, unless somebody has left the state meanwhile. */
void ag_state_defer_nothing(enum ag_reason reason);
void ag_state_pass_by(enum ag_reason reason);
void ag_state_leave(enum ag_reason reason);
void ag_state_set(enum ag_reason reason);
static inline bool ag_state_is(enum ag_reason reason)
{
    return atomic_load_explicit(&ag_state.eager, memory_order_relaxed) & (uint32_t)reason;
}

/* Whether ops must not be deferred. Call it under a stream's lock. */
static inline bool ag_state_is_eager(void)
{
    return __builtin_expect(atomic_load_explicit(&ag_state.eager, memory_order_relaxed) != 0, 0);
}

/* Whether a hook passes straight to the driver. */
static inline bool ag_state_bypasses(void)
{
    return __builtin_expect(atomic_load_explicit(&ag_state.bypass, memory_order_relaxed) != 0, 0);
}

/* The same, but only for reasons that can pass: a stream capture or a broken context. */
static inline bool ag_state_bypasses_for_now(void)
{
    return atomic_load_explicit(&ag_state.bypass, memory_order_relaxed) &
           (uint32_t)(AG_EAGER_CAPTURE | AG_EAGER_BROKEN);
}

/* Whether the library's decision to replay nothing is the only reason. */
static inline bool ag_state_only_observes(void)
{
    return atomic_load_explicit(&ag_state.eager, memory_order_relaxed) == AG_EAGER_OBSERVE;
}

/* Whether no graph is built, by anybody's decision. */
static inline bool ag_state_builds_nothing(void)
{
    return atomic_load_explicit(&ag_state.observe_only, memory_order_relaxed) != AG_OBSERVE_NOT;
}

/* Whether the program has an active stream capture. */
static inline bool ag_state_captures(void)
{
    return atomic_load(&ag_state.captures) != 0;
}

/* Whether the library keeps track of anything. Stream captures and broken contexts end again; every
 * other reason lasts as long as the process. */
static inline bool ag_state_tracks(void)
{
    return !(atomic_load_explicit(&ag_state.bypass, memory_order_relaxed) &
             ~(uint32_t)(AG_EAGER_CAPTURE | AG_EAGER_BROKEN));
}
