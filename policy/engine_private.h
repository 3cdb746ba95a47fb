/*
 * engine_private.h - what the compiler must see of an engine, and nobody else: streams embed one,
 * and the hot path is inline. Only policy/ and its tests use the members; the test unit.includes
 * looks for others. engine.h explains the functions.
 */
#ifndef AG_ENGINE_PRIVATE_H
#define AG_ENGINE_PRIVATE_H

#include "policy/engine.h"
#include "policy/policy_private.h"

/* All 0: closed. */
struct ag_engine {
    uint8_t state; /* enum ag_engine_state */
    uint32_t num_bytes, max_bytes, num_recorded, max_recorded;
    uint8_t *bytes; /* recorded arguments */
    struct ag_recorded *recorded;
    struct ag_policy policy;
    const struct ag_engine_world *world;
    struct ag_engine_counts counts;
};

/* For the inline functions below and for tests. ag_engine_enter() is the one way from
 * state to state; false: that may not be, and the engine is bypassed. */
bool ag_engine_enter(struct ag_engine *e, enum ag_engine_state to);
void ag_engine_drop(struct ag_engine *e);
bool ag_engine_looks(struct ag_engine *e);
void ag_engine_act(struct ag_engine *e, const struct ag_verdict *v);
bool ag_engine_makes_room(struct ag_engine *e, uint32_t bytes, const struct ag_verdict *v);
void ag_engine_chunk_done(struct ag_engine *e, const struct ag_verdict *v, uint64_t now);

static inline struct ag_policy *ag_engine_policy(const struct ag_engine *e)
{
    return (struct ag_policy *)(uintptr_t)&e->policy;
}
static inline enum ag_engine_state ag_engine_state(const struct ag_engine *e)
{
    return e->state;
}
static inline const struct ag_engine_counts *ag_engine_counts(const struct ag_engine *e)
{
    return &e->counts;
}
static inline struct ag_engine_content ag_engine_content(const struct ag_engine *e)
{
    return (struct ag_engine_content){e->recorded, e->num_recorded, e->num_bytes, e->bytes};
}
static inline bool ag_engine_is_open(const struct ag_engine *e)
{
    return e->state != AG_ENGINE_CLOSED;
}
static inline uint32_t ag_engine_deferred(const struct ag_engine *e)
{
    return e->state == AG_ENGINE_DEFERRING ? e->num_recorded : 0;
}
static inline bool ag_engine_is_idle(const struct ag_engine *e)
{
    return e->state == AG_ENGINE_EAGER || e->state == AG_ENGINE_RECORDING;
}
static inline ag_key ag_engine_expected(const struct ag_engine *e)
{
    return ag_policy_expected(&e->policy);
}
static inline bool ag_engine_step(struct ag_engine *e, struct ag_verdict *v)
{
    bool ends;
    *v = (struct ag_verdict){.what = ag_policy_step(&e->policy, &ends)};
    return ends;
}
static inline void ag_engine_op(struct ag_engine *e, ag_key key, uint64_t now, struct ag_verdict *v)
{
    if (__builtin_expect(e->state != AG_ENGINE_EAGER, 0) && !ag_engine_looks(e)) {
        *v = (struct ag_verdict){.what = AG_DO_EAGER};
        return;
    }
    ag_policy_op(&e->policy, key, now, v);
    if (__builtin_expect(v->flush || ag_policy_wants_rest(&e->policy), 0))
        ag_engine_act(e, v);
}
static inline uint8_t *ag_engine_record(struct ag_engine *e, ag_key key, uint32_t bytes,
                                        const struct ag_verdict *v)
{
    if (v->what == AG_DO_EAGER) {
        if (__builtin_expect(e->state != AG_ENGINE_EAGER, 0))
            ag_engine_drop(e);
        e->counts.eager++;
        return NULL;
    }
    bool goes_on = e->state == (uint32_t)v->what + AG_ENGINE_EAGER && !v->fresh;
    if (__builtin_expect((!goes_on && e->state != AG_ENGINE_EAGER) ||
                             e->num_recorded == e->max_recorded ||
                             bytes > e->max_bytes - e->num_bytes,
                         0) &&
        !ag_engine_makes_room(e, bytes, v))
        return NULL;
    uint8_t *room = e->bytes + e->num_bytes;
    e->recorded[e->num_recorded++] = (struct ag_recorded){key, e->num_bytes};
    e->num_bytes += bytes;
    return room;
}
static inline void ag_engine_recorded(struct ag_engine *e, const struct ag_verdict *v, uint64_t now)
{
    if (v->what == AG_DO_RECORD)
        e->counts.eager++;
    if (v->done)
        ag_engine_chunk_done(e, v, now);
    else if (__builtin_expect(e->state == AG_ENGINE_EAGER, 0))
        ag_engine_enter(e, v->what + AG_ENGINE_EAGER);
}

#endif
