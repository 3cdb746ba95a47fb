/* rig.c - see rig.h. Includes policy/internal.h to compare the segment that the policy keeps. */
#include "rig.h"
#include <stddef.h>

struct graph {
    uint32_t count, users; /* chunks */
    ag_key keys[];
};

uint64_t rig_random(uint64_t *seed)
{
    *seed += AG_MULTIPLIER;
    return ag_mix(*seed);
}

ag_key rig_key(uint64_t seed, uint64_t n)
{
    return ag_mix((seed << 32) + n + 1) | 1;
}

void rig_keys(ag_key *keys, uint32_t n, uint64_t seed)
{
    for (uint32_t i = 0; i < n; i++)
        keys[i] = rig_key(seed, i);
}

static void drop(void *context, struct ag_chunk *chunk)
{
    struct rig *r = context;
    for (uint32_t i = 0; i < r->num_builds; i++)
        assert_ptr_not_equal(r->builds[i].chunk, chunk);
    assert_non_null(chunk->user);
    struct graph *g = chunk->user;
    chunk->user = NULL;
    if (--g->users)
        return;
    free(g);
    r->graphs_live--;
}

/* `to` takes over the graph of `from`: it must be of the same ops. */
static bool share(void *context, struct ag_chunk *from, struct ag_chunk *to)
{
    struct rig *r = context;
    struct graph *g = from->user;
    assert_int_equal(from->state, AG_CHUNK_READY);
    assert_int_equal(to->state, AG_CHUNK_NEW);
    assert_non_null(g);
    assert_null(to->user);
    assert_int_equal(g->count, to->count);
    assert_memory_equal(g->keys, to->sequence->keys + to->first, to->count * sizeof(ag_key));
    if (rig_random(&r->seed) % 100 < r->decline_percent)
        return false;
    g->users++;
    to->user = g;
    r->graphs_shared++;
    return true;
}

/* ---- what must hold between calls -------------------------------------------------------------
 */

static void check_segment(const struct rig *r)
{
    const struct ag_policy *p = &r->engine.policy;
    const struct ag_policy_state *s = p->state;
    if (!r->segment_known || p->dormant || s->was_dormant || s->subsegment.overflow ||
        s->segment_len > UINT32_MAX / 2)
        return;
    uint64_t hash = s->segment_hash, len = s->segment_len;
    uint32_t at = s->sequence ? (uint32_t)(p->next - s->sequence->keys) : 0;
    if (s->sequence && s->pure) {
        hash = ag_hash_join(hash, s->sequence->prefix[at], at);
        len += at;
    } else {
        hash = ag_hash_join(hash, s->subsegment.hash, s->subsegment.count);
        len += s->subsegment.count;
        for (uint32_t i = s->from; s->sequence && i < at; i++, len++)
            hash = ag_hash_add(hash, s->sequence->keys[i]);
    }
    assert_int_equal(len, r->segment_len);
    assert_int_equal(hash, r->segment_hash);
}

static ag_key key_of(const struct rig *r, uint64_t op)
{
    return r->keys[op % AG_MAX_SEQUENCE_OPS];
}

static void check(const struct rig *r)
{
    const struct ag_policy *p = &r->engine.policy;
    uint64_t deferred = r->ops - r->submitted;
    assert_int_equal(ag_policy_deferred(p), deferred);
    assert_int_equal(ag_engine_deferred(&r->engine), deferred);
    assert_int_equal(r->deferring, deferred > 0);
    assert_false(r->flushing);
    assert_true(p->next <= p->stop);
    assert_true(p->next == NULL || p->stop != NULL);
    if (deferred) {
        assert_ptr_not_equal(p->next, p->stop);
        assert_int_equal(p->doing, AG_DO_DEFER);
    }
    for (uint64_t i = 1; i <= deferred; i++)
        assert_int_equal(p->next[-(ptrdiff_t)i], key_of(r, r->ops - i));
    check_segment(r);
}

/* ---- the builder ------------------------------------------------------------------------------
 */

