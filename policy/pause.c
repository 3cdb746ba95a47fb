/*
 * pause.c - places at which the program pauses without a call that the library could see. Most
 * often it polls memory that a kernel writes. Deferred ops would then wait for the watchdog.
 *
 * If ops had to be flushed at one place of a sequence several times, a few visits apart, the
 * sequence is cut there: a chunk ends at the place, and so is launched as soon as its last op has
 * come. Behind a cut the sequence is planned as behind a sync point, because the GPU may be idle.
 *
 * The same cuts are made where the stream leaves a sequence, or joins one, several times before the
 * same op: at an op that differs in each step, behind it, and where another sequence ends that is
 * the beginning of this one. The ops in front and behind then go as graphs. A loop gets no such
 * cut: the place where it is left is no place of each of its turns.
 *
 * Nobody can see from outside whether the program still pauses there, though a pause may show in
 * the time until the next ops come. So a cut goes after a number of visits, and far sooner where it
 * sees no pause. If it is soon made again, it stays four times as long. A program that does pause
 * there waits for the watchdog three times more, ever more rarely.
 */
#include "policy/internal.h"
#include <stdlib.h>
#include <string.h>

/* The index of the first cut at this place of a turn, or behind it. */
static uint32_t first_from(const struct ag_sequence *b, uint32_t place)
{
    uint32_t low = 0, high = b->num_cuts;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (b->cuts[middle].at < place)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uint32_t ag_cut_behind(const struct ag_sequence *b, uint32_t at, uint32_t end)
{
    uint32_t unit = ag_unit(b), turn = at - at % unit;
    for (uint32_t i = first_from(b, at - turn + 1); turn < end; turn += unit, i = 0)
        for (; i < b->num_cuts && turn + b->cuts[i].at < end; i++)
            if (b->cuts[i].left)
                return turn + b->cuts[i].at;
    return end;
}

/* The cut right before the op at this index, or NULL. */
static struct ag_cut *cut_before(const struct ag_sequence *b, uint32_t at)
{
    uint32_t unit = ag_unit(b);
    if (!at && !b->periodic)
        return NULL;
    at = (at + unit - 1) % unit + 1;
    uint32_t i = first_from(b, at);
    return i < b->num_cuts && b->cuts[i].at == at ? &b->cuts[i] : NULL;
}

bool ag_is_cut(const struct ag_sequence *b, uint32_t at)
{
    const struct ag_cut *cut = b->num_cuts ? cut_before(b, at) : NULL;
    return cut && cut->left;
}

bool ag_has_cuts(const struct ag_sequence *b)
{
    for (uint32_t i = 0; i < b->num_cuts; i++)
        if (b->cuts[i].left)
            return true;
    return false;
}

__attribute__((hot)) bool ag_policy_awaited(const struct ag_policy *p, const struct ag_chunk *chunk)
{
    const struct ag_sequence *b = chunk->sequence;
    bool behind_odd = p->counts.ops - chunk->count == p->state->odds.last;
    return chunk->first || b->periodic ? ag_is_cut(b, chunk->first) : !behind_odd;
}

__attribute__((hot)) uint32_t ag_chunk_behind(const struct ag_chunk *chunk)
{
    const struct ag_sequence *b = chunk->sequence;
    return b->periodic ? UINT32_MAX : b->plan.num_chunks - 1 - (uint32_t)(chunk - b->plan.chunks);
}

/* There is room for it, and none at its place. */
static struct ag_cut *insert(struct ag_sequence *b, struct ag_cut cut)
{
    uint32_t i = first_from(b, cut.at);
    memmove(&b->cuts[i + 1], &b->cuts[i], (b->num_cuts++ - i) * sizeof(cut));
    b->cuts[i] = cut;
    return &b->cuts[i];
}

/* NULL without memory. */
static struct ag_cut *add_cut(struct ag_sequence *b, struct ag_cut cut)
{
    struct ag_cut *cuts = realloc(b->cuts, (b->num_cuts + 1) * sizeof(*cuts));
    if (!cuts)
        return NULL;
    b->cuts = cuts;
    cut.at = (cut.at - 1) % ag_unit(b) + 1;
    return insert(b, cut);
}

void ag_cuts_fold(struct ag_sequence *b)
{
    uint32_t unit = ag_unit(b), n = b->num_cuts;
    b->num_cuts = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct ag_cut cut = b->cuts[i], *known;
        cut.at = (cut.at - 1) % unit + 1;
        known = cut_before(b, cut.at);
        if (!known)
            insert(b, cut);
        else if (known->left < cut.left)
            *known = cut;
    }
}

