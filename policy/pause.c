/*
 * pause.c - places at which the program pauses without a call that the library could see. Most
 * often it polls memory that a kernel writes. Deferred ops would then wait for the watchdog.
 *
 * If ops had to be flushed at one place of a sequence several times, a few visits apart, the policy
 * takes that place for a sync point. What ended there becomes a sequence of its own; in a loop, the
 * turn that begins behind the place. From then on the end of that sequence is a sync point, so that
 * its last chunk is launched as soon as its last op has come. If the next ops mostly follow too
 * soon for the program to have seen anything, it does not pause there, and the mark goes.
 */
#include "policy/internal.h"
#include <stdlib.h>

enum {
    /* From the end of a launch it takes 3.2 us or more until a program sees what the kernel wrote
     * (H100). A pause shorter than this is none. */
    PAUSE_NS = 500,
    MOST_PACE_NS = 500, /* more, at most, for the host's usual time between the ops */
    ENOUGH_PAUSES = 3,  /* at one place ... */
    NEAR_VISITS = 16,   /* ... with at most so many visits of its sequence from one to the next */
    MOST_MISSED = 16,   /* pauses that did not come, until the mark goes; ... */
    AMENDS = 4,         /* ... each one that came makes up for this many */
};

static void unmark(struct ag_sequence *sequence)
{
    if (!sequence || !sequence->ends_in_pause)
        return;
    sequence->ends_in_pause = false;
    sequence->tune.replan |= sequence->periodic; /* it becomes a loop again */
}

static void mark(struct ag_policy_state *s, struct ag_sequence *sequence)
{
    struct ag_ref own = ag_sequence_ref(sequence), *place = NULL;
    if (sequence->ends_in_pause)
        return;
    for (uint32_t i = 0; i < AG_MARKED && !place; i++)
        if (s->marked[i].serial == own.serial && s->marked[i].slot == own.slot)
            place = &s->marked[i]; /* it was marked before */
    if (!place) {
        place = &s->marked[s->next_marked++ % AG_MARKED];
        unmark(ag_sequence_get(s, *place));
        *place = own;
    }
    sequence->ends_in_pause = true;
    sequence->missed_pauses = 0;
    sequence->tune.replan |= sequence->periodic; /* it was cut as a loop */
}

/* Notes a pause at this place. Whether there were enough of them of late. */
static bool pauses_often(struct ag_policy_state *s, const struct ag_sequence *b, uint32_t at)
{
    struct ag_ref sequence = ag_sequence_ref(b);
    struct ag_pause_place *place = NULL;
    for (uint32_t i = 0; i < AG_PAUSES && !place; i++)
        if (s->pauses[i].sequence.serial == sequence.serial &&
            s->pauses[i].sequence.slot == sequence.slot && s->pauses[i].at == at)
            place = &s->pauses[i];
    if (!place) {
        place = &s->pauses[s->next_pause++ % AG_PAUSES];
        *place = (struct ag_pause_place){sequence, at, 0, 0};
    }
    place->times = b->visits <= place->visits + NEAR_VISITS ? place->times + 1 : 1;
    place->visits = b->visits;
    return place->times >= ENOUGH_PAUSES;
}

/* The turn of the loop `b` that begins at `at`. NULL if there is none, if it is one op, if the loop
 * pauses elsewhere too, or if it turned out that the program does not pause in every turn. */
static struct ag_sequence *turn(struct ag_policy *p, const struct ag_sequence *b, uint32_t at)
{
    uint32_t len = b->shortest_period ? b->shortest_period : b->len;
    ag_key *keys = b->periodic && !b->ends_in_pause && len > 1 ? malloc(len * sizeof(*keys)) : NULL;
    if (!keys)
        return NULL;
    for (uint32_t i = 0; i < len; i++)
        keys[i] = b->keys[(at + i) % len];
    struct ag_sequence *sequence = ag_sequence_periodic(p, keys, len);
    free(keys);
    return sequence && sequence->missed_pauses < MOST_MISSED ? sequence : NULL;
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
    if (!pauses_often(s, b, at))
        return ag_policy_break(p);
    ag_chunk_failed(&b->chunks[s->chunk]); /* if nothing new can be marked, it rests */
    p->counts.pauses++;
    struct ag_sequence *next = turn(p, b, at);
    s->keep = next;
    struct ag_sequence *segment = ag_segment_ends(p, now, false);
    s->keep = NULL;
    if (next) {
        mark(s, next);
        ag_follow(p, next, 0, now);
    } else if (segment) {
        mark(s, segment);
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
    s->paused = ag_sequence_ref(s->sequence ? b : NULL);
    s->paused_at = now;
}

void ag_after_pause(struct ag_policy_state *s, uint32_t ops, uint64_t now)
{
    struct ag_sequence *b = ag_sequence_get(s, s->paused);
    uint64_t pace = (uint64_t)s->gap * ops;
    if (pace > MOST_PACE_NS)
        pace = MOST_PACE_NS;
    s->paused.serial = 0;
    if (!b || !b->ends_in_pause)
        return;
    if (now >= s->paused_at + PAUSE_NS + pace)
        b->missed_pauses -= b->missed_pauses < AMENDS ? b->missed_pauses : AMENDS;
    else if (++b->missed_pauses == MOST_MISSED)
        unmark(b);
}
