/*
 * follow.c - the state machine: following a block, departing from it, finding back, and learning
 * what was seen at every boundary.
 *
 * A *stretch* is what lies between p->next and p->stop: ops that are all treated alike (p->doing).
 * A *part* is what lies between two cuts, real (a boundary) or artificial (a period's end); a
 * *segment* is what lies between two boundaries, one part or several.
 *
 * Invariants
 *  - p->doing == AG_DO_DEFER only while s->block is set, the stretch began at the first op of a
 * chunk, and that chunk was ready; the deferred ops are exactly the chunk's ops before p->next.
 *  - s->pure: the part so far is s->block->keys[0 .. position). Otherwise it is s->part followed by
 *    s->block->keys[s->from .. position).
 */
#include "policy/internal.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    LONG_OPS = 64,    /* longer segments are recognised by their ops from the second time on */
    LOOP_OPS = 1024,  /* shorter segments are graphed whole even where they are all loop */
    MERGE_STREAK = 8, /* repetitions in a row before several are merged in one block */
    MERGE_OPS = 64,   /* ops that a merged block may have */
    SHORT_PERIOD = 8, /* shorter periods are repeated up to this length at once */
    MIN_FAILS = 4,    /* before a chunk that fails often is let cool down */
    COOL_VISITS = 64, /* of its block */
    AWAKE_OPS =
        40960, /* without a repetition, before the observer naps: two of the longest blocks */
    FIRST_NAP = 8192, /* ops; every nap is twice as long as the one before ... */
    LONGEST_NAP = 262144,
    AWAKE_SHARE = 6, /* ... and the observer then stays awake for one sixth of that */
    LAUNCH_NS =
        2500, /* host time of an eager launch, taken off the observed gap (FACTS: 2.5-3.9 us) */
};

static uint32_t position(const struct ag_policy *p)
{
    return (uint32_t)(p->next - p->state->block->keys);
}

uint32_t ag_policy_deferred(const struct ag_policy *p)
{
    const struct ag_policy_state *s = p->state;
    return s->block && p->doing == AG_DO_DEFER ? position(p) - s->block->chunks[s->chunk].first : 0;
}

static bool wants_graphs(const struct ag_policy_state *s, const struct ag_block *b)
{
    return b->len >= s->config.min_ops && b->visits + 1 >= s->config.min_repeats;
}

/* What to do with a chunk whose first op comes next. */
static enum ag_do treatment(struct ag_policy_state *s, struct ag_chunk *chunk)
{
    struct ag_block *b = chunk->block;
    switch (atomic_load_explicit(&chunk->state, memory_order_acquire)) {
    case AG_CHUNK_READY:
        if (s->config.gate && !ag_gate_defers(&b->gate))
            return AG_DO_EAGER;
        return b->visits < chunk->cold_until ? AG_DO_EAGER : AG_DO_DEFER;
    case AG_CHUNK_FAILED:
        if (b->visits < chunk->retry_at)
            return AG_DO_EAGER;
        atomic_store_explicit(&chunk->state, AG_CHUNK_NEW, memory_order_relaxed);
        return AG_DO_STAGE;
    case AG_CHUNK_NEW:
        return wants_graphs(s, b) ? AG_DO_STAGE : AG_DO_EAGER;
    default:
        return AG_DO_EAGER;
    }
}

static bool is_ready(struct ag_chunk *chunk)
{
    return atomic_load_explicit(&chunk->state, memory_order_acquire) == AG_CHUNK_READY;
}

/* The stretch that begins at `at` of the followed block. */
static void begin_stretch(struct ag_policy *p, uint32_t at, uint64_t now)
{
    struct ag_policy_state *s = p->state;
    struct ag_block *b = s->block;
    p->next = b->keys + at;
    p->doing = AG_DO_EAGER;
    s->stretch_began = now;
    if (at == b->len) {
        p->stop = p->next;
        return;
    }
    if (!b->num_chunks && wants_graphs(s, b))
        ag_plan(s, b);
    if (!b->num_chunks) {
        p->stop = b->keys + b->len;
        return;
    }
    s->chunk = ag_plan_chunk_at(b, at);
    struct ag_chunk *chunk = &b->chunks[s->chunk];
    p->stop = b->keys + chunk->first + chunk->count;
    if (chunk->first == at)
        p->doing = treatment(s, chunk);
}