void ag_cuts_copy(struct ag_sequence *b, const struct ag_sequence *model)
{
    for (uint32_t i = 0; i < model->num_cuts && !model->periodic; i++) {
        struct ag_cut cut = model->cuts[i];
        cut.gone = b->visits - AG_PAUSE_SOON - 1;
        if (cut.left && cut.at < b->len && b->prefix[cut.at] == model->prefix[cut.at] &&
            !cut_before(b, cut.at))
            add_cut(b, cut);
    }
}

/* Notes a pause at this place. Whether there have been enough of them; without memory there never
 * are. */
static bool note(struct ag_policy_state *s, const struct ag_sequence *b, uint32_t at)
{
    struct ag_ref sequence = ag_sequence_ref(b);
    struct ag_pause_place *place = NULL;
    if (!s->pauses)
        s->pauses = calloc(AG_PAUSES, sizeof(*s->pauses));
    if (!s->pauses)
        return false;
    for (uint32_t i = 0; i < AG_PAUSES && !place; i++)
        if (s->pauses[i].sequence.serial == sequence.serial &&
            s->pauses[i].sequence.slot == sequence.slot && s->pauses[i].at == at)
            place = &s->pauses[i];
    if (!place) {
        place = &s->pauses[s->next_pause++ % AG_PAUSES];
        *place = (struct ag_pause_place){.sequence = sequence, .at = at};
    }
    bool near = place->times && b->visits - place->visits <= AG_PAUSE_NEAR_VISITS;
    place->times = near ? place->times + 1 : 1;
    place->visits = b->visits;
    if (place->times < AG_PAUSE_ENOUGH)
        return false;
    place->times = 0;
    return true;
}

/* Cuts the sequence behind this many ops of a turn. */
static void make_cut(struct ag_policy *p, struct ag_sequence *b, uint32_t at)
{
    struct ag_cut *cut = cut_before(b, at);
    b->tune.replan = b->recut = true;
    if (!cut)
        cut = add_cut(b, (struct ag_cut){.at = at, .gone = b->visits - AG_PAUSE_SOON - 1});
    if (!cut || cut->left)
        return;
    bool soon = b->visits - cut->gone <= AG_PAUSE_SOON;
    cut->times = soon ? cut->times + (cut->times < AG_PAUSE_MOST_TIMES) : 0;
    cut->left = AG_PAUSE_FIRST_CUT << (AG_PAUSE_GROWTH * cut->times);
    p->counts.pauses++;
}

/* The stream left or joined the sequence before this op. Where it does so again and again, a chunk
 * ends there, so that the ops in front and behind go as graphs. */
void ag_cut_wanted(struct ag_policy *p, struct ag_sequence *b, uint32_t at)
{
    struct ag_policy_state *s = p->state;
    if (!at || at >= b->len || b->periodic || s->config.fixed_chunk)
        return;
    struct ag_cut *cut = cut_before(b, at);
    if (cut && cut->left) {
        if (cut->left < AG_PAUSE_FIRST_CUT)
            cut->left = AG_PAUSE_FIRST_CUT;
        return;
    }
    if (!note(s, b, at))
        return;
    make_cut(p, b, at);
    /* those that begin alike stay cut alike, or none could take over from another */
    struct ag_sequence *other = b->head->first;
    for (int i = 0; other && i < AG_CANDIDATES; other = other->next, i++)
        if (other != b && !other->periodic && at < other->len &&
            other->prefix[at] == b->prefix[at] && !ag_is_cut(other, at))
            make_cut(p, other, at);
}

uint32_t ag_policy_pause(struct ag_policy *p, uint64_t now)
{
    struct ag_policy_state *s = p->state;
    struct ag_sequence *b = s->sequence;
    uint32_t deferred = ag_policy_deferred(p);
    if (!deferred)
        return 0;
    uint32_t at = (ag_position(p) - 1) % ag_unit(b) + 1;
    if (note(s, b, at))
        make_cut(p, b, at);
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
    uint32_t counts = ns > 2ull * s->gap * ops ? 1 : AG_PAUSE_SILENT;
    cut->left -= counts < cut->left ? counts : cut->left;
    if (cut->left)
        return;
    cut->gone = b->visits;
    b->tune.replan = b->recut = true;
}
