/* engine.c - see engine.h. */
#include "policy/engine.h"
#include <stdlib.h>
#include <string.h>

enum { FIRST_OPS = 64, FIRST_BYTES = 4096 };

/* ---- states ------------------------------------------------------------------------------ */

#define TO(state) (1u << AG_ENGINE_##state)

/* The changes that may be. Whatever was found to be wrong, any open engine may be bypassed. */
static const uint8_t changes[AG_NUM_ENGINE_STATES] = {
    [AG_ENGINE_CLOSED] = TO(EAGER),
    [AG_ENGINE_EAGER] = TO(RECORDING) | TO(DEFERRING) | TO(DORMANT) | TO(BYPASSED) | TO(CLOSED),
    [AG_ENGINE_RECORDING] = TO(EAGER),
    [AG_ENGINE_DEFERRING] = TO(EAGER)        /* by the graph of the whole chunk */
                            | TO(RECORDING), /* flushed: the arguments stay recorded */
    [AG_ENGINE_DORMANT] = TO(EAGER) | TO(BYPASSED) | TO(CLOSED),
    [AG_ENGINE_BYPASSED] = TO(CLOSED),
};
static const char *const refusals[AG_NUM_ENGINE_STATES] = {
    "a stream closes with nothing held back",      "a stream turns eager with nothing recorded",
    "a stream records ops that were submitted",    "a stream defers ops that are recorded",
    "a stream goes dormant with nothing recorded", "a stream is bypassed with nothing recorded",
};

static void become(struct ag_engine *e, enum ag_engine_state to)
{
    bool deferred = e->state == AG_ENGINE_DEFERRING, defers = to == AG_ENGINE_DEFERRING;
    e->state = (uint8_t)to;
    if (deferred != defers)
        e->world->deferring(e, defers);
}

static inline bool enter(struct ag_engine *e, enum ag_engine_state to)
{
    bool holds = to == AG_ENGINE_RECORDING || to == AG_ENGINE_DEFERRING;
    if (!(changes[e->state] & 1u << to) || holds != (e->num_recorded > 0))
        return ag_engine_broken(e, refusals[to]);
    become(e, to);
    return true;
}

__attribute__((hot)) bool ag_engine_enter(struct ag_engine *e, enum ag_engine_state to)
{
    return enter(e, to);
}

/* Discards the recorded ops, which have been submitted. */
void ag_engine_drop(struct ag_engine *e)
{
    if (e->state == AG_ENGINE_DEFERRING) {
        ag_engine_broken(e, "ops are dropped only when they have been submitted");
        return;
    }
    e->num_recorded = e->num_bytes = 0;
    if (e->state == AG_ENGINE_RECORDING)
        ag_engine_enter(e, AG_ENGINE_EAGER);
}

/* ---- submitting -------------------------------------------------------------------------- */

/* Submits the recorded ops: by graphs of shorter chunks where there are any, else one by one. */
static void submit(struct ag_engine *e, enum ag_engine_why why)
{
    const struct ag_engine_world *world = e->world;
    uint32_t n = e->num_recorded, covered = 0;
    if (world->begins)
        world->begins(e, why);
    for (uint32_t i = 0; i < n;) {
        const struct ag_recorded *op = &e->recorded[i];
        struct ag_chunk *chunk =
            n - i >= world->least_covered ? ag_policy_cover(&e->policy, op, n - i) : NULL;
        if (chunk && world->cover(e, chunk, e->bytes + op->offset)) {
            covered += chunk->count;
            i += chunk->count;
            continue;
        }
        world->submit(e, op->key, e->bytes + op->offset);
        e->counts.flushed++;
        i++;
    }
    e->counts.covered += covered;
    if (world->begins)
        world->ends(e, n, covered);
}

/* Submits the deferred ops. The policy says that there are `n`. Their arguments stay recorded. */
static void flush(struct ag_engine *e, uint32_t n, enum ag_engine_why why)
{
    if (n != ag_engine_deferred(e)) {
        ag_engine_broken(e, "what the policy counts as deferred is deferred");
        return;
    }
    if (!n)
        return;
    submit(e, why);
    ag_engine_enter(e, AG_ENGINE_RECORDING);
}

