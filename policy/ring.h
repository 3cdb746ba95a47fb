/*
 * ring.h - what one thread has submitted for the program and another one hands to the driver: a
 * ring of whole chunks and single ops, in order.
 *
 * The *owner* puts them in: whoever holds the lock of the stream that the ring belongs to. Whoever
 * has the *role* takes them out, one after the other. Several threads may want the role: one gets
 * it, and the others go on or wait. The owner may take the role as well: it then does the rest
 * itself.
 *
 * The credit bounds how many ops are in the ring. Nothing in here knows CUDA, or takes a lock.
 */
#pragma once

#include "policy/constants.h"
#include "policy/policy.h"

enum { AG_RING_BYTES = 1 << 17 }; /* for all arguments; they stay allocated */

struct ag_ring_slot {
    _Alignas(64) void *graphs; /* the chunk's; NULL: a single op */
    ag_key key;                /* the single op's */
    const uint8_t *bytes;      /* a copy of the arguments */
    uint32_t at, end;          /* where that is in the ring's bytes */
    uint32_t ops;
    uint64_t put_ns;         /* when the slot was filled, if that is timed */
    _Atomic uint64_t number; /* the owner's; anybody may read it */
};

struct ag_ring {
    void *stream; /* constant */
    struct ag_ring_slot slots[AG_RING_SLOTS];
    /* the owner's */
    uint8_t *bytes;                /* AG_RING_BYTES; NULL until something is put in */
    bool active;                   /* something was put in since the ring was last found empty */
    uint64_t put_ops;              /* in all */
    uint32_t chunks_put;           /* `put` behind the last chunk */
    uint64_t next_ns, next_number; /* of what comes next */
    /* what each of the two threads tells the other, in cache lines of their own */
    _Alignas(128) _Atomic uint32_t put;
    _Alignas(128) _Atomic uint32_t taken; /* by whoever has the role */
    _Atomic uint32_t work; /* that was; a chunk counts as AG_WORK_OF_CHUNK single ops */
    _Atomic uint64_t taken_ops;
    _Atomic uint32_t role; /* 1: somebody has it */
};

/* Fetches a cache line that will be written. Another processor may have written it last. */
static inline void ag_fetch_to_write(const void *line)
{
#if defined(__x86_64__)
    /* GCC makes a plain prefetch of __builtin_prefetch(), unless told of a newer processor */
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)line));
#else
    __builtin_prefetch(line, 1);
#endif
}

/* A chunk with `n` bytes of arguments may soon be put in: fetches the lines that this will write,
 * and the one that says what has been taken. Where the ring is not empty, the arguments go
 * elsewhere and their lines are fetched in vain. Measured: log, "What helps, in turns in one
 * process". */
static inline void ag_ring_fetch(struct ag_ring *r, uint32_t n)
{
    uint32_t put = atomic_load_explicit(&r->put, memory_order_relaxed);
    ag_fetch_to_write(&r->put);
    __builtin_prefetch((const void *)&r->taken);
    ag_fetch_to_write(&r->slots[put % AG_RING_SLOTS]);
    ag_fetch_to_write(&r->bytes);
    const uint8_t *bytes = r->bytes;
    for (size_t i = 0; bytes && i < AG_RING_FETCHED && i * 64 < n; i++)
        ag_fetch_to_write(bytes + i * 64);
}

/* Puts a chunk in, with a copy of its arguments. False: there is no room, no credit or no memory.
 */
bool ag_ring_put(struct ag_ring *r, void *graphs, uint32_t ops, const uint8_t *bytes, uint32_t n);
/* The same for a single op, in two steps: room for its `n` bytes of arguments, NULL if there is
 * none; and that they are there. */
uint8_t *ag_ring_op_room(struct ag_ring *r, uint32_t n);
void ag_ring_put_op(struct ag_ring *r, ag_key key);

