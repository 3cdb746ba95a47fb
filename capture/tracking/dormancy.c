/* dormancy.c - see dormancy.h. */
#include "capture/tracking/dormancy.h"
#include "capture/tracking/fork.h"

static void (*settle_ring)(struct ag_stream *);

void ag_dormancy_start(void (*settle)(struct ag_stream *stream))
{
    settle_ring = settle;
}

void ag_stream_goes_dormant(struct ag_stream *s)
{
    if (s->ring && s->ring->active)
        settle_ring(s); /* what passes unseen must not overtake it */
    ag_fork_end(s);
    uint32_t ops = ag_policy_take_rest(ag_engine_policy(&s->engine));
    atomic_store_explicit(&s->dormant.left, ops, memory_order_relaxed);
    atomic_store_explicit(&s->dormant.granted, ops, memory_order_relaxed);
    atomic_store_explicit(&s->dormant.active, 1, memory_order_release);
    if (s->pending == CUDA_SUCCESS) /* what passes unseen needs no flush */
        ag_stream_close(s);
}

void ag_stream_leaves_dormant(struct ag_stream *s)
{
    if (!ag_dormant_is_active(&s->dormant))
        return;
    atomic_store_explicit(&s->dormant.granted, 0, memory_order_relaxed);
    ag_engine_wake(&s->engine, atomic_exchange(&s->dormant.left, 0));
    atomic_store(&s->dormant.active, 0);
}

/* The counter that is not 0 while something is held back that must go before an op of this stream;
 * ag_flush_for_order() applies the same rule. NULL if no single counter shows it. Read
 * ag_stream_generation before you call this. */
static const _Atomic uint32_t *held_before(struct ag_stream *s)
{
    static const _Atomic uint32_t nothing;
    if (atomic_load(&s->context->ending)) /* its handle may become another's */
        return NULL;
    if ((s->legacy || s->thread) &&
        ag_contexts()->next) /* another context may be current next time */
        return NULL;
    return s->legacy || s->blocking ? ag_stream_held_before(s) : &nothing;
}

void ag_stream_remember_dormant(struct ag_stream *s, CUstream handle)
{
    uint64_t now = atomic_load(&ag_stream_generation);
    const _Atomic uint32_t *held = held_before(s);
    if (!held || atomic_load(&ag_peers_are_known)) /* kernels that wait for peers must be seen */
        return;
    ag_thread_knows_streams_of(now);
    ag_thread.dormant[ag_dormant_slot_of(handle)] =
        (struct ag_dormant_slot){handle, &s->dormant, held};
}
