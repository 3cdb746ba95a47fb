/* passing.h - ops that the program's thread launches at once, because a graph cannot hold them or
 * nothing is held back; and what the driver said of launches. */
#pragma once

#include "capture/core/launch.h"

/* These five make the program's call. The caller holds no lock. */

/* Calls an op while every stream is bypassed. */
CUresult ag_incoming_call_now(const struct ag_incoming *in);
/* Nothing is deferred, for the moment or for good: see state.h. */
CUresult ag_passing_in_eager_state(struct ag_stream *s, const struct ag_incoming *in);
/* The op is not recorded: its signature is `bad`, or it has none, and `why` has the reason. */
CUresult ag_passing_unrecorded(struct ag_stream *s, const struct ag_incoming *in, uint8_t bad,
                               const char *why);
/* A collective kernel waits for its peers. The library builds nothing meanwhile, even if it looks
 * at no other launch of this stream. */
CUresult ag_passing_of_peers(struct ag_stream *s, const struct ag_incoming *in);
/* An op of a stream that is not understood. */
CUresult ag_passing_not_understood(struct ag_stream *s, const struct ag_incoming *in);

/* The program's own call failed. */
CUresult ag_passing_refused(struct ag_stream *s, const struct ag_incoming *in, CUresult r,
                            CUresult pending);
/* It has succeeded, the first of its signature in this context. `disproofs`: before that call. */
void ag_passing_prove(struct ag_stream *s, const struct ag_incoming *in, uint32_t disproofs);

/* Whether a launch that nothing else would look at waits for peers. */
static inline bool ag_passing_waits_for_peers(const struct ag_launch *l)
{
    return __builtin_expect(atomic_load_explicit(&ag_peers_are_known, memory_order_relaxed), 0) &&
           ag_function_waits(l->func, l->stream);
}
