/*
 * observe.c - what happens while the policy follows no sequence: it finds the way back into the
 * sequence that the stream left, recognises any sequence by its last ops, estimates the host's
 * pace, and makes the stream dormant if nothing repeats.
 */
#include "policy/internal.h"
#include <string.h>

void ag_policy_rest(struct ag_policy *p, uint32_t ops)
{
    struct ag_policy_state *s = p->state;
    if (s->sequence && ag_position(p))
        ag_depart(p);
    else
        ag_follow_nothing(p);
    p->dormant = ops;
    p->counts.dormant += ops;
    s->was_dormant = true;
}

static void dormant(struct ag_policy *p)
{
    struct ag_policy_state *s = p->state;
    s->rest = s->rest ? s->rest * 2 : AG_FIRST_DORMANT;
    if (s->rest > AG_LONGEST_DORMANT)
        s->rest = AG_LONGEST_DORMANT;
    ag_policy_rest(p, s->rest);
    uint32_t awake = s->rest / AG_AWAKE_SHARE;
    s->unproductive = awake > AG_AWAKE_OPS ? 0 : AG_AWAKE_OPS - awake;
}

void ag_policy_refuse_rest(struct ag_policy *p)
{
    struct ag_policy_state *s = p->state;
    ag_policy_not_rested(p, ag_policy_take_rest(p));
    s->rest = s->rest > AG_FIRST_DORMANT ? s->rest / 2 : 0;
    s->unproductive = 0;
}

/* A new sequence was made of the latest ops. If too many were made since any of them
 * came again, the stream goes dormant. */
void ag_sequence_is_new(struct ag_policy_state *s)
{
    if (++s->barren <= AG_MOST_NEW)
        return;
    s->barren = 0;
    s->unproductive = AG_AWAKE_OPS;
}

void ag_wake(struct ag_policy *p)
{
    struct ag_policy_state *s = p->state;
    s->was_dormant = false;
    p->dormant = 0;
    ag_finder_sync_point(&s->finder);
    ag_keys_clear(&s->subsegment);
    s->subsegment.overflow = true; /* nobody knows what this segment held */
    s->segment_len = UINT32_MAX;
    s->pure = false;
    p->idle = false;
    s->departed.serial = 0;
    ag_follow_nothing(p);
}

__attribute__((hot)) void ag_learn_gap(struct ag_policy_state *s, uint64_t ns)
{
    /* A long gap lies between two steps, or in a pause. Several in a row are the pace of a slow
     * host. */
    s->long_gaps = ns > AG_PACE_LONG_NS ? s->long_gaps + 1 : 0;
    if (s->long_gaps && s->long_gaps < AG_PACE_LONG_GAPS)
        return;
    uint64_t most = !s->gap                           ? AG_PACE_LONG_NS
                    : s->gap < AG_PACE_OUTLIER_NS / 4 ? AG_PACE_OUTLIER_NS
                                                      : s->gap * 4ull;
    int64_t gap = (int64_t)(ns < most ? ns : most); /* one interrupt must not cut a sequence */
    s->gap = s->gap ? (uint32_t)(s->gap + (gap - s->gap) / 8) : (uint32_t)gap;
    if (s->gap > AG_PACE_MOST_NS)
        s->gap = AG_PACE_MOST_NS;
}

uint32_t ag_policy_gap(const struct ag_policy *p)
{
    return p->state->gap;
}

uint64_t ag_policy_began(const struct ag_policy *p)
{
    return p->state->run_began;
}

/* The stream, which left the sequence, goes on there behind index `at`. Before index `from` it came
 * back. */
static void rejoin(struct ag_policy *p, struct ag_sequence *b, uint32_t from, uint32_t at,
                   uint64_t now)
{
    struct ag_policy_state *s = p->state;
    s->departed.serial = 0;
    s->rejoined = true;
    p->counts.resyncs++;
    if (s->departed_new)
        ag_odds_were(p);
    ag_cut_wanted(p, b, s->departed_at);
    if (from != s->departed_at)
        ag_cut_wanted(p, b, from);
    ag_follow(p, b, at, now);
}

