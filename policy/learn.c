/* learn.c - what is remembered at the end of a part and of a segment. */
#include "policy/internal.h"
#include <stdlib.h>

enum {
    LONG_OPS = 64,  /* longer segments are recognised by their ops from the second time on */
    LOOP_OPS = 512, /* shorter segments are graphed whole even where they are all loop */
};

/* A whole block (or, NULL, something else) has passed since the last boundary of any kind. */
void ag_measure(struct ag_policy *p, struct ag_block *block, uint64_t now)
{
    struct ag_policy_state *s = p->state;
    uint64_t replayed = p->counts.replayed - s->replayed_began;
    bool whole = block && !s->staged && now > s->block_began;
    if (block && !block->periodic && !replayed && now > s->block_began)
        ag_gate_first(&block->gate, now - s->block_began);
    if (s->config.gate && block && block->tune.mode == AG_TUNE_TRIES) {
        ag_tune_visit(s, block, now - s->block_began, whole && replayed == block->len);
    } else if (s->config.gate && whole && (!replayed || replayed * 2 > block->len)) {
        ag_tune_visit(s, block, now - s->block_began, replayed == block->len);
        ag_gate_visit(&block->gate, now - s->block_began, replayed > 0,
                      s->config.fixed_chunk ? 1 : block->longest, s->gap);
    }
    s->block_began = now;
    s->staged = false;
    s->replayed_began = p->counts.replayed;
}

void ag_visited(struct ag_policy *p, struct ag_block *block)
{
    struct ag_policy_state *s = p->state;
    block->visits++;
    block->seen_ns = s->block_began;
    if (!block->first_seen_ns)
        block->first_seen_ns = s->block_began;
    ag_block_kept(block);
    ag_block_touch(s, block);
    if (block->visits == 2 || (block->visits == 1 && block->len >= LONG_OPS))
        ag_finder_anchor(&s->finder, block);
    if (block->visits > 1) {
        ag_something_repeats(s);
        s->sleep = 0;
    }
}

/* Whether this content, or this first op of a part, has been met before. */
bool ag_seen_before(struct ag_policy_state *s, uint64_t id)
{
    if (s->seen[id & (AG_SEEN - 1)] == id)
        return true;
    s->seen[id & (AG_SEEN - 1)] = id;
    return false;
}

/* The part ended here, being `block` or s->part; adds it to the segment. Returns its block. */
struct ag_block *ag_end_part(struct ag_policy *p, struct ag_block *block)
{
    struct ag_policy_state *s = p->state;
    uint64_t hash = block ? block->prefix[block->len] : s->part.hash;
    uint32_t len = block ? block->len : s->part.count;
    if (!block && s->part.overflow) {
        s->segment_len = UINT32_MAX;
    } else if (len) {
        uint64_t made = p->counts.blocks;
        if (!block && (!s->rejoined || ag_seen_before(s, ag_content_id(hash, len))))
            block = ag_block_add(p, s->part.data, len);
        if (p->counts.blocks != made)
            ag_block_is_new(s);
        if (block)
            ag_visited(p, block);
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
    if (s->segment_len > AG_MAX_BLOCK_OPS || s->segment_len > f->ring_size ||
        f->end - f->floor < s->segment_len)
        return NULL;
    if (s->segment_len > LOOP_OPS && s->looped * 10 > s->segment_len * 9)
        return NULL; /* its loops are known already; a graph of every turn would gain nothing */
    uint32_t len = (uint32_t)s->segment_len;
    uint64_t id = ag_content_id(s->segment_hash, len);
    struct ag_block *block = ag_block_find(s, s->segment_hash, len);
    if (!block) {
        if (!ag_seen_before(s, id))
            return NULL;
        ag_key *keys = malloc(len * sizeof(*keys));
        if (!keys)
            return NULL;
        for (uint32_t i = 0; i < len; i++)
            keys[i] = ag_finder_at(f, f->end - len + i);
        block = ag_block_add(p, keys, len);
        free(keys);
        if (block)
            block->visits++;
    }
    if (block)
        ag_visited(p, block);
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
        ag_follow(p, next, 0, now);
    else
        ag_follow_nothing(p);
    ag_replan(p, now);
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
        ag_wake(p);
    if (s->idle && !(s->block && ag_position(p)))
        return 0;
    if (deferred) {
        ag_chunk_failed(&s->block->chunks[s->chunk]);
        p->counts.mismatches++;
    }
    bool followed = s->block && s->pure && !s->cuts && ag_position(p) == s->block->len;
    uint64_t took = now > s->block_began ? now - s->block_began : 0;
    ag_measure(p, followed ? s->block : NULL, now);
    struct ag_ref stayed = ag_block_ref(s->block);
    if (!s->block && !s->cuts && departed_late(s)) {
        stayed = s->departed;
        s->rejoined = true;
    }
    if (s->block) {
        if (s->pure && ag_position(p) == s->block->len && !s->block->periodic)
            part = s->block;
        if (part && !s->cuts)
            ag_follow_nothing(p);
        else
            ag_depart(p);
    }
    if (part)
        ag_keys_clear(&s->part);
    bool whole = s->cuts == 0;
    part = ag_end_part(p, part);
    struct ag_block *segment = whole ? part : whole_segment(p);
    if (segment && segment->visits == 1 && took)
        ag_gate_first(&segment->gate, took);
    uint64_t id = s->segment_len <= AG_MAX_BLOCK_OPS
                      ? ag_content_id(s->segment_hash, (uint32_t)s->segment_len)
                      : 1;
    struct ag_block *main = s->rejoined ? ag_block_get(s, stayed) : NULL;
    if (main) { /* a variation of it: what follows it follows this too */
        ag_visited(p, main);
        segment = main;
        id = main->id;
    }
    if (s->segment_len)
        ag_chain_learn(s, AG_CHAIN_REAL, segment, id);
    ag_finder_boundary(&s->finder);
    begin_segment(p, now);
    return deferred;
}
