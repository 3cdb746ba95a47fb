/*
 * policy_private.h - what the compiler must see of a chunk and a policy, and nobody else: others
 * embed them, and the hot path is inline. Only policy/ and its tests use the members; the test
 * unit.includes looks for others. policy.h explains the functions.
 */
#ifndef AG_POLICY_PRIVATE_H
#define AG_POLICY_PRIVATE_H

#include "policy/policy.h"
#include <stdatomic.h>

/* Consecutive ops of a sequence that one graph submits. */
struct ag_chunk {
    struct ag_sequence *sequence;
    uint32_t first; /* index of its first op in the sequence */
    uint32_t count; /* number of ops, at least 1 */
    bool goes_on;   /* without cuts it would be one with the chunk before it */
    _Atomic uint8_t state;
    uint8_t retries;     /* failed builds so far */
    uint64_t retry_at;   /* visits of the sequence at which a failed build is tried again; 0: the
                            policy has not noticed the failure yet */
    uint32_t hits;       /* launches since the chunk was last judged */
    uint32_t fails;      /* flushes instead of launches since then */
    uint64_t cold_until; /* no deferral until the sequence has this many visits */
    void *user;          /* the caller's graphs; ag_policy_hooks.drop frees them */
    bool published;      /* ag_policy_cover() can find it */
    struct ag_chunk *next_same_head, *prev_same_head; /* ready chunks with the same first key */
};

static inline struct ag_sequence *ag_chunk_sequence(const struct ag_chunk *chunk)
{
    return chunk->sequence;
}
static inline uint32_t ag_chunk_first(const struct ag_chunk *chunk)
{
    return chunk->first;
}
static inline uint32_t ag_chunk_count(const struct ag_chunk *chunk)
{
    return chunk->count;
}
static inline enum ag_chunk_state ag_chunk_state(const struct ag_chunk *chunk)
{
    return atomic_load_explicit(&chunk->state, memory_order_acquire);
}
static inline void *ag_chunk_user(const struct ag_chunk *chunk)
{
    return chunk->user;
}
static inline void ag_chunk_set_user(struct ag_chunk *chunk, void *graphs)
{
    chunk->user = graphs;
}

/* The hot path uses the first four members. */
struct ag_policy {
    const ag_key *next; /* the expected op; valid while next != stop */
    const ag_key *stop; /* end of the current run */
    enum ag_do doing;   /* what to do with the ops of this run */
    bool idle;          /* a segment has begun, and none of its ops has come */
    uint32_t dormant;   /* ops to let pass unseen before the policy looks again; 0: it is looking */
    uint32_t launch_ns; /* host time of an eager submission, set by the caller; 0: not known */
    uint32_t fresh;     /* keys never met before, if the caller counts them */
    uint32_t measured;  /* ops after the last sync point that the program may be measuring */
    struct ag_policy_counts counts;
    struct ag_policy_state *state;
};

static inline const void *ag_policy_place(const struct ag_policy *p)
{
    return p->next;
}
static inline ag_key ag_policy_expected(const struct ag_policy *p)
{
    return p->next == p->stop ? 0 : *p->next;
}
static inline bool ag_policy_wants_time(const struct ag_policy *p)
{
    return p->next || p->idle;
}
static inline enum ag_do ag_policy_step(struct ag_policy *p, bool *ends)
{
    enum ag_do doing = p->doing;
    p->counts.ops++;
    *ends = ++p->next == p->stop;
    return doing;
}
static inline void ag_policy_launch_takes(struct ag_policy *p, uint32_t ns)
{
    p->launch_ns = ns;
}
static inline void ag_policy_meets_new(struct ag_policy *p)
{
    p->fresh++;
}
static inline void ag_policy_lost_record(struct ag_policy *p)
{
    p->doing = AG_DO_EAGER;
}
static inline void ag_policy_may_measure(struct ag_policy *p, uint32_t ops)
{
    p->measured = ops;
}
static inline bool ag_policy_wants_rest(const struct ag_policy *p)
{
    return __builtin_expect(p->dormant != 0, 0);
}
static inline uint32_t ag_policy_take_rest(struct ag_policy *p)
{
    uint32_t ops = p->dormant;
    p->dormant = 0;
    return ops;
}
static inline void ag_policy_not_rested(struct ag_policy *p, uint32_t ops)
{
    p->counts.dormant -= ops;
}
static inline uint32_t ag_policy_met(const struct ag_policy *p)
{
    return p->fresh;
}
static inline const struct ag_policy_counts *ag_policy_counts(const struct ag_policy *p)
{
    return &p->counts;
}

#endif