static void follow(struct ag_policy *p, struct ag_block *block, uint32_t at, uint64_t now)
{
    struct ag_policy_state *s = p->state;
    s->block = block;
    s->from = at;
    s->pushed = at;
    ag_block_touch(s, block);
    begin_stretch(p, at, now);
}

/* Cuts the block that is about to begin anew where the host's pace has changed. Only when no chunk
 * is in the caller's hands. */
static void replan(struct ag_policy *p, uint64_t now)
{
    struct ag_policy_state *s = p->state;
    struct ag_block *block = s->block;
    if (block && p->next == block->keys && ag_plan_is_stale(s, block) &&
        ag_block_drop_chunks(p, block)) {
        block->replans++;
        begin_stretch(p, 0, now);
    }
}

static void follow_nothing(struct ag_policy *p)
{
    p->state->block = NULL;
    p->next = p->stop = NULL;
    p->doing = AG_DO_EAGER;
}

static void into_history(struct ag_policy_state *s, uint32_t upto)
{
    if (upto > s->pushed) {
        ag_finder_push_run(&s->finder, s->block->keys + s->pushed, upto - s->pushed);
        s->pushed = upto;
    }
}

/* A whole block (or, NULL, something else) has passed since the last boundary of any kind. */
static void measure(struct ag_policy *p, struct ag_block *block, uint64_t now)
{
    struct ag_policy_state *s = p->state;
    uint64_t replayed = p->counts.replayed - s->replayed_began;
    if (s->config.gate && block && now > s->block_began && (!replayed || replayed * 2 > block->len))
        ag_gate_visit(&block->gate, now - s->block_began, replayed > 0);
    s->block_began = now;
    s->replayed_began = p->counts.replayed;
}

/* Makes the part explicit and stops following. */
static void depart(struct ag_policy *p)
{
    struct ag_policy_state *s = p->state;
    s->last_op = 0; /* followed ops left no time */
    uint32_t at = position(p);
    into_history(s, at);
    for (uint32_t i = s->pure ? 0 : s->from; i < at; i++)
        ag_keys_push(&s->part, s->block->keys[i]);
    s->pure = false;
    s->block->streak = 0;
    follow_nothing(p);
}

/* ---- learning ---------------------------------------------------------------------------------
 */

static void visited(struct ag_policy *p, struct ag_block *block)
{
    struct ag_policy_state *s = p->state;
    block->visits++;
    ag_block_touch(s, block);
    if (block->visits == 2 || (block->visits == 1 && block->len >= LONG_OPS))
        ag_finder_anchor(&s->finder, block);
    if (block->visits > 1) {
        s->unproductive = 0;
        s->sleep = 0;
    }
}

/* Variations of a block are remembered as blocks of their own from the second time on. */
static bool seen_before(struct ag_policy_state *s, uint64_t id)
{
    if (s->seen[id & (AG_SEEN - 1)] == id)
        return true;
    s->seen[id & (AG_SEEN - 1)] = id;
    return false;
}

/* The part ended here, being `block` or s->part; adds it to the segment. Returns its block. */
static struct ag_block *end_part(struct ag_policy *p, struct ag_block *block)
{
    struct ag_policy_state *s = p->state;
    uint64_t hash = block ? block->prefix[block->len] : s->part.hash;
    uint32_t len = block ? block->len : s->part.count;
    if (!block && s->part.overflow) {
        s->segment_len = UINT32_MAX;
    } else if (len) {
        if (!block && (!s->rejoined || seen_before(s, ag_content_id(hash, len))))
            block = ag_block_add(p, s->part.data, len);
        if (block)
            visited(p, block);
        s->segment_hash = ag_hash_join(s->segment_hash, hash, len);
        s->segment_len += len;
        ag_chain_learn(s, AG_CHAIN_PART, block, ag_content_id(hash, len));
    }
    ag_keys_clear(&s->part);
    s->pure = true;
    s->departed.serial = 0;
    return block;
}

