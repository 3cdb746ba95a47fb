/* period.c - loops without sync points: a period becomes a sequence that follows itself. */
#include "policy/internal.h"
#include <stdlib.h>

/* Of the ops of a loop's turn: the same wherever the turn begins. */
static uint64_t turn_hash(const ag_key *keys, uint32_t len)
{
    uint64_t hash = len;
    for (uint32_t i = 0; i < len; i++)
        hash += ag_mix(ag_hash_add(ag_hash_of(keys[i]), keys[i + 1 < len ? i + 1 : 0]));
    return hash;
}

/* The sequence of these ops, marked as one that repeats itself. */
struct ag_sequence *ag_sequence_periodic(struct ag_policy *p, const ag_key *keys, uint32_t len)
{
    struct ag_policy_state *s = p->state;
    uint64_t made = p->counts.sequences;
    struct ag_sequence *sequence = ag_sequence_add(p, keys, len);
    if (!sequence)
        return NULL;
    if (p->counts.sequences != made)
        p->counts.periods++;
    sequence->periodic = true;
    sequence->turn = turn_hash(keys, len);
    ag_sequence_has_turn(s, sequence);
    if (sequence->visits < s->config.min_repeats - 1) {
        sequence->visits = s->config.min_repeats - 1;
        ag_finder_anchor(&s->finder, sequence);
    }
    return sequence;
}

/* The sequence repeats after `unit` ops. Its cuts count in each unit from now on. */
static void set_unit(struct ag_sequence *b, uint32_t unit)
{
    bool changes = b->num_cuts && b->shortest_period != unit;
    b->shortest_period = unit;
    if (!changes)
        return;
    b->tune.replan = b->recut = true;
    ag_cuts_fold(b);
}

/* After how many of the `period` ops that begin at position `began` of the history a turn of their
 * loop best begins. */
static uint32_t best_beginning(const struct ag_policy_state *s, uint64_t began, uint32_t period)
{
    uint32_t best = 0, ops = 2 * period;
    ag_key *keys = s->hooks.ends ? malloc(ops * (sizeof(*keys) + 1)) : NULL;
    if (!keys)
        return 0;
    uint8_t *ends = (uint8_t *)(keys + ops); /* of the second turn, which knows the first */
    for (uint32_t i = 0; i < ops; i++)
        keys[i] = ag_finder_at(&s->finder, began + i % period);
    bool any = s->hooks.ends(s->hooks.context, keys, ops, ends) != AG_ANY_ENDS;
    for (uint32_t i = 1; any && i <= period && !best; i++)
        if (ends[period + i - 1] == AG_BEST_END)
            best = i % period;
    free(keys);
    return best;
}

/* A sequence of `times` repetitions of the `period` ops that begin at position `began` of the
 * history; it begins with the op `first` of these. */
static struct ag_sequence *repeat(struct ag_policy *p, uint64_t began, uint32_t period,
                                  uint32_t times, uint32_t first)
{
    struct ag_policy_state *s = p->state;
    uint32_t len = period * times;
    ag_key *keys = malloc(len * sizeof(*keys));
    if (!keys)
        return NULL;
    for (uint32_t i = 0; i < len; i++)
        keys[i] = ag_finder_at(&s->finder, began + (first + i) % period);
    struct ag_sequence *sequence = ag_sequence_periodic(p, keys, len);
    free(keys);
    if (sequence && times > 1)
        set_unit(sequence, period);
    return sequence;
}

/* Whether the followed periodic sequence explains this period: its repeating unit divides `period`,
 * and its repetitions cover the last `period` ops. */
static bool inside_known_period(const struct ag_policy_state *s, uint32_t period)
{
    const struct ag_sequence *b = s->sequence;
    if (!b || !b->periodic)
        return false;
    uint32_t unit = ag_unit(b);
    return period % unit == 0 && (uint64_t)b->streak * b->len >= period;
}

/* Whether the stream left a loop of this period a few ops ago, and may go on with it. */
static bool finding_back(struct ag_policy_state *s, uint32_t period)
{
    struct ag_sequence *b = ag_sequence_get(s, s->departed);
    return b && b->periodic && period % ag_unit(b) == 0;
}

