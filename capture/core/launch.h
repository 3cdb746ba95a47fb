/* launch.h - what memsets and copies share with kernel launches. */
#pragma once

#include "capture/tracking/fork.h"

/* What the program's call returns: its own result, or an error that the stream has kept. */
static inline CUresult ag_incoming_first_error(const struct ag_incoming *in, CUresult r,
                                               CUresult pending)
{
    if (__builtin_expect(r == CUDA_SUCCESS && pending == CUDA_SUCCESS, 1))
        return CUDA_SUCCESS;
    return ag_core_stream_first_error(ag_incoming_stream(in), false, r, pending);
}

/* A memset or a copy that a graph can hold. */
CUresult ag_incoming_arrives(struct ag_stream *s, struct ag_incoming *in);
/* A record or a wait of a stream that has branches, or of one of these. The caller holds the lock
 * of that stream and has seen that nothing keeps the op from it; this function releases the lock.
 */
CUresult ag_incoming_of_fork(struct ag_stream *s, const struct ag_incoming *in);

/* Whether the stream, whose lock the caller holds, is alive and has the ops of the op's handle. */
static inline bool ag_incoming_is_of(const struct ag_incoming *in, const struct ag_stream *s)
{
    CUstream handle = ag_incoming_stream(in);
    if (__builtin_expect(!in->branch, 1))
        return ag_stream_is(s, handle);
    const struct ag_stream *branch =
        ag_stream_is_live(s) && ag_stream_forks(s) ? s->fork->streams[in->branch] : NULL;
    return branch && branch->handle == handle;
}

bool ag_stream_becomes_own(struct ag_stream *s);
/* The calling thread launches to the stream. False: no thread may own it that runs a host
 * function. */
static inline bool ag_stream_set_owner(struct ag_stream *s)
{
    return __builtin_expect(ag_stream_is_own(s), 1) || ag_stream_becomes_own(s);
}
/* It puts something else there, or what nobody looks at. Call it before the driver can have that,
 * and before any lock under which the library tells others of it. */
void ag_stream_is_used(struct ag_stream *s);