/* A segment of several parts becomes a block of its own when it is seen for the second time. */
static struct ag_block *whole_segment(struct ag_policy *p)
{
    struct ag_policy_state *s = p->state;
    struct ag_finder *f = &s->finder;
    if (s->segment_len > AG_MAX_BLOCK_OPS || f->end - f->floor < s->segment_len)
        return NULL;
    if (s->segment_len > LOOP_OPS && s->looped * 10 > s->segment_len * 9)
        return NULL; /* its loops are known already; a graph of every turn would gain nothing */
    uint32_t len = (uint32_t)s->segment_len;
    uint64_t id = ag_content_id(s->segment_hash, len);
    struct ag_block *block = ag_block_find(s, s->segment_hash, len);
    if (!block) {
        if (!seen_before(s, id))
            return NULL;
        ag_key *keys = malloc(len * sizeof(*keys));
        if (!keys)
            return NULL;
        for (uint32_t i = 0; i < len; i++)
            keys[i] = f->ring[(f->end - len + i) & (AG_RING - 1)];
        block = ag_block_add(p, keys, len);
        free(keys);
        if (block)
            block->visits++;
    }
    if (block)
        visited(p, block);
    return block;
}

static void begin_segment(struct ag_policy *p, uint64_t now)
{
    struct ag_policy_state *s = p->state;
    struct ag_block *next = ag_chain_predict(s, AG_CHAIN_REAL);
    s->idle = true;
    s->pure = true;
    s->rejoined = false;
    s->segment_hash = 0;
    s->segment_len = 0;
    s->cuts = 0;
    s->looped = 0;
    s->part1 = ag_mix(s->real1 + 1);
    s->part2 = ag_mix(s->real2 + 1);
    if (!next)
        next = ag_chain_predict(s, AG_CHAIN_PART);
    if (next)
        follow(p, next, 0, now);
    else
        follow_nothing(p);
    replan(p, now);
}

/* ---- backing off ------------------------------------------------------------------------------
 */

/* What was deferred for the current chunk must be submitted eagerly. A chunk with which that
 * happens often is let cool down; the other chunks of its block go on. */
static void failed(struct ag_chunk *chunk)
{
    chunk->block->fails++;
    chunk->fails++;
    if (chunk->fails >= MIN_FAILS) {
        if (chunk->fails > chunk->hits)
            chunk->cold_until = chunk->block->visits + COOL_VISITS;
        chunk->hits = chunk->fails = 0;
    }
}

static void nap(struct ag_policy *p)
{
    struct ag_policy_state *s = p->state;
    if (s->block)
        depart(p);
    s->sleep = s->sleep ? s->sleep * 2 : FIRST_NAP;
    if (s->sleep > LONGEST_NAP)
        s->sleep = LONGEST_NAP;
    p->dormant = s->sleep;
    p->counts.dormant += s->sleep;
    s->slept = true;
    uint32_t awake = s->sleep / AWAKE_SHARE;
    s->unproductive = awake > AWAKE_OPS ? 0 : AWAKE_OPS - awake;
}

static void wake(struct ag_policy *p)
{
    struct ag_policy_state *s = p->state;
    s->slept = false;
    p->dormant = 0;
    ag_finder_boundary(&s->finder);
    ag_keys_clear(&s->part);
    s->part.overflow = true; /* what this segment held is not known */
    s->segment_len = UINT32_MAX;
    s->pure = false;
    s->idle = false;
    s->departed.serial = 0;
    follow_nothing(p);
}

/* ---- the host's pace --------------------------------------------------------------------------
 */

static void learn_gap(struct ag_policy_state *s, uint64_t ns)
{
    if (ns > 100000)
        return; /* not a gap between ops of one step */
    uint32_t gap = (uint32_t)ns;
    s->gap = s->gap ? s->gap + (int32_t)(gap - s->gap) / 8 : gap;
}

/* ---- periods ----------------------------------------------------------------------------------
 */

