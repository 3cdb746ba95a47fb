/*
 * pause.c - places at which the program pauses without a call that the library could see. Most
 * often it polls memory that a kernel writes. Deferred ops would then wait for the watchdog.
 *
 * If ops had to be flushed at one place of a sequence several times, a few visits apart, the policy
 * takes that place for a sync point. What ended there becomes a sequence of its own; in a loop that
 * pauses in each turn, the turn that begins behind the place. From then on the end of that sequence
 * is a sync point, so that its last chunk is launched as soon as its last op has come.
 *
 * Nobody can see from outside whether the program still pauses there, so a mark goes after a number
 * of visits, four times as many as the mark before it had. If the program does pause there, it
 * waits for the watchdog three times more, ever more rarely.
 */
#include "policy/internal.h"
#include <stdlib.h>

enum {
    ENOUGH_PAUSES = 3, /* at one place ... */
    NEAR_VISITS = 16,  /* ... with at most this many visits of its sequence from one to the next */
    /* Visits for which the first mark stays. Three waits of 500 us take 2 % of the time of that
     * many steps of 20 us. A program that polls after each step rarely has shorter ones. */
    FIRST_MARK = 4096,
    GROWTH = 2, /* of the visits from mark to mark, as a power of two */
    MOST_MARKS = 9,
};

static void mark(struct ag_sequence *sequence)
{
    if (sequence->ends_in_pause)
        return;
    sequence->ends_in_pause = true;
    sequence->mark_left = FIRST_MARK << (GROWTH * sequence->marks);
    sequence->marks += sequence->marks < MOST_MARKS;
    sequence->tune.replan |= sequence->periodic; /* it was cut as a loop */
}

/* Notes a pause at this place, and returns it. NULL without memory. */
static const struct ag_pause_place *note(struct ag_policy_state *s, const struct ag_sequence *b,
                                         uint32_t at)
{
    struct ag_ref sequence = ag_sequence_ref(b);
    struct ag_pause_place *place = NULL;
    if (!s->pauses)
        s->pauses = calloc(AG_PAUSES, sizeof(*s->pauses));
    if (!s->pauses)
        return NULL;
    for (uint32_t i = 0; i < AG_PAUSES && !place; i++)
        if (s->pauses[i].sequence.serial == sequence.serial &&
            s->pauses[i].sequence.slot == sequence.slot && s->pauses[i].at == at)
            place = &s->pauses[i];
    if (!place) {
        place = &s->pauses[s->next_pause++ % AG_PAUSES];
        *place = (struct ag_pause_place){.sequence = sequence, .at = at};
    }
    uint64_t apart = b->visits - place->visits;
    bool near = place->times && apart <= NEAR_VISITS;
    place->in_each = near ? place->in_each && apart <= 1 : true;
    place->times = near ? place->times + 1 : 1;
    place->visits = b->visits;
    return place;
}

/* The turn of the loop `b` that begins at `at`. NULL if there is none, or if the loop pauses
 * elsewhere too. */
static struct ag_sequence *turn(struct ag_policy *p, const struct ag_sequence *b, uint32_t at)
{
    uint32_t len = b->shortest_period ? b->shortest_period : b->len;
    ag_key *keys = b->periodic && !b->ends_in_pause ? malloc(len * sizeof(*keys)) : NULL;
    if (!keys)
        return NULL;
    for (uint32_t i = 0; i < len; i++)
        keys[i] = b->keys[(at + i) % len];
    struct ag_sequence *sequence = ag_sequence_periodic(p, keys, len);
    free(keys);
    return sequence;
}

uint32_t ag_policy_pause(struct ag_policy *p, uint64_t now)
{
    struct ag_policy_state *s = p->state;
    struct ag_sequence *b = s->sequence;
    uint32_t deferred = ag_policy_deferred(p);
    if (!deferred)
        return 0;
    uint32_t at = ag_position(p);
    if (b->periodic)
        at %= b->shortest_period ? b->shortest_period : b->len;
    const struct ag_pause_place *place = note(s, b, at);
    if (!place || place->times < ENOUGH_PAUSES)
        return ag_policy_break(p);
    ag_chunk_failed(&b->chunks[s->chunk]); /* if nothing new can be marked, it rests */
    p->counts.pauses++;
    bool in_each = place->in_each;
    struct ag_sequence *next = turn(p, b, at);
    s->keep = next;
    struct ag_sequence *segment = ag_segment_ends(p, now, false);
    s->keep = NULL;
    if (next && (in_each || !segment || segment->ends_in_pause)) {
        mark(next);
        ag_follow(p, next, 0, now);
    } else if (segment) {
        mark(segment);
    }
    ag_replan(p, now);
    return deferred;
}

void ag_end_in_pause(struct ag_policy *p, uint64_t now)
{
    struct ag_policy_state *s = p->state;
    struct ag_sequence *b = s->sequence;
    s->keep = b; /* its chunk is in the verdict */
    p->counts.pauses++;
    ag_segment_ends(p, now, true);
    s->keep = NULL;
    if (--b->mark_left == 0) {
        b->ends_in_pause = false;
        b->tune.replan |= b->periodic; /* it becomes a loop again */
    }
}
