/* learn.c - what the policy remembers at the end of a subsegment and of a segment. */
#include "policy/internal.h"
#include <stdlib.h>

/* From `sequence_began` until `now` was a visit of `sequence`, or something else (NULL). */
static void measure(struct ag_policy_state *s, struct ag_sequence *sequence, uint64_t now,
                    uint64_t replayed, bool recorded)
{
    bool timed = s->sequence_began && now > s->sequence_began;
    bool whole = sequence && !recorded && timed;
    if (sequence && !sequence->periodic && !replayed && timed)
        ag_profit_first(&sequence->profit, now - s->sequence_began);
    if (s->config.profit && sequence && sequence->tune.mode == AG_TUNE_TRIES) {
        ag_tune_visit(s, sequence, now - s->sequence_began, whole && replayed == sequence->len);
    } else if (s->config.profit && whole && (!replayed || replayed * 2 > sequence->len)) {
        ag_tune_visit(s, sequence, now - s->sequence_began, replayed == sequence->len);
        ag_profit_visit(&sequence->profit, now - s->sequence_began, replayed > 0,
                        s->config.fixed_chunk ? 1 : sequence->plan.longest, s->gap);
    }
    s->sequence_began = now;
}

/* The wait behind the last visit has ended. */
static void end_wait(struct ag_policy_state *s, uint64_t now)
{
    struct ag_awaited *w = &s->awaited;
    if (!w->is)
        return;
    w->is = false;
    measure(s, ag_sequence_get(s, w->sequence), now, w->replayed, w->recorded);
}

/* All ops since the last sync point of any kind were `sequence`, from start to end, or something
 * else (NULL). */
void ag_measure(struct ag_policy *p, struct ag_sequence *sequence, uint64_t now)
{
    struct ag_policy_state *s = p->state;
    end_wait(s, s->awaited.at);
    measure(s, sequence, now, p->counts.replayed - s->replayed_began, s->recorded);
    s->recorded = false;
    s->replayed_began = p->counts.replayed;
}

/* The same at a sync point, behind which the program may wait for what has just been submitted.
 * Where the next segment is another one, that wait belongs to this one's time: else a plan seems
 * good that keeps the next one waiting. Where all are the same it does not matter to which it
 * belongs. */
static void measure_segment(struct ag_policy *p, struct ag_sequence *sequence, uint64_t now)
{
    struct ag_policy_state *s = p->state;
    if (!s->others) {
        ag_measure(p, sequence, now);
        return;
    }
    s->awaited = (struct ag_awaited){.sequence = ag_sequence_ref(sequence),
                                     .at = now,
                                     .replayed = p->counts.replayed - s->replayed_began,
                                     .recorded = s->recorded,
                                     .is = true};
    s->recorded = false;
    s->replayed_began = p->counts.replayed;
}

bool ag_policy_awaits(const struct ag_policy *p)
{
    return p->state->awaited.is;
}

/* This makes no plan: by now another thread may hold back ops as the present one says. */
void ag_policy_returned(struct ag_policy *p, uint64_t now)
{
    struct ag_policy_state *s = p->state;
    bool begun = !p->idle || (s->sequence && ag_position(p) != s->from);
    if (s->awaited.is && !begun)
        s->awaited.at = now;
}

void ag_visited(struct ag_policy *p, struct ag_sequence *sequence)
{
    struct ag_policy_state *s = p->state;
    sequence->visits++;
    if (s->sequence_began)
        sequence->seen_ns = s->sequence_began;
    if (!sequence->first_seen_ns)
        sequence->first_seen_ns = s->sequence_began;
    ag_sequence_kept(sequence);
    ag_sequence_touch(s, sequence);
    if (sequence->visits == 2 || (sequence->visits == 1 && sequence->len >= AG_LONG_OPS))
        ag_finder_anchor(&s->finder, sequence);
    if (sequence->visits > 1) {
        ag_something_repeats(s);
        s->rest = 0;
    }
}

/* Whether this content, or this first op of a subsegment, was seen before. Several share a place,
 * the latest first: two that come in turn must not drive each other out for ever. */
bool ag_seen_before(struct ag_policy_state *s, uint64_t id)
{
    uint64_t *place = &s->seen[id & (AG_SEEN - 1) & ~(uint64_t)(AG_SEEN_WAYS - 1)], next = id;
    for (uint32_t i = 0; i < AG_SEEN_WAYS; i++) {
        uint64_t last = place[i];
        place[i] = next;
        if (last == id)
            return true;
        next = last;
    }
    return false;
}