/* A block of `times` repetitions of the `period` ops at position `began` of the history. */
static struct ag_block *repeat(struct ag_policy *p, uint64_t began, uint32_t period, uint32_t times)
{
    struct ag_policy_state *s = p->state;
    uint32_t len = period * times;
    ag_key *keys = malloc(len * sizeof(*keys));
    if (!keys)
        return NULL;
    for (uint32_t i = 0; i < len; i++)
        keys[i] = s->finder.ring[(began + i % period) & (AG_RING - 1)];
    uint64_t made = p->counts.blocks;
    struct ag_block *block = ag_block_add(p, keys, len);
    free(keys);
    if (!block)
        return NULL;
    if (p->counts.blocks != made)
        p->counts.periods++;
    block->periodic = true;
    if (times > 1)
        block->shortest_period = period;
    if (block->visits < s->config.min_repeats - 1) {
        block->visits = s->config.min_repeats - 1;
        ag_finder_anchor(&s->finder, block);
    }
    return block;
}

/* Repeating unit of a followed periodic block, 0 if it has not covered the last `period` ops. */
static bool inside_known_period(const struct ag_policy_state *s, uint32_t period)
{
    const struct ag_block *b = s->block;
    if (!b || !b->periodic)
        return false;
    uint32_t unit = b->shortest_period ? b->shortest_period : b->len;
    return period % unit == 0 && (uint64_t)b->streak * b->len >= period;
}

/* A loop of this period was left a few ops ago and may go on. */
static bool finding_back(struct ag_policy_state *s, uint32_t period)
{
    struct ag_block *b = ag_block_get(s, s->departed);
    return b && b->periodic && period % (b->shortest_period ? b->shortest_period : b->len) == 0;
}

/* Looks whether the history has just repeated a whole period; if so enters its block. All ops that
 * were seen are in the history. */
static bool adopt_period(struct ag_policy *p, uint64_t now)
{
    struct ag_policy_state *s = p->state;
    struct ag_finder *f = &s->finder;
    uint32_t period = ag_finder_period(f);
    if (s->block && s->finder.run < 2 * (uint64_t)period)
        return false; /* what is followed already needs better evidence */
    if (!period || inside_known_period(s, period) || finding_back(s, period))
        return false;
    uint64_t began = ag_finder_began(f, period);
    uint32_t times = period < SHORT_PERIOD ? (SHORT_PERIOD + period - 1) / period : 1;
    uint32_t at = (uint32_t)((f->end - began) % ((uint64_t)period * times));
    struct ag_block *block = repeat(p, began, period, times);
    if (!block)
        return false;
    if (s->block) { /* it has just ended, and is in the segment already */
        s->block->streak = 0;
        follow_nothing(p);
    }
    /* what came before the loop is a part of its own */
    if (!s->part.overflow && s->part.count) {
        uint64_t inside = f->end - began;
        if (inside < s->part.count) {
            uint32_t before = s->part.count - (uint32_t)inside;
            s->keep = block;
            struct ag_block *head = ag_block_add(p, s->part.data, before);
            if (head) {
                visited(p, head);
                ag_chain_learn(s, AG_CHAIN_PART, head, head->id);
            }
            s->keep = NULL;
        }
    }
    /* the ops since the loop began count for the segment, though not as a part */
    s->segment_hash = ag_hash_join(s->segment_hash, s->part.hash, s->part.count);
    s->segment_len += s->part.overflow ? UINT32_MAX : s->part.count;
    ag_keys_clear(&s->part);
    s->cuts++;
    s->pure = false;
    s->departed.serial = 0;
    s->unproductive = 0;
    follow(p, block, at, now);
    if (at == 0)
        s->pure = true;
    return true;
}

static void merge_repetitions(struct ag_policy *p, struct ag_block *b)
{
    struct ag_policy_state *s = p->state;
    uint32_t times = MERGE_OPS / b->len;
    if (b->unrolled || b->streak < MERGE_STREAK || times < 2)
        return;
    uint32_t unit = b->shortest_period ? b->shortest_period : b->len;
    struct ag_block *merged = repeat(p, s->finder.end - b->len, b->len, times);
    if (merged) {
        merged->shortest_period = unit;
        b->unrolled = merged;
    }
}