/* The known loop of which the `period` ops that begin at position `began` of the history are one
 * turn; *from is where in the loop they begin. NULL if there is none. A loop that is found again
 * after a variation mostly begins at another op, and would otherwise get all its graphs once more.
 */
static struct ag_sequence *known_loop(struct ag_policy_state *s, uint64_t began, uint32_t period,
                                      uint32_t *from)
{
    ag_key *keys = malloc(period * sizeof(*keys));
    if (!keys)
        return NULL;
    uint64_t hash = 0, power = 1;
    for (uint32_t i = 0; i < period; i++, power = ag_hash_product(power, AG_HASH_BASE)) {
        keys[i] = ag_finder_at(&s->finder, began + i);
        hash = ag_hash_add(hash, keys[i]);
    }
    struct ag_sequence *b = ag_sequence_of_turn(s, turn_hash(keys, period));
    free(keys);
    if (!b || b->len != period)
        return NULL;
    uint64_t turn = b->prefix[period];
    for (*from = 0; *from < period; ++*from) {
        if (turn == hash)
            return b;
        uint64_t leaves = ag_hash_product(ag_hash_of(b->keys[*from]), power);
        turn = ag_hash_sum(ag_hash_add(turn, b->keys[*from]), AG_HASH_PRIME - leaves);
    }
    *from = 0;
    return NULL;
}

/* Where to take the turn of a loop from that began there. If the loop that was entered last was
 * mostly left again, it has an op that does not come any more: then the latest whole turn, if all
 * have been the same for longer than an op stays odd. */
static uint64_t turn_from(struct ag_policy *p, uint64_t began, uint32_t period)
{
    struct ag_policy_state *s = p->state;
    const struct ag_finder *f = &s->finder;
    uint64_t latest = f->end - (f->end - began) % period - period;
    bool left = (p->counts.replayed - s->entered.replayed) * 2 < p->counts.ops - s->entered.ops;
    bool same = latest > f->odd_at + AG_ODD_TURNS * (uint64_t)period;
    s->entered.ops = p->counts.ops;
    s->entered.replayed = p->counts.replayed;
    return left && f->odd && same ? latest : began;
}

/* If the history has just repeated a whole period, enters the sequence of that period. All ops seen
 * so far must be in the history. */
bool ag_adopt_period(struct ag_policy *p, uint64_t now)
{
    struct ag_policy_state *s = p->state;
    struct ag_finder *f = &s->finder;
    uint32_t period = ag_finder_period(f);
    if (s->sequence && s->finder.run < 2 * (uint64_t)period)
        return false; /* the stream must not leave what it follows without better evidence */
    if (!period || inside_known_period(s, period) || finding_back(s, period))
        return false;
    uint64_t began = ag_finder_began(f, period), turn = turn_from(p, began, period);
    uint32_t times = (AG_MERGE_SHORT_PERIOD + period - 1) / period;
    uint32_t from;
    struct ag_sequence *sequence = known_loop(s, turn, period, &from);
    if (!sequence) {
        uint32_t first = best_beginning(s, turn, period);
        sequence = repeat(p, turn, period, times, first);
        from = first ? period - first : 0;
    }
    if (!sequence)
        return false;
    uint32_t at = (uint32_t)((from + f->end - began) % sequence->len);
    if (s->sequence) { /* it has just ended, and is already in the segment */
        s->sequence->streak = 0;
        ag_follow_nothing(p);
    }
    /* the ops before the loop are a subsegment of their own */
    if (!s->subsegment.overflow && s->subsegment.count) {
        uint64_t inside = f->end - began;
        if (inside < s->subsegment.count) {
            uint32_t before = s->subsegment.count - (uint32_t)inside;
            s->keep = sequence;
            struct ag_sequence *head = ag_sequence_add(p, s->subsegment.data, before);
            if (head) {
                ag_visited(p, head);
                ag_chain_learn(s, AG_CHAIN_SUBSEGMENT, head, head->id);
            }
            s->keep = NULL;
        }
    }
    /* the ops since the loop began belong to the segment, but are no subsegment */
    s->segment_hash = ag_hash_join(s->segment_hash, s->subsegment.hash, s->subsegment.count);
    s->segment_len += s->subsegment.overflow ? UINT32_MAX : s->subsegment.count;
    ag_keys_clear(&s->subsegment);
    s->splits++;
    s->pure = false;
    s->departed.serial = 0;
    ag_something_repeats(s);
    ag_follow(p, sequence, at, now);
    if (at == 0)
        s->pure = true;
    return true;
}