/* The subsegment, which is `sequence` or s->subsegment, ended here. Adds it to the segment and
 * returns its sequence. `alone`: it is the whole segment, and what comes next is learnt of that. */
struct ag_sequence *ag_end_subsegment(struct ag_policy *p, struct ag_sequence *sequence, bool alone)
{
    struct ag_policy_state *s = p->state;
    uint64_t hash = sequence ? sequence->prefix[sequence->len] : s->subsegment.hash;
    uint32_t len = sequence ? sequence->len : s->subsegment.count;
    if (!sequence && s->subsegment.overflow) {
        s->segment_len = UINT32_MAX;
    } else if (len) {
        uint64_t made = p->counts.sequences;
        if (!sequence && (!s->rejoined || ag_seen_before(s, ag_content_id(hash, len))))
            sequence = ag_sequence_add(p, s->subsegment.data, len);
        if (p->counts.sequences != made)
            ag_sequence_is_new(s);
        if (sequence) {
            ag_visited(p, sequence);
            if (sequence->segment == s->segments && !sequence->periodic)
                s->looped += len;
            sequence->segment = s->segments;
        }
        s->segment_hash = ag_hash_join(s->segment_hash, hash, len);
        s->segment_len += len;
        if (!alone)
            ag_chain_learn(s, AG_CHAIN_SUBSEGMENT, sequence, ag_content_id(hash, len));
    }
    ag_keys_clear(&s->subsegment);
    s->pure = true;
    s->departed.serial = 0;
    return sequence;
}

/* When a segment of several subsegments is seen for the second time, it becomes a sequence of its
 * own. */
static struct ag_sequence *whole_segment(struct ag_policy *p)
{
    struct ag_policy_state *s = p->state;
    struct ag_finder *f = &s->finder;
    if (s->segment_len > AG_MAX_SEQUENCE_OPS || s->segment_len > f->ring_size ||
        f->end - f->floor < s->segment_len)
        return NULL;
    if (s->segment_len > AG_LOOP_OPS && s->looped * 2 > s->segment_len)
        return NULL; /* what repeats in it is known, and graphs of all of it would gain nothing */
    uint32_t len = (uint32_t)s->segment_len;
    uint64_t id = ag_content_id(s->segment_hash, len);
    struct ag_sequence *sequence = ag_sequence_find(s, s->segment_hash, len);
    if (!sequence) {
        if (!ag_seen_before(s, id))
            return NULL;
        ag_key *keys = malloc(len * sizeof(*keys));
        if (!keys)
            return NULL;
        for (uint32_t i = 0; i < len; i++)
            keys[i] = ag_finder_at(f, f->end - len + i);
        sequence = ag_sequence_add(p, keys, len);
        free(keys);
        if (sequence)
            sequence->visits++;
    }
    if (sequence)
        ag_visited(p, sequence);
    return sequence;
}

/* If nothing is known of what comes next, and the stream was in a loop, it mostly goes on with the
 * loop's next op: a program waits behind some of the turns, and may read something back then. */
static void begin_segment(struct ag_policy *p, uint64_t now)
{
    struct ag_policy_state *s = p->state;
    struct ag_sequence *loop = ag_sequence_get(s, s->loop);
    uint32_t at = loop && s->loop_at % ag_unit(loop) ? s->loop_at : 0;
    struct ag_sequence *next = ag_chain_predict(s, AG_CHAIN_REAL);
    p->idle = true;
    s->pure = true;
    s->rejoined = false;
    s->segment_hash = 0;
    s->segment_len = 0;
    s->splits = 0;
    s->looped = 0;
    s->segments++;
    s->loop.serial = 0;
    s->fresh_began = p->fresh;
    s->last_id[AG_CHAIN_SUBSEGMENT] = ag_mix(s->last_id[AG_CHAIN_REAL] + 1);
    s->id_before[AG_CHAIN_SUBSEGMENT] = ag_mix(s->id_before[AG_CHAIN_REAL] + 1);
    if (!next && loop) {
        s->pure = !at;             /* ag_policy_op() sees to it if another op comes */
        ag_follow(p, loop, at, 0); /* the pause before it is not the host's pace */
        return;
    }
    if (!next)
        next = ag_chain_predict(s, AG_CHAIN_SUBSEGMENT);
    if (next)
        ag_follow(p, next, 0, now);
    else
        ag_follow_nothing(p);
}

/* Whether the segment is a long sequence except for its last ops. */
static bool departed_late(struct ag_policy_state *s)
{
    const struct ag_sequence *b = ag_sequence_get(s, s->departed);
    return b && !b->periodic && s->departed_at >= AG_LONG_OPS &&
           s->departed_at + AG_REALIGN_WINDOW >= b->len;
}

