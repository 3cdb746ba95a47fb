/*
 * finder.c - the history of ops, the period finder and the anchors.
 *
 * The finder guesses that the stream goes on as it did after the last occurrence of its last
 * AG_GRAM ops, and counts for how many ops the guess stays right. If it is right for a whole
 * period, the stream is in a loop. The finder makes a new guess only when the old one fails, so an
 * outer loop wins over the inner loops that it contains.
 */
#include "policy/internal.h"
#include <errno.h>
#include <stdlib.h>

enum { SMALLEST_RING = 128, SMALLEST_TABLE = 128 };

/* Modulo 2^64, which is fast: so few ops collide by chance alone. */
static uint64_t gram_add(uint64_t gram, ag_key key)
{
    return gram * AG_MULTIPLIER + ag_mix(key);
}

static uint64_t gram_power(void)
{
    uint64_t power = 1;
    for (int i = 0; i < AG_GRAM; i++)
        power *= AG_MULTIPLIER;
    return power;
}

/* The slot of a gram in a table, from its high bits. The low bits do not serve: if two keys
 * alternate, the grams A B A B A B and B A B A B A differ by a multiple of 4 * (A - B), so their
 * low bits are often equal. */
static uint32_t slot_of(uint64_t gram, uint32_t size)
{
    return (uint32_t)(gram * AG_MULTIPLIER >> 40) & (size - 1);
}

static bool held(const struct ag_finder *f, uint64_t position)
{
    return position >= f->floor && position < f->end && f->end - position <= f->ring_size;
}

int ag_finder_open(struct ag_finder *f)
{
    f->ring = calloc(SMALLEST_RING, sizeof(*f->ring));
    f->index = calloc(SMALLEST_TABLE, sizeof(*f->index));
    if (!f->ring || !f->index)
        return -ENOMEM;
    f->ring_size = SMALLEST_RING;
    f->index_size = SMALLEST_TABLE;
    return 0;
}

void ag_finder_close(struct ag_finder *f)
{
    free(f->ring);
    free(f->index);
    free(f->anchors);
}

/* The ring keeps all ops since the last sync point, up to AG_RING. If there is no memory, it keeps
 * fewer. */
static void grow_ring(struct ag_finder *f)
{
    uint32_t size = f->ring_size * 2;
    ag_key *ring = calloc(size, sizeof(*ring));
    if (!ring)
        return;
    for (uint64_t i = f->end - f->ring_size; i < f->end; i++)
        ring[i & (size - 1)] = ag_finder_at(f, i);
    free(f->ring);
    f->ring = ring;
    f->ring_size = size;
}

/* When half of the index is used, drops the grams of past segments and makes room for the rest. The
 * index also grows if grams keep replacing each other, because a short loop may have no others. */
static void grow_index(struct ag_finder *f, uint32_t least)
{
    uint32_t live = 0, size = least, used = 0;
    for (uint32_t i = 0; i < f->index_size; i++)
        live += f->index[i].gram && held(f, f->index[i].position - 1);
    while (size < AG_INDEX && size < live * 4)
        size *= 2;
    struct ag_place *index = calloc(size, sizeof(*index));
    if (!index)
        return;
    for (uint32_t i = 0; i < f->index_size; i++)
        if (f->index[i].gram && held(f, f->index[i].position - 1)) {
            struct ag_place *place = &index[slot_of(f->index[i].gram, size)];
            used += !place->gram;
            *place = f->index[i];
        }
    free(f->index);
    f->index = index;
    f->index_size = size;
    f->index_used = used;
    f->driven_out = 0;
}

static void grow_anchors(struct ag_finder *f, uint32_t more)
{
    uint32_t size = f->anchors_size ? f->anchors_size : SMALLEST_TABLE;
    while (size < AG_INDEX && size < (f->anchors_used + more) * 2)
        size *= 2;
    struct ag_anchor *anchors = size == f->anchors_size ? NULL : calloc(size, sizeof(*anchors));
    if (!anchors)
        return;
    f->anchors_used = 0;
    for (uint32_t i = 0; i < f->anchors_size; i++)
        if (f->anchors[i].gram) {
            struct ag_anchor *anchor = &anchors[slot_of(f->anchors[i].gram, size)];
            f->anchors_used += !anchor->gram;
            *anchor = f->anchors[i];
        }
    free(f->anchors);
    f->anchors = anchors;
    f->anchors_size = size;
}

static void guess_again(struct ag_finder *f)
{
    const struct ag_place *last = &f->index[slot_of(f->gram, f->index_size)];
    f->guessing = false;
    f->run = 0;
    if (f->end - f->floor < AG_GRAM)
        return;
    if (last->gram == f->gram && last->gram && held(f, last->position - 1) &&
        last->position < f->end) {
        f->guess = last->position;
        f->guessing = true;
        f->odd = f->odd_in_a_row = 0;
    }
}

