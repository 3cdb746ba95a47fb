/* ring.c - see ring.h. */
#include "policy/ring.h"
#include <stdlib.h>
#include <string.h>

static bool makes_room(struct ag_ring_slot *slot, uint32_t n)
{
    if (slot->room >= n && slot->bytes)
        return true;
    uint8_t *more = realloc(slot->bytes, n * 2 + 64);
    if (!more)
        return false;
    slot->bytes = more;
    slot->room = n * 2 + 64;
    return true;
}

bool ag_ring_put(struct ag_ring *r, void *graphs, uint32_t ops, const uint8_t *bytes, uint32_t n)
{
    uint32_t put = atomic_load_explicit(&r->put, memory_order_relaxed);
    uint32_t taken = atomic_load_explicit(&r->taken, memory_order_acquire);
    uint64_t held = r->put_ops - atomic_load_explicit(&r->taken_ops, memory_order_relaxed);
    struct ag_ring_slot *slot = &r->slots[put % AG_RING_SLOTS];
    if (n > AG_RING_MOST_BYTES || put - taken == AG_RING_SLOTS ||
        (put != taken && held + ops > AG_RING_CREDIT) || !makes_room(slot, n))
        return false;
    memcpy(slot->bytes, bytes, n);
    slot->graphs = graphs;
    slot->ops = ops;
    r->put_ops += ops;
    r->active = true;
    /* sequentially consistent: whoever takes chunks out may be going to sleep */
    atomic_store(&r->put, put + 1);
    return true;
}
