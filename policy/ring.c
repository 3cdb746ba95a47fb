/* ring.c - see ring.h. */
#include "policy/ring.h"
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 64u /* of the arguments, and so that no two chunks share a cache line */

/* Where `n` bytes fit in that are not in use; AG_RING_BYTES: nowhere. What is in use goes from the
 * first chunk in the ring to the last, or from the first to the end and on from the beginning. */
static uint32_t place_for(const struct ag_ring *r, uint32_t taken, uint32_t put, uint32_t n)
{
    const struct ag_ring_slot *first = &r->slots[taken % AG_RING_SLOTS];
    const struct ag_ring_slot *last = &r->slots[(put - 1) % AG_RING_SLOTS];
    if (put == taken)
        return 0;
    if (last->at < first->at)
        return n < first->at - last->end ? last->end : AG_RING_BYTES;
    if (n <= AG_RING_BYTES - last->end)
        return last->end;
    return n < first->at ? 0 : AG_RING_BYTES;
}

bool ag_ring_put(struct ag_ring *r, void *graphs, uint32_t ops, const uint8_t *bytes, uint32_t n)
{
    uint32_t put = atomic_load_explicit(&r->put, memory_order_relaxed);
    uint32_t taken = atomic_load_explicit(&r->taken, memory_order_acquire);
    uint64_t held = r->put_ops - atomic_load_explicit(&r->taken_ops, memory_order_relaxed);
    uint32_t aligned = (n + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
    if (n > AG_RING_BYTES || put - taken == AG_RING_SLOTS ||
        (put != taken && held + ops > AG_RING_CREDIT) ||
        (!r->bytes && !(r->bytes = aligned_alloc(ALIGNMENT, AG_RING_BYTES))))
        return false;
    uint32_t at = place_for(r, taken, put, aligned);
    if (at == AG_RING_BYTES && n)
        return false;
    memcpy(r->bytes + at, bytes, n);
    r->slots[put % AG_RING_SLOTS] =
        (struct ag_ring_slot){graphs, r->bytes + at, at, at + aligned, ops};
    r->put_ops += ops;
    r->active = true;
    /* sequentially consistent: whoever takes chunks out may be going to sleep */
    atomic_store(&r->put, put + 1);
    return true;
}