/* Whether a wrong guess is tolerated: a long loop stays a loop even if one op differs in every
 * turn. */
static bool tolerated(const struct ag_finder *f)
{
    return held(f, f->guess) && f->odd_in_a_row < AG_ODD_IN_A_ROW &&
           f->run >= (uint64_t)(f->odd + 1) * AG_OPS_PER_ODD;
}

/* Adds one key, but not to the gram and the index. */
static void append(struct ag_finder *f, ag_key key)
{
    if (f->guessing) {
        if (held(f, f->guess) && ag_finder_at(f, f->guess) == key) {
            f->guess++;
            f->run++;
            f->odd_in_a_row = 0;
        } else if (tolerated(f)) {
            f->guess++;
            f->run++;
            f->odd++;
            f->odd_in_a_row++;
            f->odd_at = f->end;
        } else {
            f->guessing = false;
            f->run = 0;
        }
    }
    if (f->end - f->floor >= f->ring_size && f->ring_size < AG_RING)
        grow_ring(f);
    f->ring[f->end & (f->ring_size - 1)] = key;
    f->end++;
}

/* The last `n` ops enter the gram. Of many only the last ones are in it. */
static void add_to_gram(struct ag_finder *f, uint32_t n)
{
    bool all = n >= AG_GRAM;
    if (all)
        f->gram = 0;
    for (uint64_t i = f->end - (all ? AG_GRAM : n); i < f->end; i++) {
        f->gram = gram_add(f->gram, ag_finder_at(f, i));
        if (!all && i >= AG_GRAM)
            f->gram -= ag_mix(ag_finder_at(f, i - AG_GRAM)) * gram_power();
    }
}

static void note(struct ag_finder *f)
{
    if (!f->guessing)
        guess_again(f);
    if (f->index_size < AG_INDEX) {
        if (f->driven_out > SMALLEST_TABLE)
            grow_index(f, f->index_size * 2);
        else if (f->index_used * 2 >= f->index_size)
            grow_index(f, SMALLEST_TABLE);
    }
    struct ag_place *place = &f->index[slot_of(f->gram, f->index_size)];
    f->index_used += !place->gram;
    f->driven_out += place->gram != f->gram && place->gram && held(f, place->position - 1);
    *place = (struct ag_place){f->gram, f->end};
}

/* Adds ops: one, or those of a followed sequence at once. Only their end enters the index. That is
 * enough, because sequences end at the same places every time. */
void ag_finder_push(struct ag_finder *f, const ag_key *keys, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        append(f, keys[i]);
    add_to_gram(f, n);
    note(f);
}

void ag_finder_sync_point(struct ag_finder *f)
{
    f->floor = f->end;
    f->guessing = false;
    f->run = 0;
    f->driven_out = 0;
}

uint32_t ag_finder_period(const struct ag_finder *f)
{
    if (!f->guessing || f->odd_in_a_row)
        return 0;
    uint64_t period = f->end - f->guess;
    if (period == 0 || period > AG_MAX_SEQUENCE_OPS / 2 || f->run < period || f->run < 8)
        return 0;
    return (uint32_t)period;
}

uint64_t ag_finder_began(const struct ag_finder *f, uint32_t period)
{
    uint64_t most = f->ring_size - period, run = f->run < most ? f->run : most;
    uint64_t first = f->end - period - run;
    while (first > f->floor && held(f, first - 1) &&
           ag_finder_at(f, first - 1) == ag_finder_at(f, first - 1 + period))
        first--;
    return first;
}

void ag_finder_anchor(struct ag_finder *f, const struct ag_sequence *sequence)
{
    uint64_t power = gram_power(), gram = 0;
    grow_anchors(f, sequence->len);
    if (!f->anchors_size)
        return;
    for (uint32_t i = 0; i < sequence->len; i++) {
        gram = gram_add(gram, sequence->keys[i]);
        if (i >= AG_GRAM)
            gram -= ag_mix(sequence->keys[i - AG_GRAM]) * power;
        if (i + 1 < AG_GRAM || i + 1 == sequence->len)
            continue;
        struct ag_anchor *anchor = &f->anchors[slot_of(gram, f->anchors_size)];
        f->anchors_used += !anchor->gram;
        *anchor =
            (struct ag_anchor){gram, (uint16_t)(i + 1), (uint16_t)sequence->slot, sequence->serial};
    }
}

/* The sequence whose ops before `*position` are the last ops of the stream. */
struct ag_ref ag_finder_recognise(const struct ag_finder *f, uint32_t *position)
{
    if (f->end - f->floor < AG_GRAM || !f->anchors_size)
        return (struct ag_ref){0, 0};
    const struct ag_anchor *anchor = &f->anchors[slot_of(f->gram, f->anchors_size)];
    if (anchor->gram != f->gram)
        return (struct ag_ref){0, 0};
    *position = anchor->position;
    return (struct ag_ref){anchor->slot, anchor->serial};
}
