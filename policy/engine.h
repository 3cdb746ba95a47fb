/*
 * engine.h - one stream's deferral: which of its ops are held back, and when they go to the world.
 *
 * The policy (policy.h) says what to do with an op. The engine does it: it keeps the arguments of
 * the ops of the chunk that the policy follows, submits them in order, and gives a whole chunk to
 * its graph. It knows nothing of CUDA: what it does to the world it does through the functions of a
 * struct ag_engine_world. The library's world is the driver (capture/core/world.c), that of
 * `autograph replay` a dump, that of the tests a program that checks every call.
 *
 * The way of an op:
 *
 *     ag_engine_step(), and ag_engine_run_ends() if that returned true:  it is the expected one
 *     ag_engine_op():                                                    any other
 *     ag_engine_record():    room for its arguments; NULL: the caller submits the op itself
 *     ag_engine_recorded():  once the arguments are there
 *
 * An op that only joins others makes no call through a pointer on this way.
 *
 * Every change of state is checked against one table, and so are the counts that go with it, in
 * every build. If one does not hold, there is a mistake in the library, and the program's results
 * must not depend on it: the engine says so (ag_engine_world.broken), submits what is deferred, in
 * order, and defers nothing any more.
 *
 * Ownership: the caller serialises all calls on one engine, as it does for the policy.
 */
#pragma once

#include "policy/policy.h"

/* The three in the middle are in the order of enum ag_do. */
enum ag_engine_state {
    AG_ENGINE_CLOSED,    /* never opened, or what its ops need ends or has ended, or no op comes */
    AG_ENGINE_EAGER,     /* nothing is recorded */
    AG_ENGINE_RECORDING, /* the recorded ops have been submitted: they become a graph */
    AG_ENGINE_DEFERRING, /* no recorded op has been submitted */
    AG_ENGINE_DORMANT,   /* the policy does not look for some time */
    AG_ENGINE_BYPASSED,  /* the ops pass by for good: not understood, or a mistake was found */
    AG_NUM_ENGINE_STATES
};

enum ag_engine_why {
    AG_ENGINE_ASKED,        /* a sync point or a break */
    AG_ENGINE_DEPARTED,     /* the stream left its sequence */
    AG_ENGINE_GRAPH_FAILED, /* the graph of a whole chunk could not be launched */
    AG_ENGINE_BROKEN,       /* see above */
};

struct ag_engine;

/* What an engine does to the world. Each function finds what it needs around the engine, which is
 * embedded in something of the world's. */
struct ag_engine_world {
    /* Submits one op from its recorded arguments. */
    void (*submit)(struct ag_engine *e, ag_key key, const uint8_t *bytes);
    /* Launches the graph of a whole chunk, whose last op came at `began`. `bytes`: the recorded
     * arguments of its first op; the others follow. If it fails, it has submitted nothing and
     * discarded the graph. */
    bool (*launch)(struct ag_engine *e, struct ag_chunk *chunk, const uint8_t *bytes,
                   uint64_t began);
    /* Behind that. Tells the policy how late it is now, by ag_policy_submitted(). */
    void (*launched)(struct ag_engine *e, struct ag_chunk *chunk, uint64_t began);
    /* The same as launch(), but in a flush, and it need not discard a graph that fails. */
    bool (*cover)(struct ag_engine *e, struct ag_chunk *chunk, const uint8_t *bytes);
    /* Around a flush of `ops` deferred ops, `covered` of them by graphs. Both or none. */
    void (*begins)(struct ag_engine *e, enum ag_engine_why why);
    void (*ends)(struct ag_engine *e, uint32_t ops, uint32_t covered);
    /* Asks for graphs of the recorded ops, which are the chunk's. */
    void (*build)(struct ag_engine *e, struct ag_chunk *chunk);
    /* From now on ops are held back, or none is any more. Not called for an op that is a chunk by
     * itself: it comes and goes in one call. */
    void (*deferring)(struct ag_engine *e, bool on);
    /* `what` does not hold. */
    void (*broken)(struct ag_engine *e, const char *what);
    uint32_t least_covered; /* a flush looks for a graph only for that many ops or more */
};

/* Ops by what came of them. */
struct ag_engine_counts {
    uint64_t eager;    /* submitted at once */
    uint64_t flushed;  /* flushed one by one */
    uint64_t covered;  /* flushed by the graph of a shorter chunk */
    uint64_t replayed; /* launched with their chunk */
};

/* What is recorded now. The next call on the engine may change it. */
struct ag_engine_content {
    const struct ag_recorded *ops;
    uint32_t num_ops, num_bytes;
    const uint8_t *bytes; /* the arguments of all ops */
};