/* A periodic block has been followed to its end: an artificial boundary. */
static void end_period(struct ag_policy *p, uint64_t now)
{
    struct ag_policy_state *s = p->state;
    struct ag_block *b = s->block;
    into_history(s, b->len);
    measure(p, s->pure ? b : NULL, now);
    s->looped += b->len;
    if (s->pure) {
        end_part(p, b);
    } else {
        for (uint32_t i = s->from; i < b->len; i++)
            ag_keys_push(&s->part, b->keys[i]);
        s->segment_hash = ag_hash_join(s->segment_hash, s->part.hash, s->part.count);
        s->segment_len += s->part.overflow ? UINT32_MAX : s->part.count;
        ag_keys_clear(&s->part);
        ag_chain_learn(s, AG_CHAIN_PART, NULL, b->id);
        s->pure = true;
        visited(p, b);
    }
    b->streak++;
    s->cuts++;
    s->rejoined = false;
    if (adopt_period(p, now))
        return;
    merge_repetitions(p, b);
    struct ag_block *next = NULL;
    if (b->unrolled && b->streak >= MERGE_STREAK)
        next = b->unrolled;
    if (!next)
        next = ag_chain_predict(s, AG_CHAIN_PART);
    uint32_t streak = b->streak;
    follow(p, next ? next : b, 0, now);
    if (s->block != b)
        b->streak = 0;
    else
        b->streak = streak;
}

/* ---- ops --------------------------------------------------------------------------------------
 */

void ag_policy_submitted(struct ag_policy *p, uint64_t now)
{
    p->state->stretch_began = now;
    replan(p, now);
}

void ag_policy_stretch_end(struct ag_policy *p, uint64_t now, struct ag_verdict *v)
{
    struct ag_policy_state *s = p->state;
    struct ag_block *b = s->block;
    uint32_t at = position(p);
    if (s->retired)
        ag_block_free_retired(p);
    s->idle = false;
    if (p->doing != AG_DO_EAGER) {
        struct ag_chunk *chunk = &b->chunks[s->chunk];
        v->done = chunk;
        if (p->doing == AG_DO_DEFER) {
            ag_chunk_publish(s, chunk);
            p->counts.replayed += chunk->count;
            b->tries++;
            chunk->hits++;
            /* the first stretch of a segment began before the wait that precedes it */
            if (now > s->stretch_began && (chunk->first || b->periodic))
                learn_gap(s, (now - s->stretch_began) / chunk->count);
        } else {
            atomic_store_explicit(&chunk->state, AG_CHUNK_BUILDING, memory_order_release);
        }
        s->unproductive = 0;
    }
    if (at == b->len && b->periodic)
        end_period(p, now);
    else
        begin_stretch(p, at, now);
}

static void advance(struct ag_policy *p, uint64_t now, struct ag_verdict *v)
{
    struct ag_policy_state *s = p->state;
    v->what = p->doing;
    v->fresh = p->doing != AG_DO_EAGER && position(p) == s->block->chunks[s->chunk].first;
    if (++p->next == p->stop)
        ag_policy_stretch_end(p, now, v);
}

/* After a departure: the same block a little further on? */
static bool realign(struct ag_policy *p, ag_key key, uint64_t now)
{
    struct ag_policy_state *s = p->state;
    struct ag_block *b = ag_block_get(s, s->departed);
    if (!b)
        return false;
    if (s->realign_left-- == 0) {
        s->departed.serial = 0;
        return false;
    }
    if (s->realign_run && s->realign < b->len && b->keys[s->realign] == key) {
        s->realign++;
        s->realign_run++;
    } else {
        uint32_t end = s->departed_at + AG_REALIGN_WINDOW;
        s->realign_run = 0;
        for (uint32_t i = s->departed_at; i < b->len && i < end; i++)
            if (b->keys[i] == key) {
                s->realign = i + 1;
                s->realign_run = 1;
                break;
            }
    }
    if (s->realign_run < AG_REALIGN_RUN || s->realign >= b->len)
        return false;
    s->departed.serial = 0;
    s->rejoined = true;
    p->counts.resyncs++;
    follow(p, b, s->realign, now);
    return true;
}

