/* launch.h - what memsets and copies share with kernel launches. */
#ifndef AG_CORE_LAUNCH_H
#define AG_CORE_LAUNCH_H

#include "capture/capture.h"
#include "capture/tracking/stream.h"

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
bool ag_incoming_is_of(const struct ag_incoming *in, const struct ag_stream *s);
/* The calling thread launches to the stream. */
void ag_stream_set_owner(struct ag_stream *s);
/* It puts something else there, or what nobody looks at. Call it before the driver can have that,
 * and before any lock under which the library tells others of it. */
void ag_stream_is_used(struct ag_stream *s);

#endif