/* Whether it is timed how long what is put in as the `n`th waits, also if nobody asks for each. */
static inline bool ag_ring_times(uint32_t n)
{
    return n % AG_TIMED_ONE_IN == 0 || (n < AG_TIMED_FIRST && n % 8 == 0);
}
/* The same of what the owner puts in next, and, with the role, of what comes next. */
static inline bool ag_ring_times_put(struct ag_ring *r)
{
    return ag_ring_times(atomic_load_explicit(&r->put, memory_order_relaxed));
}
static inline bool ag_ring_times_next(struct ag_ring *r)
{
    return ag_ring_times(atomic_load_explicit(&r->taken, memory_order_relaxed));
}

/* The owner, before it puts something in that is timed: when that is. */
static inline void ag_ring_note_time(struct ag_ring *r, uint64_t now)
{
    r->next_ns = now;
}

/* The owner, before it puts something in: a number by which others know it again. */
static inline void ag_ring_note_number(struct ag_ring *r, uint64_t number)
{
    r->next_number = number;
}

/* Chunks and single ops that are in the ring. */
static inline uint32_t ag_ring_held(struct ag_ring *r)
{
    uint32_t taken = atomic_load_explicit(&r->taken, memory_order_acquire);
    return atomic_load_explicit(&r->put, memory_order_acquire) - taken;
}
/* The owner: ops of these. */
static inline uint32_t ag_ring_held_ops(struct ag_ring *r)
{
    return (uint32_t)(r->put_ops - atomic_load_explicit(&r->taken_ops, memory_order_relaxed));
}
static inline bool ag_ring_is_empty(struct ag_ring *r)
{
    return !ag_ring_held(r);
}
/* The owner: whether a chunk is in it. */
static inline bool ag_ring_has_chunks(struct ag_ring *r)
{
    uint32_t taken = atomic_load_explicit(&r->taken, memory_order_relaxed);
    return r->chunks_put - taken - 1 < AG_RING_SLOTS;
}
static inline bool ag_ring_is_busy(struct ag_ring *r)
{
    return atomic_load_explicit(&r->role, memory_order_acquire);
}
/* The number of the first slot in the ring; 0: it is empty. Without the role, that may be gone by
 * now. */
static inline uint64_t ag_ring_first_number(struct ag_ring *r)
{
    uint32_t taken = atomic_load_explicit(&r->taken, memory_order_acquire);
    if (taken == atomic_load_explicit(&r->put, memory_order_acquire))
        return 0;
    return atomic_load_explicit(&r->slots[taken % AG_RING_SLOTS].number, memory_order_relaxed);
}
/* Empty, and nobody has the role any more: the owner may do what whoever has the role may do. */
static inline bool ag_ring_is_at_rest(struct ag_ring *r)
{
    return ag_ring_is_empty(r) && !ag_ring_is_busy(r);
}

static inline bool ag_ring_take_role(struct ag_ring *r)
{
    uint32_t nobody = 0;
    return atomic_compare_exchange_strong_explicit(&r->role, &nobody, 1, memory_order_acquire,
                                                   memory_order_relaxed);
}
static inline void ag_ring_give_role(struct ag_ring *r)
{
    atomic_store_explicit(&r->role, 0, memory_order_release);
}
/* With the role: what comes next, or NULL; and that it has been submitted. */
static inline const struct ag_ring_slot *ag_ring_next(struct ag_ring *r)
{
    return ag_ring_is_empty(r)
               ? NULL
               : &r->slots[atomic_load_explicit(&r->taken, memory_order_relaxed) % AG_RING_SLOTS];
}
static inline void ag_ring_took(struct ag_ring *r, const struct ag_ring_slot *slot)
{
    uint32_t work = atomic_load_explicit(&r->work, memory_order_relaxed);
    atomic_store_explicit(&r->work, work + (slot->graphs ? AG_WORK_OF_CHUNK : 1),
                          memory_order_relaxed);
    atomic_fetch_add_explicit(&r->taken_ops, slot->ops, memory_order_relaxed);
    atomic_fetch_add_explicit(&r->taken, 1, memory_order_release);
}
