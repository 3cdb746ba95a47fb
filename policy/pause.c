/*
 * pause.c - places at which the program pauses without a call that the library could see. Most
 * often it polls memory that a kernel writes. Deferred ops would then wait for the watchdog.
 *
 * If ops had to be flushed at one place of a sequence several times, a few visits apart, the
 * sequence is cut there: a chunk ends at the place, and so is launched as soon as its last op has
 * come. Behind a cut the sequence is planned as behind a sync point, because the GPU may be idle.
 *
 * Whether the program still pauses there shows in the time until the next ops come. A cut goes when
 * it has seen no pause for a number of visits, four times as many if it is soon made again. A pause
 * that is shorter than the host's pace does not show. Then the program waits for the watchdog three
 * times more, ever more rarely.
 */
#include "policy/internal.h"
#include <stdlib.h>
#include <string.h>

enum {
    ENOUGH_PAUSES = 3, /* at one place ... */
    NEAR_VISITS = 16,  /* ... with at most this many visits of its sequence from one to the next */
    FIRST_CUT = 256,   /* visits without a pause until a cut goes; */
    GROWTH = 2,        /* if it is soon made again, as a power of two more */
    MOST_TIMES = 9,
    PAUSE_WORTH = 4, /* visits without a pause that one with a pause makes up for */
};

/* A place counts once for all turns of a loop. */
static uint32_t unit_of(const struct ag_sequence *b)
{
    return b->periodic && b->shortest_period ? b->shortest_period : b->len;
}

uint32_t ag_cut_behind(const struct ag_sequence *b, uint32_t at)
{
    uint32_t unit = unit_of(b), turn = at - at % unit, first = b->len;
    for (uint32_t i = 0; i < b->num_cuts; i++) {
        uint32_t place = turn + b->cuts[i].at + (turn + b->cuts[i].at > at ? 0 : unit);
        if (b->cuts[i].left && place < first)
            first = place;
    }
    return first;
}

/* The cut right before the op at this index, or NULL. */
static struct ag_cut *cut_before(const struct ag_sequence *b, uint32_t at)
{
    uint32_t unit = unit_of(b);
    if (!at && !b->periodic)
        return NULL;
    at = (at + unit - 1) % unit + 1;
    for (uint32_t i = 0; i < b->num_cuts; i++)
        if (b->cuts[i].at == at)
            return &b->cuts[i];
    return NULL;
}

bool ag_is_cut(const struct ag_sequence *b, uint32_t at)
{
    const struct ag_cut *cut = b->num_cuts ? cut_before(b, at) : NULL;
    return cut && cut->left;
}

/* Notes a pause at this place, and returns it. NULL without memory. */
static struct ag_pause_place *note(struct ag_policy_state *s, const struct ag_sequence *b,
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
    bool near = place->times && b->visits - place->visits <= NEAR_VISITS;
    place->times = near ? place->times + 1 : 1;
    place->visits = b->visits;
    return place;
}

/* Cuts the sequence behind this many ops of a turn. */
static void make_cut(struct ag_policy *p, struct ag_sequence *b, uint32_t at)
{
    struct ag_cut *cut = cut_before(b, at);
    if (!cut) {
        struct ag_cut *cuts = realloc(b->cuts, (b->num_cuts + 1) * sizeof(*cuts));
        if (!cuts)
            return;
        b->cuts = cuts;
        cut = &cuts[b->num_cuts++];
        *cut = (struct ag_cut){.at = at, .gone = b->visits - FIRST_CUT - 1};
    }
    bool soon = b->visits - cut->gone <= FIRST_CUT;
    cut->times = soon ? cut->times + (cut->times < MOST_TIMES) : 0;
    cut->left = cut->most = FIRST_CUT << (GROWTH * cut->times);
    b->tune.replan = true;
    p->counts.pauses++;
}

uint32_t ag_policy_pause(struct ag_policy *p, uint64_t now)
{
    struct ag_policy_state *s = p->state;
    struct ag_sequence *b = s->sequence;
    uint32_t deferred = ag_policy_deferred(p);
    if (!deferred)
        return 0;
    uint32_t at = (ag_position(p) - 1) % unit_of(b) + 1;
    struct ag_pause_place *place = note(s, b, at);
    if (place && place->times >= ENOUGH_PAUSES) {
        place->times = 0;
        make_cut(p, b, at);
    }
    ag_policy_break(p);
    ag_replan(p, now);
    return deferred;
}

void ag_cut_passed(struct ag_policy_state *s, struct ag_sequence *b, uint32_t at, uint64_t ns,
                   uint32_t ops)
{
    struct ag_cut *cut = cut_before(b, at);
    if (!cut || !cut->left)
        return;
    if (ns > 2ull * s->gap * ops)
        cut->left = cut->left + PAUSE_WORTH < cut->most ? cut->left + PAUSE_WORTH : cut->most;
    else if (--cut->left == 0) {
        cut->gone = b->visits;
        b->tune.replan = true;
    }
}