/* Several repetitions of the sequence as one, in whole periods of its arguments. */
static struct ag_sequence *unrolled(struct ag_policy_state *s, const struct ag_sequence *b)
{
    struct ag_sequence *merged = ag_sequence_get(s, b->unrolled);
    struct ag_sequence *aligned =
        merged && merged->arguments_period ? ag_sequence_get(s, merged->unrolled) : NULL;
    return aligned ? aligned : merged;
}

static void merge_repetitions(struct ag_policy *p, struct ag_sequence *b)
{
    struct ag_policy_state *s = p->state;
    uint32_t times = AG_MERGE_OPS / b->len;
    if (unrolled(s, b) || b->streak < AG_MERGE_STREAK || times < 2)
        return;
    uint32_t unit = ag_unit(b);
    struct ag_sequence *merged = repeat(p, s->finder.end - b->len, b->len, times, 0);
    if (merged) {
        set_unit(merged, unit);
        b->unrolled = ag_sequence_ref(merged);
    }
}

void ag_policy_align(struct ag_policy *p, struct ag_sequence *b, uint32_t period)
{
    struct ag_policy_state *s = p->state;
    uint32_t unit = ag_unit(b);
    if (!b->periodic || b->arguments_period || !period || period > AG_MERGE_OPS || period % unit)
        return;
    ag_key keys[AG_MERGE_OPS];
    uint32_t len = AG_MERGE_OPS / period * period;
    for (uint32_t i = 0; i < len; i++)
        keys[i] = b->keys[i % unit];
    s->keep = b;
    struct ag_sequence *aligned = ag_sequence_periodic(p, keys, len);
    s->keep = NULL;
    if (!aligned)
        return;
    aligned->arguments_period = b->arguments_period = period;
    if (aligned == b) {
        b->tune.replan = true;
        return;
    }
    set_unit(aligned, unit);
    b->unrolled = ag_sequence_ref(aligned);
}

/* Whether to take several of the next repetitions at once: after a few in a row; or, if loops
 * mostly ended in the middle of the merged sequence, after far more than that sequence holds. */
static bool takes_several(const struct ag_sequence *b, const struct ag_sequence *merged)
{
    if (!merged)
        return false;
    uint32_t enough = AG_MERGE_STREAK;
    if (merged->left > merged->kept)
        enough += AG_MERGE_LONG_RUN * (merged->len / b->len);
    return b->streak >= enough;
}

/* The stream has followed a periodic sequence to its end: this is an artificial sync point. */
void ag_end_period(struct ag_policy *p, uint64_t now)
{
    struct ag_policy_state *s = p->state;
    struct ag_sequence *b = s->sequence;
    ag_into_history(s, b->len);
    ag_measure(p, s->pure ? b : NULL, now);
    s->looped += b->len;
    if (s->pure) {
        ag_end_subsegment(p, b, false);
    } else {
        for (uint32_t i = s->from; i < b->len; i++)
            ag_keys_push(&s->subsegment, b->keys[i]);
        s->segment_hash = ag_hash_join(s->segment_hash, s->subsegment.hash, s->subsegment.count);
        s->segment_len += s->subsegment.overflow ? UINT32_MAX : s->subsegment.count;
        ag_keys_clear(&s->subsegment);
        ag_chain_learn(s, AG_CHAIN_SUBSEGMENT, NULL, b->id);
        s->pure = true;
        ag_visited(p, b);
    }
    b->streak++;
    s->splits++;
    s->rejoined = false;
    if (ag_adopt_period(p, now))
        return;
    merge_repetitions(p, b);
    struct ag_sequence *next = unrolled(s, b);
    if (!takes_several(b, next))
        next = ag_chain_predict(s, AG_CHAIN_SUBSEGMENT);
    ag_follow(p, next ? next : b, 0, now);
    if (s->sequence != b)
        b->streak = 0;
}