static void answer(struct rig *r, struct ag_chunk *chunk)
{
    uint64_t dice = rig_random(&r->seed) % 100;
    assert_int_equal(chunk->state, AG_CHUNK_BUILDING);
    if (dice < r->decline_percent) {
        ag_policy_not_built(chunk);
    } else if (dice < r->decline_percent + r->fail_percent) {
        ag_policy_built(chunk, false);
    } else {
        struct graph *g = malloc(sizeof(*g) + chunk->count * sizeof(ag_key));
        assert_non_null(g);
        assert_null(chunk->user);
        g->count = chunk->count;
        g->users = 1;
        memcpy(g->keys, chunk->sequence->keys + chunk->first, chunk->count * sizeof(ag_key));
        chunk->user = g;
        r->graphs_built++;
        if (++r->graphs_live > r->graphs_peak)
            r->graphs_peak = r->graphs_live;
        ag_policy_built(chunk, true);
    }
}

static void answer_due(struct rig *r, uint64_t until)
{
    for (uint32_t i = 0; i < r->num_builds;)
        if (r->builds[i].due <= until) {
            struct ag_chunk *chunk = r->builds[i].chunk;
            r->builds[i] = r->builds[--r->num_builds];
            answer(r, chunk);
        } else {
            i++;
        }
}

void rig_drain(struct rig *r)
{
    answer_due(r, UINT64_MAX);
}

/* ---- the world --------------------------------------------------------------------------------
 */

static struct rig *rig_of(struct ag_engine *e)
{
    return (struct rig *)(void *)((char *)e - offsetof(struct rig, engine));
}

/* Arguments come in two sizes, so that their places tell. */
static uint32_t bytes_of(ag_key key)
{
    return sizeof(uint64_t) << (key >> 5 & 1);
}

/* That these are the arguments of `count` ops of these keys from number `op` on. */
static void check_arguments(const struct rig *r, const uint8_t *bytes, uint64_t op, uint32_t count,
                            const ag_key *keys)
{
    for (uint32_t i = 0; i < count; i++, op++) {
        uint64_t is;
        memcpy(&is, bytes, sizeof(is));
        assert_int_equal(is, op);
        assert_int_equal(keys[i], key_of(r, op));
        bytes += bytes_of(keys[i]);
    }
}

static void takes_time(struct rig *r, const struct ag_chunk *chunk)
{
    if (r->launch)
        r->launch(r, chunk);
    else if (chunk || !r->flushing)
        r->now += r->launch_ns;
}

static void submit(struct ag_engine *e, ag_key key, const uint8_t *bytes)
{
    struct rig *r = rig_of(e);
    assert_true(r->flushing && r->submitted < r->ops);
    check_arguments(r, bytes, r->submitted++, 1, &key);
    r->flushed++;
    takes_time(r, NULL);
}

static void launch(struct rig *r, const struct ag_chunk *chunk, const uint8_t *bytes)
{
    const struct graph *g = chunk->user;
    assert_int_equal(chunk->state, AG_CHUNK_READY);
    assert_non_null(g);
    assert_int_equal(g->count, chunk->count);
    assert_true(g->count <= r->ops - r->submitted);
    check_arguments(r, bytes, r->submitted, g->count, g->keys);
    r->submitted += g->count;
    r->launches++;
    takes_time(r, chunk);
}

static bool cover(struct ag_engine *e, struct ag_chunk *chunk, const uint8_t *bytes)
{
    struct rig *r = rig_of(e);
    assert_true(r->flushing);
    launch(r, chunk, bytes);
    r->covered += chunk->count;
    return true;
}

static bool launch_whole(struct ag_engine *e, struct ag_chunk *chunk, const uint8_t *bytes,
                         uint64_t began)
{
    (void)began;
    struct rig *r = rig_of(e);
    assert_int_equal(chunk->count, r->ops - r->submitted);
    assert_int_equal(chunk->state, AG_CHUNK_READY);
    if (r->launch_fail_percent && rig_random(&r->seed) % 100 < r->launch_fail_percent) {
        drop(r, chunk);
        ag_policy_built(chunk, false);
        return false;
    }
    r->awaited += ag_policy_awaited(&e->policy, chunk);
    launch(r, chunk, bytes);
    r->replayed += chunk->count;
    if (!r->first_replay)
        r->first_replay = r->ops;
    return true;
}

static void launched(struct ag_engine *e, struct ag_chunk *chunk, uint64_t began)
{
    struct rig *r = rig_of(e);
    assert_non_null(chunk->user);
    assert_true(began <= r->now);
    ag_policy_submitted(&e->policy, r->now);
}

static void flush_begins(struct ag_engine *e, enum ag_engine_why why)
{
    struct rig *r = rig_of(e);
    assert_true(!r->flushing && r->submitted < r->ops);
    assert_true(r->may_break || why != AG_ENGINE_BROKEN);
    r->flushing = true;
    r->why = why;
    r->flush_began = r->submitted;
    r->covered_before = r->covered;
}