/* Whether the policy hears of what comes next. If the policy counts the ops of a dormant engine
 * itself, it may be time to wake. */
bool ag_engine_looks(struct ag_engine *e)
{
    if (e->state == AG_ENGINE_DORMANT && !e->policy.dormant)
        ag_engine_enter(e, AG_ENGINE_EAGER);
    return e->state != AG_ENGINE_CLOSED && e->state != AG_ENGINE_BYPASSED;
}

void ag_engine_sync_point(struct ag_engine *e, uint64_t now)
{
    if (!ag_engine_looks(e))
        return;
    flush(e, ag_policy_sync_point(&e->policy, now), AG_ENGINE_ASKED);
    ag_engine_drop(e);
}

void ag_engine_returned(struct ag_engine *e, uint64_t now)
{
    if (ag_engine_looks(e))
        ag_policy_returned(&e->policy, now);
}

/* The policy says that `n` deferred ops must go. */
static void give_up(struct ag_engine *e, uint32_t n)
{
    bool any = n || ag_engine_deferred(e);
    flush(e, n, AG_ENGINE_ASKED);
    if (any)
        ag_engine_drop(e);
}

void ag_engine_break(struct ag_engine *e)
{
    give_up(e, e->state == AG_ENGINE_CLOSED ? 0 : ag_policy_break(&e->policy));
}

void ag_engine_pause(struct ag_engine *e, uint64_t now)
{
    give_up(e, e->state == AG_ENGINE_CLOSED ? 0 : ag_policy_pause(&e->policy, now));
}

/* ---- the way of an op -------------------------------------------------------------------- */

/* The policy wants something done before the op that it has just heard of. */
void ag_engine_act(struct ag_engine *e, const struct ag_verdict *v)
{
    if (v->flush)
        flush(e, v->flush, AG_ENGINE_DEPARTED);
    if (ag_policy_wants_rest(&e->policy) && e->state != AG_ENGINE_DORMANT) {
        ag_engine_drop(e);
        ag_engine_enter(e, AG_ENGINE_DORMANT);
    }
}

/* The chunk that was to be recorded is not. */
static void not_recorded(struct ag_engine *e, const struct ag_verdict *v)
{
    if (v->what == AG_DO_RECORD && v->done)
        ag_policy_not_built(v->done);
    else if (v->what == AG_DO_RECORD)
        ag_policy_lost_record(&e->policy);
}

static bool grow(struct ag_engine *e, uint32_t bytes)
{
    if (e->num_recorded == e->max_recorded) {
        uint32_t n = e->max_recorded ? e->max_recorded * 2 : FIRST_OPS;
        struct ag_recorded *recorded = realloc(e->recorded, n * sizeof(*recorded));
        if (!recorded)
            return false;
        e->recorded = recorded;
        e->max_recorded = n;
    }
    /* needed even if no op has arguments: other code compares and copies from this buffer */
    if (!e->bytes || bytes > e->max_bytes - e->num_bytes) {
        uint32_t n = (e->num_bytes + bytes) * 2 + FIRST_BYTES;
        uint8_t *more = realloc(e->bytes, n);
        if (!more)
            return false;
        e->bytes = more;
        e->max_bytes = n;
    }
    return true;
}

/* What is seldom: ops to drop first, no room, or the op is not recorded after all. */
bool ag_engine_makes_room(struct ag_engine *e, uint32_t bytes, const struct ag_verdict *v)
{
    if (v->fresh)
        ag_engine_drop(e);
    bool begins = e->state == AG_ENGINE_EAGER && !e->num_recorded;
    if (!begins && e->state != (uint32_t)v->what + AG_ENGINE_EAGER) {
        if (e->state != AG_ENGINE_BYPASSED)
            ag_engine_broken(e, "the ops of a chunk are all recorded, or all deferred");
        not_recorded(e, v);
        return false;
    }
    if (grow(e, bytes))
        return true;
    /* out of memory: all that is deferred goes, then this op */
    if (e->state == AG_ENGINE_DEFERRING)
        flush(e, e->num_recorded, AG_ENGINE_ASKED);
    ag_policy_break(&e->policy);
    not_recorded(e, v);
    ag_engine_drop(e);
    return false;
}

