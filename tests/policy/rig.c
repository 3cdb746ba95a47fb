/* rig.c - see rig.h. Includes policy/internal.h to compare the segment that the policy keeps. */
#include "rig.h"
#include "policy/internal.h"

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

struct rig *rig_open(const struct ag_policy_config *config)
{
    struct rig *r = calloc(1, sizeof(*r));
    struct ag_policy_config defaults;
    assert_non_null(r);
    ag_policy_defaults(&defaults);
    defaults.profit = true;
    struct ag_policy_hooks hooks = {.share = share, .drop = drop, .context = r};
    assert_int_equal(ag_policy_open(&r->policy, config ? config : &defaults, &hooks), 0);
    r->gap = 500;
    r->now = 1000;
    r->segment_known = true;
    r->seed = 1;
    return r;
}

/* ---- what must hold between calls -------------------------------------------------------------
 */

static void check_segment(const struct rig *r)
{
    const struct ag_policy *p = &r->policy;
    const struct ag_policy_state *s = p->state;
    if (!r->segment_known || p->dormant || s->slept || s->subsegment.overflow ||
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

static void check(const struct rig *r)
{
    const struct ag_policy *p = &r->policy;
    assert_int_equal(ag_policy_deferred(p), r->num_deferred);
    assert_int_equal(r->submitted + r->num_deferred, r->ops);
    assert_true(p->next <= p->stop);
    assert_true(p->next == NULL || p->stop != NULL);
    if (r->num_deferred) {
        assert_ptr_not_equal(p->next, p->stop);
        assert_int_equal(p->doing, AG_DO_DEFER);
        assert_memory_equal(p->next - r->num_deferred, r->deferred,
                            r->num_deferred * sizeof(ag_key));
    }
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

/* ---- submitting -------------------------------------------------------------------------------
 */

static void launch(struct rig *r, const struct ag_chunk *chunk, const ag_key *keys)
{
    const struct graph *g = chunk->user;
    assert_int_equal(chunk->state, AG_CHUNK_READY);
    assert_non_null(g);
    assert_int_equal(g->count, chunk->count);
    assert_memory_equal(g->keys, keys, g->count * sizeof(ag_key));
    r->submitted += g->count;
    r->launches++;
    r->now += RIG_LAUNCH_NS;
    ag_policy_submitted(&r->policy, r->now);
}

static void flush(struct rig *r, uint32_t n)
{
    assert_int_equal(n, r->num_deferred);
    for (uint32_t at = 0; at < n;) {
        struct ag_chunk *c = ag_policy_cover(&r->policy, r->deferred + at, n - at);
        if (c) {
            launch(r, c, r->deferred + at);
            r->covered += c->count;
            at += c->count;
        } else {
            r->submitted++;
            r->flushed++;
            at++;
        }
    }
    r->num_deferred = 0;
}

static void done(struct rig *r, const struct ag_verdict *v)
{
    struct ag_chunk *chunk = v->done;
    const ag_key *keys = chunk->sequence->keys + chunk->first;
    assert_int_not_equal(v->what, AG_DO_EAGER);
    if (v->what == AG_DO_DEFER) {
        assert_int_equal(chunk->count, r->num_deferred);
        assert_int_equal(chunk->state, AG_CHUNK_READY);
        if (r->launch_fail_percent && rig_random(&r->seed) % 100 < r->launch_fail_percent) {
            drop(r, chunk);
            ag_policy_built(chunk, false);
            flush(r, r->num_deferred);
            r->staging = false;
            return;
        }
        launch(r, chunk, r->deferred);
        r->replayed += chunk->count;
        r->num_deferred = 0;
        r->staging = false;
        if (!r->first_replay)
            r->first_replay = r->ops;
        return;
    }
    assert_true(r->staging);
    assert_int_equal(chunk->count, r->num_recorded);
    assert_memory_equal(keys, r->recorded, chunk->count * sizeof(ag_key));
    r->staging = false;
    assert_true(r->num_builds < RIG_BUILDS);
    r->builds[r->num_builds].chunk = chunk;
    r->builds[r->num_builds++].due = r->ops + r->build_delay;
    if (!r->build_delay)
        rig_drain(r);
}

static struct rig_given given_since(const struct rig *r, uint64_t submitted, uint64_t launches)
{
    return (struct rig_given){r->submitted - submitted, r->launches - launches};
}

struct rig_given rig_op(struct rig *r, ag_key key)
{
    struct ag_policy *p = &r->policy;
    struct ag_verdict v = {0};
    uint64_t submitted = r->submitted, launches = r->launches;
    r->now += r->gap;
    r->asleep += p->dormant > 0;
    /* every third op that is expected takes the caller's own hot path */
    if (!p->dormant && p->next != p->stop && *p->next == key && r->ops % 3 == 0) {
        v.what = p->doing;
        v.fresh = v.what != AG_DO_EAGER && !(v.what == AG_DO_DEFER ? r->num_deferred : r->staging);
        p->counts.ops++;
        if (++p->next == p->stop)
            ag_policy_run_end(p, r->now, &v);
    } else {
        ag_policy_op(p, key, r->now, &v);
    }
    r->ops++;
    r->segment_hash = ag_hash_add(r->segment_hash, key);
    r->segment_len++;
    if (v.flush)
        flush(r, v.flush);
    if (v.what != AG_DO_DEFER) {
        assert_int_equal(r->num_deferred, 0);
        r->submitted++;
        r->now += RIG_LAUNCH_NS;
    } else {
        r->deferred[r->num_deferred++] = key;
    }
    if (v.fresh) {
        r->staging = true;
        r->num_recorded = 0;
    }
    if (v.what == AG_DO_EAGER)
        r->staging = false;
    else if (r->staging)
        r->recorded[r->num_recorded++] = key;
    if (v.done)
        done(r, &v);
    answer_due(r, r->ops);
    check(r);
    return given_since(r, submitted, launches);
}

void rig_run(struct rig *r, const ag_key *keys, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        rig_op(r, keys[i]);
}

struct rig_given rig_sync(struct rig *r)
{
    uint64_t submitted = r->submitted, launches = r->launches;
    r->now += RIG_SYNC_NS;
    flush(r, ag_policy_sync_point(&r->policy, r->now));
    r->segment_hash = r->segment_len = 0;
    r->segment_known = !r->policy.dormant;
    r->staging = false;
    check(r);
    return given_since(r, submitted, launches);
}

void rig_break(struct rig *r)
{
    flush(r, ag_policy_break(&r->policy));
    check(r);
}

void rig_rest(struct rig *r, uint32_t ops)
{
    assert_int_equal(ag_policy_deferred(&r->policy), 0);
    ag_policy_rest(&r->policy, ops);
    r->staging = false;
    check(r);
}

void rig_forget(struct rig *r)
{
    rig_sync(r);
    rig_drain(r);
    ag_policy_invalidate(&r->policy);
    assert_int_equal(r->graphs_live, 0);
    check(r);
}

void rig_close(struct rig *r)
{
    rig_sync(r);
    assert_int_equal(r->submitted, r->ops);
    rig_drain(r);
    ag_policy_close(&r->policy);
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