static void flush_ends(struct ag_engine *e, uint32_t ops, uint32_t covered)
{
    struct rig *r = rig_of(e);
    assert_true(r->flushing);
    r->flushing = false;
    assert_int_equal(ops, r->submitted - r->flush_began);
    assert_int_equal(covered, r->covered - r->covered_before);
}

static void build(struct ag_engine *e, struct ag_chunk *chunk)
{
    struct rig *r = rig_of(e);
    assert_int_equal(r->submitted, r->ops);
    assert_int_equal(chunk->count, e->num_recorded);
    check_arguments(r, e->bytes, r->ops - chunk->count, chunk->count,
                    chunk->sequence->keys + chunk->first);
    assert_true(r->num_builds < RIG_BUILDS);
    r->builds[r->num_builds].chunk = chunk;
    r->builds[r->num_builds++].due = r->ops + r->build_delay;
    if (!r->build_delay)
        rig_drain(r);
}

static void deferring(struct ag_engine *e, bool on)
{
    struct rig *r = rig_of(e);
    assert_int_not_equal(on, r->deferring);
    r->deferring = on;
}

static void broken(struct ag_engine *e, const char *what)
{
    struct rig *r = rig_of(e);
    if (!r->may_break)
        fail_msg("%s: does not hold", what);
    r->mistakes++;
}

static const struct ag_engine_world world = {
    .submit = submit,
    .launch = launch_whole,
    .launched = launched,
    .cover = cover,
    .begins = flush_begins,
    .ends = flush_ends,
    .build = build,
    .deferring = deferring,
    .broken = broken,
    .least_covered = 1,
};

/* ---- the stream -------------------------------------------------------------------------------
 */

struct rig *rig_open(const struct ag_policy_config *config)
{
    struct rig *r = calloc(1, sizeof(*r));
    struct ag_policy_config defaults;
    assert_non_null(r);
    ag_policy_defaults(&defaults);
    defaults.profit = true;
    struct ag_policy_hooks hooks = {.share = share, .drop = drop, .context = r};
    assert_int_equal(ag_engine_open(&r->engine, config ? config : &defaults, &hooks, &world), 0);
    r->gap = 500;
    r->launch_ns = RIG_LAUNCH_NS;
    r->now = 1000;
    r->segment_known = true;
    r->seed = 1;
    return r;
}

static struct rig_given given_since(const struct rig *r, uint64_t submitted, uint64_t launches)
{
    return (struct rig_given){r->submitted - submitted, r->launches - launches};
}

/* Every third op that is expected takes the caller's own hot path. Returns the room of one that
 * only joins, else NULL. */
static uint8_t *arrive(struct rig *r, ag_key key, struct ag_verdict *v)
{
    struct ag_engine *e = &r->engine;
    bool hot = r->ops % 3 == 0 && ag_engine_expected(e) == key;
    uint8_t *room = hot ? ag_engine_join(e, bytes_of(key)) : NULL;
    if (room)
        v->what = AG_DO_DEFER;
    else if (!hot)
        ag_engine_op(e, key, r->now, v);
    else if (ag_engine_step(e, v))
        ag_engine_run_ends(e, r->now, v);
    return room;
}

/* Tells the policy of a key that comes for the first time. */
static void meet(struct rig *r, ag_key key)
{
    for (uint64_t i = ag_mix(key);; i++) {
        ag_key *met = &r->met[i % RIG_KEYS];
        if (*met == key)
            return;
        if (!*met) {
            *met = key;
            assert_true(++r->num_met < RIG_KEYS / 2);
            ag_policy_meets_new(ag_engine_policy(&r->engine));
            return;
        }
    }
}

