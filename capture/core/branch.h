/* branch.h - which streams become branches of others (capture/tracking/fork.h), and for how long.
 */
#pragma once

#include "capture/tracking/fork.h"

/* Whether an op of that stream cannot go to the driver without the functions below. */
static inline bool ag_branch_concerns(const struct ag_stream *home, const struct ag_incoming *in)
{
    return __builtin_expect(ag_stream_forks(home) || in->kind >= AG_OP_RECORD, 0);
}

/* Whether the fork that the op came to has ended since: its stream has met graphs that do not pay,
 * and is dormant. */
static inline bool ag_branch_has_ended(const struct ag_stream *home, const struct ag_incoming *in)
{
    return __builtin_expect(in->branch || in->kind >= AG_OP_RECORD, 0) && !ag_stream_forks(home);
}

/* The caller of these three holds the lock of `home`, whose engine has the op. */

/* The program's thread makes this call next. Nothing that comes before it is held back. */
void ag_branch_calls(struct ag_stream *home, const struct ag_incoming *in);
/* The same of an op that cannot be recorded. What is held back goes first, and the op's stream is a
 * branch no longer. Does nothing if the op is of no fork. */
void ag_branch_passes(struct ag_stream *home, const struct ag_incoming *in);
/* The driver gets a call on the branch's stream (0: on that of `home`) that is no op. If it is
 * `foreign` to a fork, the branch is one no longer. Does nothing if the fork has ended. */
void ag_branch_meets(struct ag_stream *home, uint8_t branch, bool foreign);

/* The driver gets all records and waits of all forks. The caller holds no lock. */
void ag_forks_catch_up(void);

/* Another thread begins to launch to the stream, which has an origin or branches. */
void ag_branch_changes_hands(struct ag_stream *s);

/* ag_branches_end() for all streams. */
void ag_forks_end(void);
/* Something begins to wait, for the program perhaps. The caller's forks end. Those of another
 * thread end before that one's next op (AG_FORK_IS_OVER): it may wait in the driver for room in a
 * full queue, and what it has made comes before the wait. The caller holds no lock. */
void ag_forks_end_for_wait(void);
/* An op, record or wait comes to the stream, which is AG_FORK_IS_OVER. The caller holds no lock. */
__attribute__((cold)) void ag_branch_is_over(struct ag_stream *s);
/* The program shares an event with another process: it has no branches from now on. */
void ag_forks_meet_shared_events(void);

/* `s` has waited for an event that `of` recorded last, when it was the stream of that serial:
 * perhaps one of the two becomes a branch of the other. The caller holds no lock. */
void ag_branch_waited(struct ag_stream *s, struct ag_stream *of, uint64_t serial);

/* Whether no stream waits for something outside the GPU. Also false if that cannot be found out
 * now.
 */
bool ag_nothing_waits(void);

/* Nobody asks for the stream's events (core/quiet.h): it forks without a branch, if it may. The
 * caller holds no lock. */
void ag_branch_begins_alone(struct ag_stream *s);

/* Something else than ops, records and waits came to the stream: it begins anew to become a branch.
 */
static inline void ag_branch_is_foreign(struct ag_stream *s)
{
    atomic_store_explicit(&s->suitor, NULL, memory_order_relaxed);
}
