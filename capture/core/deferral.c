/* deferral.c - see deferral.h. */
#include "capture/core/deferral.h"
#include "capture/tracking/state.h"
#include "capture/core/watchdog.h"

/* A dormant stream was open for the error alone. */
__attribute__((hot)) CUresult ag_stream_tell(struct ag_stream *s)
{
    CUresult r = s->pending;
    if (__builtin_expect(r != CUDA_SUCCESS, 0)) {
        s->pending = CUDA_SUCCESS;
        ag_thread.told_of = s->handle;
        ag_thread.told_in = s->context;
        if (ag_dormant_is_active(&s->dormant) && !(s->ring && s->ring->active))
            ag_stream_close(s);
    }
    return r;
}

__attribute__((hot)) static void begins(struct ag_stream *s, enum ag_deferring how)
{
    /* While hooks bypass the locks they would overtake ops that are deferred now. This does not
     * cover the end of the process and the child of a fork: there they do overtake. */
    if (ag_state_bypasses_for_now()) {
        ag_engine_broken(&s->engine, "ops are deferred only while hooks see every call");
        return;
    }
    atomic_fetch_add_explicit(&s->deferrals, 1, memory_order_relaxed);
    if (atomic_load_explicit(&s->deferring, memory_order_relaxed) == AG_DEFERS_HANDED) {
        atomic_store_explicit(&s->deferring, how, memory_order_relaxed);
        return;
    }
    _Atomic uint32_t *held = ag_stream_held(s);
    if (held)
        atomic_fetch_add(held, 1);
    atomic_store(&s->deferring,
                 how); /* sequentially consistent: the watchdog may be going to sleep */
    ag_stream_becomes_busy(s);
    ag_watchdog_arm();
}

__attribute__((hot)) static void ends(struct ag_stream *s)
{
    if (!atomic_load_explicit(&s->deferring, memory_order_relaxed))
        return;
    _Atomic uint32_t *held = ag_stream_held(s);
    uint32_t others = held ? atomic_fetch_sub(held, 1) : 1;
    atomic_store_explicit(&s->deferring, AG_DEFERS_NOTHING, memory_order_release);
    if (others)
        return;
    atomic_store(held, 0);
    ag_engine_broken(&s->engine, "a stream that defers and is ordered with others is counted");
}

__attribute__((hot)) void ag_deferring_begins(struct ag_stream *s)
{
    begins(s, AG_DEFERS);
}

__attribute__((hot)) void ag_deferring_ends(struct ag_stream *s)
{
    const struct ag_ring *ring = s->ring;
    if (ring && ring->active)
        atomic_store_explicit(&s->deferring, AG_DEFERS_HANDED, memory_order_release);
    else
        ends(s);
}

void ag_deferring_begins_in_ring(struct ag_stream *s)
{
    begins(s, AG_DEFERS_HANDED);
}

uint64_t ag_deferring_since(const struct ag_stream *s)
{
    struct ag_ring *ring = atomic_load(&s->ring);
    uint64_t first = ring ? ag_ring_first_number(ring) : 0;
    return first ? first : atomic_load(&s->deferrals);
}

void ag_deferring_settled(struct ag_stream *s)
{
    if (atomic_load_explicit(&s->deferring, memory_order_relaxed) == AG_DEFERS_HANDED)
        ends(s);
}