/* Any block by its last ops. */
static bool recognise(struct ag_policy *p, uint64_t now)
{
    struct ag_policy_state *s = p->state;
    uint32_t at;
    struct ag_ref ref = ag_finder_recognise(&s->finder, &at);
    struct ag_block *b = ag_block_get(s, ref);
    if (!b || at >= b->len || at < AG_GRAM)
        return false;
    if (s->part.count < AG_GRAM && !s->part.overflow)
        return false;
    if (!s->part.overflow && memcmp(s->part.data + s->part.count - AG_GRAM, b->keys + at - AG_GRAM,
                                    AG_GRAM * sizeof(ag_key)))
        return false; /* the hashes are equal, the ops are not */
    /* the beginning of a periodic block within this part ends what came before it */
    if (b->periodic && !s->part.overflow && s->part.count >= at &&
        !memcmp(s->part.data + s->part.count - at, b->keys, at * sizeof(ag_key))) {
        uint64_t hash = 0;
        s->part.count -= at;
        for (uint32_t i = 0; i < s->part.count; i++)
            hash = ag_hash_add(hash, s->part.data[i]);
        s->part.hash = hash;
        s->keep = b;
        end_part(p, NULL);
        s->keep = NULL;
        s->cuts++;
    }
    p->counts.resyncs++;
    follow(p, b, at, now);
    if (s->pure)
        s->from = 0;
    else
        s->rejoined = !b->periodic;
    return true;
}

static void observe(struct ag_policy *p, ag_key key, uint64_t now, struct ag_verdict *v)
{
    struct ag_policy_state *s = p->state;
    v->what = AG_DO_EAGER;
    s->pure = false;
    s->unproductive++;
    ag_keys_push(&s->part, key);
    ag_finder_push(&s->finder, key);
    if (s->last_op && now > s->last_op) {
        uint64_t apart = now - s->last_op, launch = p->launch_ns ? p->launch_ns : LAUNCH_NS;
        learn_gap(s, apart > launch + 100 ? apart - launch : 100);
    }
    s->last_op = now;
    if (realign(p, key, now) || adopt_period(p, now) || recognise(p, now))
        return;
    if (s->unproductive > AWAKE_OPS)
        nap(p);
}

/* Another known block with the same beginning that goes on with this op. */
static bool switch_block(struct ag_policy *p, ag_key key, uint64_t now, struct ag_verdict *v)
{
    struct ag_policy_state *s = p->state;
    struct ag_block *b = s->block, *other;
    uint32_t at = b ? position(p) : 0, deferred = ag_policy_deferred(p);
    enum ag_do doing = p->doing;
    if (b ? !s->pure : !s->idle)
        return false;
    other = ag_block_candidate(s, at ? b->keys[0] : key, at ? b->prefix[at] : 0, at, key);
    if (!other || other == b)
        return false;
    bool running = b && doing != AG_DO_EAGER && at > b->chunks[s->chunk].first;
    uint32_t began = running ? b->chunks[s->chunk].first : at;
    uint64_t stretch_began = s->stretch_began;
    struct ag_chunk *left = running ? &b->chunks[s->chunk] : NULL;
    if (b) {
        into_history(s, at);
        b->streak = 0;
    }
    follow(p, other, at, now);
    s->from = 0;
    s->pure = true;
    if (running) {
        struct ag_chunk *fits = other->num_chunks ? &other->chunks[s->chunk] : NULL;
        bool alike = fits && fits->first == began;
        enum ag_do wanted = alike ? treatment(s, fits) : AG_DO_EAGER;
        /* a chunk that cools down is not entered, but what is deferred already may go on in it */
        if (alike && doing == AG_DO_DEFER && is_ready(fits))
            wanted = AG_DO_DEFER;
        bool goes_on = wanted != AG_DO_EAGER && (wanted == doing || wanted == AG_DO_STAGE);
        if (goes_on) {
            p->doing = wanted;
            s->stretch_began = stretch_began;
        }
        /* p->doing may be that of a chunk which begins here: what is deferred is not part of it */
        if (deferred && !(goes_on && wanted == AG_DO_DEFER)) {
            v->flush = deferred;
            if (!alike) /* else there will be a graph for it soon */
                failed(left);
            p->counts.mismatches++;
        }
    }
    if (at)
        p->counts.switches++;
    return true;
}