/* After a departure, looks for the same sequence a little further on. */
static bool realign(struct ag_policy *p, ag_key key, uint64_t now)
{
    struct ag_policy_state *s = p->state;
    struct ag_sequence *b = ag_sequence_get(s, s->departed);
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
    rejoin(p, b, s->realign - s->realign_run, s->realign, now);
    return true;
}

bool ag_rejoin_at_cut(struct ag_policy *p, ag_key key, uint64_t now)
{
    struct ag_policy_state *s = p->state;
    struct ag_sequence *b = ag_sequence_get(s, s->departed);
    uint32_t odd = AG_REALIGN_OPS - s->realign_left, at = s->departed_at + odd;
    if (!b || odd > AG_ODD_IN_A_ROW)
        return false;
    if (at >= b->len || b->keys[at] != key || !ag_is_cut(b, at))
        at = s->departed_at; /* the odd ops came in between */
    if (b->keys[at] != key || !ag_is_cut(b, at))
        return false;
    rejoin(p, b, at, at, now);
    return true;
}

/* Recognises any sequence by its last ops. */
static bool recognise(struct ag_policy *p, uint64_t now)
{
    struct ag_policy_state *s = p->state;
    uint32_t at;
    struct ag_ref ref = ag_finder_recognise(&s->finder, &at);
    struct ag_sequence *b = ag_sequence_get(s, ref);
    if (!b || at >= b->len || at < AG_GRAM)
        return false;
    if (s->subsegment.count < AG_GRAM && !s->subsegment.overflow)
        return false;
    if (!s->subsegment.overflow && memcmp(s->subsegment.data + s->subsegment.count - AG_GRAM,
                                          b->keys + at - AG_GRAM, AG_GRAM * sizeof(ag_key)))
        return false; /* the hashes are equal, but the ops differ */
    /* if the beginning of a periodic sequence lies within this subsegment, it ends what came
     * before */
    if (b->periodic && !s->subsegment.overflow && s->subsegment.count >= at &&
        !memcmp(s->subsegment.data + s->subsegment.count - at, b->keys, at * sizeof(ag_key))) {
        s->subsegment.count -= at;
        s->subsegment.hash = ag_hash_keys(s->subsegment.data, s->subsegment.count);
        s->keep = b;
        ag_end_subsegment(p, NULL, false);
        s->keep = NULL;
        s->splits++;
    }
    if (!b->periodic && !s->subsegment.overflow) {
        uint32_t i = at, came = s->subsegment.count;
        while (i && came && s->subsegment.data[came - 1] == b->keys[i - 1])
            i--, came--;
        ag_cut_wanted(p, b, i); /* nothing if all of it came */
    }
    p->counts.resyncs++;
    ag_follow(p, b, at, now);
    if (s->pure)
        s->from = 0;
    else
        s->rejoined = !b->periodic;
    return true;
}

void ag_passes_new(struct ag_policy *p)
{
    struct ag_policy_state *s = p->state;
    s->unproductive++;
    if (p->fresh != s->fresh) {
        s->fresh = p->fresh;
        if (s->fresh > AG_MOST_KINDS)
            s->unproductive += AG_FRESH_OPS - 1;
    }
}

void ag_observe(struct ag_policy *p, ag_key key, uint64_t now, struct ag_verdict *v)
{
    struct ag_policy_state *s = p->state;
    v->what = AG_DO_EAGER;
    s->pure = false;
    ag_passes_new(p);
    ag_keys_push(&s->subsegment, key);
    ag_finder_push(&s->finder, &key, 1);
    if (s->last_op && now > s->last_op) {
        uint64_t apart = now - s->last_op,
                 launch = p->launch_ns ? p->launch_ns : AG_CALL_ESTIMATE_NS;
        ag_learn_gap(s, apart > launch + AG_PACE_LEAST_NS ? apart - launch : AG_PACE_LEAST_NS);
    }
    s->last_op = now;
    /* each condition first checks what its function needs: most ops have none of it */
    if ((s->departed.serial && realign(p, key, now)) ||
        (s->finder.guessing && ag_adopt_period(p, now)) ||
        (s->finder.anchors_size && recognise(p, now)))
        return;
    if (s->unproductive > AG_AWAKE_OPS)
        dormant(p);
}
