/*
 * state.h - why hooks submit at once: the process-wide states, and the one way in and out of them.
 *
 * Each reason is a bit of two words. `eager` is looked at under a stream's lock: while any bit is
 * set, no op of any stream is deferred. `bypass` is looked at before any lock: hooks pass straight
 * through to the driver. Whoever enters a state
 *
 *   1. sets its bit in `eager`: an op that takes its stream's lock from now on is not deferred;
 *   2. takes the lock of every stream once and submits what it has deferred, whether or not it
 *      seems to have any: now nothing is left that an op which passes by the locks could overtake;
 *   3. sets its bit in `bypass`.
 *
 * ag_state_enter() (enter.h) does all three, and nobody else sets a bit but ag_state_set(), which
 * submits nothing: in the child of a fork, whose other threads are gone with the locks that they
 * held, and in a signal handler that has interrupted the library and ends the process.
 */
#ifndef AG_STATE_H
#define AG_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum ag_reason {
    AG_EAGER_OFF = 1,     /* AUTOGRAPH=0, or not started; for good */
    AG_EAGER_FORKED = 2,  /* in the child of a fork; for good */
    AG_EAGER_END = 4,     /* the process ends; for good */
    AG_EAGER_CAPTURE = 8, /* a capture of the program's is active */
    AG_EAGER_DEAD = 16,   /* an error has ended a context, which is still there */
    AG_EAGER_OBSERVE =
        32, /* the library has decided to replay nothing: every stream sleeps; for good */
};

struct ag_state {
    _Atomic uint32_t eager, bypass; /* enum ag_reason */
    _Atomic uint32_t captures;      /* of the program, active now */
    _Atomic uint32_t observe_only;  /* no graph is built, whoever decided that */
};

enum ag_observe {
    AG_OBSERVE_NOT,
    AG_OBSERVE_WANTED, /* by the user, who wants to see everything */
    AG_OBSERVE_OWN,    /* by the library's own decision: every stream sleeps */
};

extern struct ag_state ag_state;

/* The first step and the last, of ag_state_enter(): nothing is deferred any more; hooks pass by,
 * unless somebody has left the state meanwhile. */
void ag_state_defer_nothing(enum ag_reason reason);
void ag_state_pass_by(enum ag_reason reason);
void ag_state_leave(enum ag_reason reason);
/* Without submitting anything: for the child of a fork, and for a thread that ends the process in a
 * signal handler while it holds a lock. */
void ag_state_set(enum ag_reason reason);
static inline bool ag_state_is(enum ag_reason reason)
{
    return atomic_load_explicit(&ag_state.eager, memory_order_relaxed) & (uint32_t)reason;
}

/* Whether nothing is to be deferred. To be asked under a stream's lock. */
static inline bool ag_state_is_eager(void)
{
    return __builtin_expect(atomic_load_explicit(&ag_state.eager, memory_order_relaxed) != 0, 0);
}

/* Whether a hook passes straight to the driver. */
static inline bool ag_state_bypasses(void)
{
    return __builtin_expect(atomic_load_explicit(&ag_state.bypass, memory_order_relaxed) != 0, 0);
}

/* The same, until a capture or a broken context has ended. */
static inline bool ag_state_bypasses_for_now(void)
{
    return atomic_load_explicit(&ag_state.bypass, memory_order_relaxed) &
           (uint32_t)(AG_EAGER_CAPTURE | AG_EAGER_DEAD);
}

/* Whether the library has decided to replay nothing, and there is no other reason. */
static inline bool ag_state_only_observes(void)
{
    return atomic_load_explicit(&ag_state.eager, memory_order_relaxed) == AG_EAGER_OBSERVE;
}

/* Whether no graph is built, whoever decided that. */
static inline bool ag_state_builds_nothing(void)
{
    return atomic_load_explicit(&ag_state.observe_only, memory_order_relaxed) != AG_OBSERVE_NOT;
}

/* Whether a capture of the program's is active. */
static inline bool ag_state_captures(void)
{
    return atomic_load(&ag_state.captures) != 0;
}

/* Whether the library keeps track of anything: captures and dead contexts end again, the rest lasts
 * as long as the process. */
static inline bool ag_state_tracks(void)
{
    return !(atomic_load_explicit(&ag_state.bypass, memory_order_relaxed) &
             ~(uint32_t)(AG_EAGER_CAPTURE | AG_EAGER_DEAD));
}

#endif
