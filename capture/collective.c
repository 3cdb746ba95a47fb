/*
 * collective.c - kernels that wait for other GPUs. Building allocates device memory, which may wait
 * for the GPU, which waits for its peers: nothing is built until they have ended.
 */
#include "capture/graph.h"

static _Atomic bool collectives; /* some stream has its mark set */

void ag_builder_collective(struct ag_stream *s)
{
    bool entered = ag_context_enter(s);
    ag_lock(&s->lock);
    if (!s->behind_collective)
        AG_REAL(cuEventCreate)(&s->behind_collective, CU_EVENT_DISABLE_TIMING);
    if (s->behind_collective)
        AG_REAL(cuEventRecord)(s->behind_collective, s->handle);
    ag_unlock(&s->lock);
    ag_context_leave(entered);
    atomic_store(&s->collective, true);
    atomic_store(&collectives, true);
}

/* Whether no collective can be in flight. No lock is held. */
bool ag_collectives_at_rest(void)
{
    size_t n;
    bool rest = true;
    if (!atomic_exchange(&collectives, false))
        return true;
    struct ag_stream **streams = ag_streams_snapshot(&n);
    for (size_t i = 0; i < n; i++) {
        if (!atomic_exchange(&streams[i]->collective, false))
            continue;
        bool entered = ag_context_enter(streams[i]);
        if (AG_REAL(cuEventQuery)(streams[i]->behind_collective) == CUDA_ERROR_NOT_READY) {
            atomic_store(&streams[i]->collective, true);
            rest = false;
        }
        ag_context_leave(entered);
    }
    ag_streams_release(streams, n);
    if (!rest)
        atomic_store(&collectives, true);
    return rest;
}

bool ag_collectives_pending(void)
{
    return atomic_load(&collectives);
}