/* Between two boundaries, work that is known follows on work that has just ended: a loop that was
 * left behind a whole turn, or a part that came to its end. The part ends here, and the block that
 * begins with this op is followed from its first op. */
static bool next_part(struct ag_policy *p, ag_key key, uint64_t now, struct ag_verdict *v)
{
    struct ag_policy_state *s = p->state;
    struct ag_block *b = s->block, *after, *predicted;
    uint32_t at = b ? position(p) : 0, deferred = ag_policy_deferred(p);
    if (!at || !s->pure)
        return false;
    uint32_t unit = b->shortest_period ? b->shortest_period : b->len;
    bool turn = b->periodic && at % unit == 0;
    bool ended = at == b->len && s->cuts;
    struct ag_block *part = turn ? NULL : ended ? b : ag_block_find(s, b->prefix[at], at);
    if (!turn && (!part || !(s->cuts || b->periodic)))
        return false;
    after = ag_block_candidate(s, key, 0, 0, key);
    if (!after)
        return false;
    if (deferred) {
        v->flush = deferred;
        failed(&s->block->chunks[s->chunk]);
        p->counts.mismatches++;
    }
    into_history(s, at);
    s->segment_hash = ag_hash_join(s->segment_hash, b->prefix[at], at);
    s->segment_len += at;
    if (turn) {
        s->looped += at;
        ag_chain_learn(s, AG_CHAIN_PART, NULL, ag_content_id(b->prefix[unit], unit));
    } else {
        visited(p, part);
        ag_chain_learn(s, AG_CHAIN_PART, part, part->id);
    }
    b->streak = 0;
    s->cuts++;
    s->departed.serial = 0;
    predicted = ag_chain_predict(s, AG_CHAIN_PART);
    follow(p, predicted && predicted->keys[0] == key ? predicted : after, 0, now);
    return true;
}

void ag_policy_op(struct ag_policy *p, ag_key key, uint64_t now, struct ag_verdict *v)
{
    struct ag_policy_state *s = p->state;
    v->flush = 0;
    v->fresh = false;
    v->done = NULL;
    p->counts.ops++;
    if (p->dormant) {
        p->dormant--;
        v->what = AG_DO_EAGER;
        return;
    }
    if (s->slept)
        wake(p);
    if (p->next != p->stop && *p->next == key) {
        s->idle = false;
        advance(p, now, v);
        return;
    }
    if (switch_block(p, key, now, v) || next_part(p, key, now, v)) {
        s->idle = false;
        advance(p, now, v);
        return;
    }
    s->idle = false;
    if (s->block) {
        uint32_t deferred = ag_policy_deferred(p), at = position(p);
        if (deferred) {
            v->flush = deferred;
            failed(&s->block->chunks[s->chunk]);
            p->counts.mismatches++;
        }
        if (at && at < s->block->len) {
            s->departed = ag_block_ref(s->block);
            s->departed_at = at;
            s->realign_run = 0;
            s->realign_left = AG_REALIGN_OPS;
        }
        depart(p);
    }
    observe(p, key, now, v);
}

uint32_t ag_policy_break(struct ag_policy *p)
{
    uint32_t deferred = ag_policy_deferred(p);
    if (deferred) {
        failed(&p->state->block->chunks[p->state->chunk]);
        p->doing = AG_DO_EAGER;
    }
    return deferred;
}

/* The segment is a long block but for its last ops. */
static bool departed_late(struct ag_policy_state *s)
{
    const struct ag_block *b = ag_block_get(s, s->departed);
    return b && !b->periodic && s->departed_at >= LONG_OPS &&
           s->departed_at + AG_REALIGN_WINDOW >= b->len;
}

