/*
 * deferral.h - what others can see of a stream that holds something back, without its lock
 * (ag_stream.deferring, ag_open_streams), and what the driver had to say of it. The caller holds
 * the stream's lock.
 */
#pragma once

#include "capture/tracking/stream.h"

/* The engine holds ops back; it does no more. */
void ag_deferring_begins(struct ag_stream *s);
void ag_deferring_ends(struct ag_stream *s);
/* A chunk is about to go into the stream's ring. Its ops were held back already, or its only op
 * comes now. */
static inline void ag_deferring_hands(struct ag_stream *s)
{
    bool held = atomic_load_explicit(&s->deferring, memory_order_relaxed) == AG_DEFERS;
    uint64_t deferrals = atomic_load_explicit(&s->deferrals, memory_order_relaxed);
    ag_ring_note_number(s->ring, held ? deferrals : deferrals + 1);
}
/* It went there; the ring is at rest again. */
void ag_deferring_begins_in_ring(struct ag_stream *s);
static inline void ag_deferring_handed(struct ag_stream *s)
{
    if (atomic_load_explicit(&s->deferring, memory_order_relaxed) != AG_DEFERS)
        ag_deferring_begins_in_ring(s);
}
void ag_deferring_settled(struct ag_stream *s);

/* Which deferral (ag_stream.deferrals) the oldest op belongs to that the stream holds back. Needs
 * no lock. */
uint64_t ag_deferring_since(const struct ag_stream *s);

/* Returns the stream's unreported error, once, for a sync point or a launch to pass on. */
CUresult ag_stream_tell(struct ag_stream *s);
