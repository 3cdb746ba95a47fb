/* ring.c - see ring.h. */
#include "policy/ring.h"
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 64u /* of the arguments, and so that no two slots share a cache line */

/* Where `n` bytes fit in that are not in use; AG_RING_BYTES: nowhere. What is in use goes from the
 * first slot in use to the last, or from the first to the end and on from the beginning. */
static inline uint32_t place_for(const struct ag_ring *r, uint32_t taken, uint32_t put, uint32_t n)
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

/* Where the arguments of the next slot lie. NULL: there is no room, no credit or no memory. */
static inline __attribute__((always_inline)) uint8_t *room(struct ag_ring *r, uint32_t ops,
                                                           uint32_t n)
{
    uint32_t put = atomic_load_explicit(&r->put, memory_order_relaxed);
    uint32_t taken = atomic_load_explicit(&r->taken, memory_order_acquire);
    uint32_t aligned = (n + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
    if (n > AG_RING_BYTES || put - taken == AG_RING_SLOTS ||
        (put != taken && ag_ring_held_ops(r) + ops > AG_RING_CREDIT) ||
        (!r->bytes && !(r->bytes = aligned_alloc(ALIGNMENT, AG_RING_BYTES))))
        return NULL;
    uint32_t at = place_for(r, taken, put, aligned);
    if (at == AG_RING_BYTES && n)
        return NULL;
    struct ag_ring_slot *slot = &r->slots[put % AG_RING_SLOTS];
    slot->bytes = r->bytes + at;
    slot->at = at;
    slot->end = at + aligned;
    slot->ops = ops;
    return r->bytes + at;
}

static inline __attribute__((always_inline)) void fill(struct ag_ring *r, void *graphs, ag_key key)
{
    uint32_t put = atomic_load_explicit(&r->put, memory_order_relaxed);
    struct ag_ring_slot *slot = &r->slots[put % AG_RING_SLOTS];
    slot->graphs = graphs;
    slot->key = key;
    slot->put_ns = r->next_ns;
    atomic_store_explicit(&slot->number, r->next_number, memory_order_relaxed);
    r->put_ops += slot->ops;
    r->active = true;
    if (graphs)
        r->chunks_put = put + 1;
    /* sequentially consistent: whoever takes it out may be going to sleep */
    atomic_store(&r->put, put + 1);
}

__attribute__((hot)) bool ag_ring_put(struct ag_ring *r, void *graphs, uint32_t ops,
                                      const uint8_t *bytes, uint32_t n)
{
    uint8_t *to = room(r, ops, n);
    if (!to)
        return false;
    memcpy(to, bytes, n);
    fill(r, graphs, 0);
    return true;
}

uint8_t *ag_ring_op_room(struct ag_ring *r, uint32_t n)
{
    return room(r, 1, n);
}

void ag_ring_put_op(struct ag_ring *r, ag_key key)
{
    fill(r, NULL, key);
}