struct rig_given rig_op(struct rig *r, ag_key key)
{
    struct ag_engine *e = &r->engine;
    struct ag_verdict v = {0};
    uint64_t submitted = r->submitted, launches = r->launches, op = r->ops, now = r->now += r->gap;
    r->dormant += e->policy.dormant > 0;
    if (r->tells_new)
        meet(r, key);
    uint8_t *joined = arrive(r, key, &v);
    if (e->policy.state->odds.last == ag_policy_counts(&e->policy)->ops) {
        r->segment_hash = r->segment_len = 0; /* it ended the segment, and belongs to none */
        r->segment_known = true;
    } else {
        r->segment_hash = ag_hash_add(r->segment_hash, key);
        r->segment_len++;
    }
    r->keys[r->ops++ % AG_MAX_SEQUENCE_OPS] = key;
    uint8_t *room = joined ? joined : ag_engine_record(e, key, bytes_of(key), &v);
    assert_int_equal(room == NULL, v.what == AG_DO_EAGER || e->state == AG_ENGINE_BYPASSED);
    if (!room || v.what == AG_DO_RECORD) {
        assert_int_equal(r->submitted, op);
        r->submitted++;
        takes_time(r, NULL);
    }
    if (room) {
        memcpy(room, &op, sizeof(op));
        if (joined)
            ag_engine_joined(e);
        else
            ag_engine_recorded(e, &v, now);
    }
    answer_due(r, r->ops);
    check(r);
    return given_since(r, submitted, launches);
}

void rig_run(struct rig *r, const ag_key *keys, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        rig_op(r, keys[i]);
}

/* A sequence's chunks follow each other from its first op to its last, and none lies across a cut.
 */
static void plan_holds(const struct ag_sequence *b)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < b->plan.num_chunks; i++) {
        assert_int_equal(b->plan.chunks[i].first, at);
        assert_true(b->plan.chunks[i].count > 0);
        at += b->plan.chunks[i].count;
        if (!b->tune.replan)
            assert_int_equal(ag_cut_behind(b, b->plan.chunks[i].first, at), at);
    }
    if (b->plan.num_chunks)
        assert_int_equal(at, b->len);
}

static void plans_hold(const struct rig *r)
{
    for (struct ag_sequence *e = r->engine.policy.state->by_id; e; e = e->hh.next)
        plan_holds(e);
}

struct rig_given rig_sync(struct rig *r)
{
    uint64_t submitted = r->submitted, launches = r->launches;
    r->now += RIG_SYNC_NS;
    ag_engine_sync_point(&r->engine, r->now);
    assert_int_equal(r->engine.num_recorded, 0);
    r->segment_hash = r->segment_len = 0;
    r->segment_known = !r->engine.policy.dormant;
    check(r);
    return given_since(r, submitted, launches);
}

void rig_break(struct rig *r)
{
    bool any = ag_engine_deferred(&r->engine) > 0;
    ag_engine_break(&r->engine);
    assert_true(!any || !r->engine.num_recorded);
    check(r);
}

void rig_pause(struct rig *r)
{
    bool any = ag_engine_deferred(&r->engine) > 0;
    r->now += RIG_WATCHDOG_NS;
    ag_engine_pause(&r->engine, r->now);
    assert_true(!any || !r->engine.num_recorded);
    plans_hold(r);
    check(r);
}

void rig_rest(struct rig *r, uint32_t ops)
{
    assert_int_equal(ag_policy_deferred(&r->engine.policy), 0);
    ag_engine_rest(&r->engine, ops);
    check(r);
}

void rig_invalidate(struct rig *r)
{
    rig_sync(r);
    rig_drain(r);
    ag_engine_invalidate(&r->engine);
    assert_int_equal(r->graphs_live, 0);
    check(r);
}

void rig_close(struct rig *r)
{
    rig_sync(r);
    assert_int_equal(r->submitted, r->ops);
    rig_drain(r);
    ag_engine_close(&r->engine);
    ag_engine_free(&r->engine);
    assert_int_equal(r->graphs_live, 0);
    free(r);
}

/* ---- measuring --------------------------------------------------------------------------------
 */

void rig_mark(struct rig *r)
{
    r->mark_ops = r->ops;
    r->mark_good = r->replayed + r->covered;
    r->mark_flushed = r->flushed;
    r->mark_built = r->graphs_built;
    r->mark_launches = r->launches;
}

double rig_replayed(const struct rig *r)
{
    return 100.0 * (double)(r->replayed + r->covered - r->mark_good) /
           (double)(r->ops - r->mark_ops);
}

double rig_flushed(const struct rig *r)
{
    return 100.0 * (double)(r->flushed - r->mark_flushed) / (double)(r->ops - r->mark_ops);
}

uint64_t rig_built(const struct rig *r)
{
    return r->graphs_built - r->mark_built;
}

double rig_ops_per_launch(const struct rig *r)
{
    return (double)(r->replayed + r->covered - r->mark_good) /
           (double)(r->launches - r->mark_launches);
}