/* Its members are private to policy/, as those of struct ag_policy are. All 0: closed. */
struct ag_engine {
    uint8_t state; /* enum ag_engine_state */
    uint32_t num_bytes, max_bytes, num_recorded, max_recorded;
    uint8_t *bytes; /* recorded arguments */
    struct ag_recorded *recorded;
    const struct ag_engine_world *world;
    struct ag_policy policy;
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

/* 0 or -ENOMEM. The engine may be moved until it is first used. */
int ag_engine_open(struct ag_engine *e, const struct ag_policy_config *config,
                   const struct ag_policy_hooks *hooks, const struct ag_engine_world *world);
/* Frees what the engine holds. Nothing is deferred. */
void ag_engine_free(struct ag_engine *e);

/* No op comes until the engine is open again, and all that the policy knows is invalid; the rule
 * of ag_policy_invalidate() for the builder holds. */
void ag_engine_close(struct ag_engine *e);
void ag_engine_reopen(struct ag_engine *e);
/* The same, but what the policy knows stays valid, and the builder may go on. Nothing is deferred.
 * False: the engine has found that this does not hold. */
bool ag_engine_park(struct ag_engine *e);
/* Invalidates all that the policy knows, by the same rule. */
void ag_engine_invalidate(struct ag_engine *e);

/* All three submit what is deferred. The policy learns from a sync point. It does not learn from a
 * break: the sequence goes on behind it. A pause comes when deferred ops have waited for too long;
 * the policy learns from it if that happens again. */
void ag_engine_sync_point(struct ag_engine *e, uint64_t now);
/* The call that was a sync point has waited for the GPU, and returns. */
void ag_engine_returned(struct ag_engine *e, uint64_t now);
void ag_engine_break(struct ag_engine *e);
void ag_engine_pause(struct ag_engine *e, uint64_t now);

/* From now on the ops pass by. */
void ag_engine_bypass(struct ag_engine *e);
/* `what` does not hold; see above. Always returns false. */
bool ag_engine_broken(struct ag_engine *e, const char *what);

/* Makes the engine dormant for this many ops. An engine is also dormant whenever its policy wishes
 * to be. Whoever lets ops pass unseen takes their number with ag_policy_take_rest(), and wakes the
 * engine before the next op; `left`: ops that did not pass. Otherwise the policy counts them. */
void ag_engine_rest(struct ag_engine *e, uint32_t ops);
void ag_engine_wake(struct ag_engine *e, uint32_t left);

/* Of the ops that counted as replayed, this many were submitted one by one after all. */
void ag_engine_not_replayed(struct ag_engine *e, uint32_t ops);

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
/* Ops deferred now. */
static inline uint32_t ag_engine_deferred(const struct ag_engine *e)
{
    return e->state == AG_ENGINE_DEFERRING ? e->num_recorded : 0;
}
/* Whether the policy looks at the ops, and none of them is held back. */
static inline bool ag_engine_is_idle(const struct ag_engine *e)
{
    return e->state == AG_ENGINE_EAGER || e->state == AG_ENGINE_RECORDING;
}

/* The key of the expected op; 0 if none is expected. */
static inline ag_key ag_engine_expected(const struct ag_engine *e)
{
    return ag_policy_expected(&e->policy);
}
/* The expected op has come. If this returns true, call ag_engine_run_ends() next. */
static inline bool ag_engine_step(struct ag_engine *e, struct ag_verdict *v)
{
    bool ends;
    *v = (struct ag_verdict){.what = ag_policy_step(&e->policy, &ends)};
    return ends;
}
static inline void ag_engine_run_ends(struct ag_engine *e, uint64_t now, struct ag_verdict *v)
{
    ag_policy_run_end(&e->policy, now, v);
    if (__builtin_expect(v->flush, 0))
        ag_engine_act(e, v);
}
/* Room for the arguments of an op that is deferred and begins no chunk while another is recorded.
 * NULL: there is more to do, and nothing has been done. */
static inline uint8_t *ag_engine_room(struct ag_engine *e, ag_key key, uint32_t bytes)
{
    bool may = e->state == AG_ENGINE_DEFERRING || e->state == AG_ENGINE_EAGER;
    if (__builtin_expect(
            !may || e->num_recorded == e->max_recorded || bytes > e->max_bytes - e->num_bytes, 0))
        return NULL;
    uint8_t *room = e->bytes + e->num_bytes;
    e->recorded[e->num_recorded++] = (struct ag_recorded){key, e->num_bytes};
    e->num_bytes += bytes;
    return room;
}
/* The expected op has come. If it is only deferred and ends no chunk, this is the way above up to
 * its arguments: they go where the result says, and ag_engine_joined() comes next. NULL: there is
 * more to do, and nothing has been done. */
static inline uint8_t *ag_engine_join(struct ag_engine *e, uint32_t bytes)
{
    ag_key key = ag_policy_expected(&e->policy);
    uint8_t *room = ag_policy_is_inside(&e->policy) ? ag_engine_room(e, key, bytes) : NULL;
    bool ends;
    if (__builtin_expect(room != NULL, 1))
        ag_policy_step(&e->policy, &ends);
    return room;
}
static inline void ag_engine_joined(struct ag_engine *e)
{
    if (e->state == AG_ENGINE_EAGER)
        ag_engine_enter(e, AG_ENGINE_DEFERRING);
}
/* Any op has come. What must go before this op is flushed. */
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

/* Room for the arguments of the op that the verdict is about. NULL: the caller submits the op
 * itself, and nothing is deferred. */
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

/* The arguments are recorded. `now`: when the op came; needed only if it completes a chunk. Unless
 * the op is deferred, the caller submits it. */
static inline void ag_engine_recorded(struct ag_engine *e, const struct ag_verdict *v, uint64_t now)
{
    if (v->what == AG_DO_RECORD)
        e->counts.eager++;
    if (v->done)
        ag_engine_chunk_done(e, v, now);
    else if (__builtin_expect(e->state == AG_ENGINE_EAGER, 0))
        ag_engine_enter(e, v->what + AG_ENGINE_EAGER);
}