uint32_t ag_policy_boundary(struct ag_policy *p, uint64_t now)
{
    struct ag_policy_state *s = p->state;
    uint32_t deferred = ag_policy_deferred(p);
    struct ag_block *part = NULL;
    p->counts.boundaries++;
    if (s->retired)
        ag_block_free_retired(p);
    s->last_op = 0; /* the program may wait now */
    if (p->dormant)
        return 0;
    if (s->slept)
        wake(p);
    if (s->idle && !(s->block && position(p)))
        return 0;
    if (deferred) {
        failed(&s->block->chunks[s->chunk]);
        p->counts.mismatches++;
    }
    bool followed = s->block && s->pure && !s->cuts && position(p) == s->block->len;
    measure(p, followed ? s->block : NULL, now);
    struct ag_ref stayed = ag_block_ref(s->block);
    if (!s->block && !s->cuts && departed_late(s)) {
        stayed = s->departed;
        s->rejoined = true;
    }
    if (s->block) {
        if (s->pure && position(p) == s->block->len && !s->block->periodic)
            part = s->block;
        if (part && !s->cuts)
            follow_nothing(p);
        else
            depart(p);
    }
    if (part)
        ag_keys_clear(&s->part);
    bool whole = s->cuts == 0;
    part = end_part(p, part);
    struct ag_block *segment = whole ? part : whole_segment(p);
    uint64_t id = s->segment_len <= AG_MAX_BLOCK_OPS
                      ? ag_content_id(s->segment_hash, (uint32_t)s->segment_len)
                      : 1;
    struct ag_block *main = s->rejoined ? ag_block_get(s, stayed) : NULL;
    if (main) { /* a variation of it: what follows it follows this too */
        visited(p, main);
        segment = main;
        id = main->id;
    }
    if (s->segment_len)
        ag_chain_learn(s, AG_CHAIN_REAL, segment, id);
    ag_finder_boundary(&s->finder);
    begin_segment(p, now);
    return deferred;
}

/* ---- life -------------------------------------------------------------------------------------
 */

void ag_policy_defaults(struct ag_policy_config *config)
{
    *config = (struct ag_policy_config){.min_repeats = 2,
                                        .min_ops = 1,
                                        .max_chunk = 64,
                                        .fixed_chunk = 0,
                                        .gate = false,
                                        .max_blocks = 512};
}

int ag_policy_open(struct ag_policy *p, const struct ag_policy_config *config,
                   const struct ag_policy_hooks *hooks)
{
    struct ag_policy_state *s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    memset(p, 0, sizeof(*p));
    s->config = *config;
    if (s->config.max_blocks > AG_SLOTS)
        s->config.max_blocks = AG_SLOTS;
    if (s->config.max_blocks < 16)
        s->config.max_blocks = 16;
    if (hooks)
        s->hooks = *hooks;
    s->idle = true;
    s->pure = true;
    p->state = s;
    return 0;
}

void ag_policy_forget(struct ag_policy *p)
{
    struct ag_policy_state *s = p->state;
    follow_nothing(p);
    ag_block_drop_all(p);
    ag_keys_clear(&s->part);
    ag_finder_boundary(&s->finder);
    s->segment_hash = s->segment_len = s->cuts = 0;
    s->departed.serial = 0;
    s->pure = s->idle = true;
    s->rejoined = false;
}

void ag_policy_close(struct ag_policy *p)
{
    if (!p->state)
        return;
    ag_policy_forget(p);
    free(p->state->part.data);
    free(p->state);
    p->state = NULL;
}

void ag_policy_built(struct ag_chunk *chunk, bool ok)
{
    if (!ok) {
        uint8_t shift = chunk->retries < 8 ? chunk->retries++ : 8;
        chunk->retry_at = chunk->block->visits + (16u << shift);
    }
    atomic_store_explicit(&chunk->state, ok ? AG_CHUNK_READY : AG_CHUNK_FAILED,
                          memory_order_release);
}

void ag_policy_not_built(struct ag_chunk *chunk)
{
    atomic_store_explicit(&chunk->state, AG_CHUNK_NEW, memory_order_release);
}