/* Whether the segment is this sequence but for a few ops in their places, of which some were never
 * seen before: the next such segment will have others there. */
static bool varies(struct ag_policy *p, struct ag_sequence *b)
{
    struct ag_policy_state *s = p->state;
    const struct ag_keys *ops = &s->subsegment;
    if (!b || b->periodic || ops->overflow || ops->count != b->len || p->fresh == s->fresh_began)
        return false;
    uint32_t odd = 0;
    for (uint32_t i = 0; i < b->len; i++)
        odd += ops->data[i] != b->keys[i];
    if (!odd || odd * AG_OPS_PER_ODD_IN_STEP > b->len || ag_sequence_find(s, ops->hash, ops->count))
        return false;
    for (uint32_t i = 0; i < b->len; i++)
        if (ops->data[i] != b->keys[i]) {
            ag_cut_wanted(p, b, i);
            ag_cut_wanted(p, b, i + 1);
        }
    return true;
}

/* The segment ends here, with nothing deferred, and the next one begins. */
static void end_segment(struct ag_policy *p, uint64_t now)
{
    struct ag_policy_state *s = p->state;
    struct ag_sequence *subsegment = NULL;
    s->last_op = 0; /* the program may wait here */
    end_wait(s, s->awaited.at);
    bool followed = s->sequence && s->pure && !s->splits && ag_position(p) == s->sequence->len;
    uint64_t took = s->sequence_began && now > s->sequence_began ? now - s->sequence_began : 0;
    measure_segment(p, followed ? s->sequence : NULL, now);
    struct ag_ref stayed = ag_sequence_ref(s->sequence);
    if (!s->sequence && !s->splits) {
        if (departed_late(s) || varies(p, ag_sequence_get(s, s->departed)))
            stayed = s->departed;
        else if (varies(p, ag_sequence_get(s, s->last)))
            stayed = s->last;
        s->rejoined |= stayed.serial != 0;
    }
    if (s->sequence) {
        if (s->pure && ag_position(p) == s->sequence->len && !s->sequence->periodic)
            subsegment = s->sequence;
        if (subsegment && !s->splits)
            ag_follow_nothing(p);
        else
            ag_depart(p);
    }
    if (subsegment)
        ag_keys_clear(&s->subsegment);
    bool whole = s->splits == 0;
    subsegment = ag_end_subsegment(p, subsegment, whole);
    struct ag_sequence *segment = whole ? subsegment : whole_segment(p);
    if (segment && segment->visits == 1 && took)
        ag_profit_first(&segment->profit, took);
    uint64_t id = s->segment_len <= AG_MAX_SEQUENCE_OPS
                      ? ag_content_id(s->segment_hash, (uint32_t)s->segment_len)
                      : 1;
    struct ag_sequence *main = s->rejoined ? ag_sequence_get(s, stayed) : NULL;
    if (main) { /* a variation of it: what follows `main` follows this segment too */
        ag_visited(p, main);
        id = main->id;
    }
    s->last = ag_sequence_ref(main ? main : segment);
    if (s->segment_len && id != s->last_id[AG_CHAIN_REAL])
        s->others = AG_OTHER_SEGMENTS;
    else if (s->segment_len && s->others)
        s->others--;
    if (s->segment_len)
        ag_chain_learn(s, AG_CHAIN_REAL, main ? main : segment, id);
    ag_finder_sync_point(&s->finder);
    begin_segment(p, now);
}

uint32_t ag_end_segment(struct ag_policy *p, uint64_t now)
{
    struct ag_policy_state *s = p->state;
    if (p->idle && !(s->sequence && ag_position(p) != s->from)) {
        if (p->measured) /* what is followed next began before this was known */
            ag_policy_measured(p, p->measured, now);
        return 0;
    }
    struct ag_sequence *b = s->sequence;
    uint32_t deferred = ag_give_up(p), at = deferred ? ag_position(p) : 0;
    if (deferred && s->pure && ag_sequence_find(s, b->prefix[at], at))
        ag_cut_wanted(p, b, at); /* another sequence ends here */
    end_segment(p, now);
    ag_replan(p, now);
    return deferred;
}

uint32_t ag_policy_sync_point(struct ag_policy *p, uint64_t now)
{
    struct ag_policy_state *s = p->state;
    p->counts.sync_points++;
    if (s->retired.chunks)
        ag_plan_free(s, &s->retired);
    s->last_op = s->odds.last = 0; /* the program may wait here */
    if (p->dormant)
        return 0;
    if (s->was_dormant)
        ag_wake(p);
    ag_odds_end(p);
    return ag_end_segment(p, now);
}