/* Whether the chunk could be launched as one graph. */
static bool launch(struct ag_engine *e, struct ag_chunk *chunk, uint64_t now)
{
    if (__builtin_expect(!e->world->launch(e, chunk, e->bytes, now), 0))
        return false;
    e->counts.replayed += chunk->count;
    e->num_recorded = e->num_bytes = 0;
    if (e->state == AG_ENGINE_DEFERRING)
        enter(e, AG_ENGINE_EAGER);
    e->world->launched(e, chunk, now);
    return true;
}

/* The chunk's last op is recorded: launches the chunk, or asks for its graphs. */
__attribute__((hot)) void ag_engine_chunk_done(struct ag_engine *e, const struct ag_verdict *v,
                                               uint64_t now)
{
    struct ag_chunk *chunk = v->done;
    bool deferred = v->what == AG_DO_DEFER;
    if (__builtin_expect(chunk->count == e->num_recorded && deferred, 1) && launch(e, chunk, now))
        return;
    if (e->state == AG_ENGINE_EAGER) /* the chunk's only op */
        ag_engine_enter(e, v->what + AG_ENGINE_EAGER);
    if (e->num_recorded != chunk->count) {
        ag_engine_broken(e, "a whole chunk is recorded");
        not_recorded(e, v);
    } else if (deferred) {
        flush(e, e->num_recorded, AG_ENGINE_GRAPH_FAILED);
    } else {
        e->world->build(e, chunk);
    }
    ag_engine_drop(e);
}

/* ---- the stream -------------------------------------------------------------------------- */

int ag_engine_open(struct ag_engine *e, const struct ag_policy_config *config,
                   const struct ag_policy_hooks *hooks, const struct ag_engine_world *world)
{
    memset(e, 0, sizeof(*e));
    int r = ag_policy_open(&e->policy, config, hooks);
    if (r)
        return r;
    e->world = world;
    ag_engine_reopen(e);
    return 0;
}

void ag_engine_free(struct ag_engine *e)
{
    ag_policy_close(&e->policy);
    free(e->recorded);
    free(e->bytes);
    e->recorded = NULL;
    e->bytes = NULL;
    e->num_recorded = e->num_bytes = e->max_recorded = e->max_bytes = 0;
    e->state = AG_ENGINE_CLOSED;
}

void ag_engine_invalidate(struct ag_engine *e)
{
    ag_engine_drop(e);
    ag_policy_invalidate(&e->policy);
}

void ag_engine_close(struct ag_engine *e)
{
    ag_engine_invalidate(e);
    if (e->state != AG_ENGINE_CLOSED)
        ag_engine_enter(e, AG_ENGINE_CLOSED);
}

bool ag_engine_park(struct ag_engine *e)
{
    ag_engine_drop(e);
    return ag_engine_enter(e, AG_ENGINE_CLOSED);
}

void ag_engine_reopen(struct ag_engine *e)
{
    ag_engine_enter(e, AG_ENGINE_EAGER);
}

void ag_engine_rest(struct ag_engine *e, uint32_t ops)
{
    ag_engine_drop(e);
    if (e->state == AG_ENGINE_DORMANT || ag_engine_enter(e, AG_ENGINE_DORMANT))
        ag_policy_rest(&e->policy, ops);
}

void ag_engine_wake(struct ag_engine *e, uint32_t left)
{
    ag_policy_not_rested(&e->policy, left);
    if (e->state == AG_ENGINE_DORMANT)
        ag_engine_enter(e, AG_ENGINE_EAGER);
}

void ag_engine_not_replayed(struct ag_engine *e, uint32_t ops)
{
    e->counts.replayed -= ops;
    e->counts.flushed += ops;
}

void ag_engine_bypass(struct ag_engine *e)
{
    if (e->state == AG_ENGINE_CLOSED)
        return;
    ag_policy_break(&e->policy);
    if (e->state == AG_ENGINE_DEFERRING)
        submit(e, AG_ENGINE_BROKEN);
    e->num_recorded = e->num_bytes = 0;
    become(e, AG_ENGINE_BYPASSED);
    ag_policy_rest(&e->policy, 0); /* it expects no op any more */
}

bool ag_engine_broken(struct ag_engine *e, const char *what)
{
    e->world->broken(e, what);
    ag_engine_bypass(e);
    return false;
}
