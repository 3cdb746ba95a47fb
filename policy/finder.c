/*
 * finder.c - the history of ops, the period finder and the anchors.
 *
 * The finder guesses that the stream goes on as it did after the last occurrence of its last
 * AG_GRAM ops, and counts for how long that stays right. Right for a whole period means a loop.
 * Guesses are only re-made when they fail, so an outer loop wins over the inner ones that it holds.
 */
#include "policy/internal.h"
#include <string.h>

enum { ODD_IN_A_ROW = 16, OPS_PER_ODD = 64 };

static uint64_t gram_power(void)
{
    uint64_t power = 1;
    for (int i = 0; i < AG_GRAM; i++)
        power *= AG_MULTIPLIER;
    return power;
}

static ag_key at(const struct ag_finder *f, uint64_t position)
{
    return f->ring[position & (AG_RING - 1)];
}

static bool held(const struct ag_finder *f, uint64_t position)
{
    return position >= f->floor && position < f->end && f->end - position <= AG_RING;
}

static void guess_again(struct ag_finder *f)
{
    unsigned int i = f->gram & (AG_INDEX - 1);
    f->guessing = false;
    f->run = 0;
    if (f->end - f->floor < AG_GRAM)
        return;
    if (f->index[i].tag == (uint32_t)(f->gram >> 32) && f->index[i].position &&
        held(f, f->index[i].position - 1) && f->index[i].position < f->end) {
        f->guess = f->index[i].position;
        f->guessing = true;
        f->odd = f->odd_in_a_row = 0;
    }
}

/* An op that differs in every turn of a long loop is no reason to lose the loop. */
static bool tolerated(const struct ag_finder *f)
{
    return held(f, f->guess) && f->odd_in_a_row < ODD_IN_A_ROW &&
           f->run >= (uint64_t)(f->odd + 1) * OPS_PER_ODD;
}

/* One key, without touching the index. */
static void append(struct ag_finder *f, ag_key key, uint64_t power)
{
    if (f->guessing) {
        if (held(f, f->guess) && at(f, f->guess) == key) {
            f->guess++;
            f->run++;
            f->odd_in_a_row = 0;
        } else if (tolerated(f)) {
            f->guess++;
            f->run++;
            f->odd++;
            f->odd_in_a_row++;
        } else {
            f->guessing = false;
            f->run = 0;
        }
    }
    ag_key leaving = f->end >= AG_GRAM ? at(f, f->end - AG_GRAM) : 0;
    f->gram = ag_hash_add(f->gram, key);
    if (leaving)
        f->gram -= ag_mix(leaving) * power;
    f->ring[f->end & (AG_RING - 1)] = key;
    f->end++;
}

static void note(struct ag_finder *f)
{
    unsigned int i = f->gram & (AG_INDEX - 1);
    if (!f->guessing)
        guess_again(f);
    f->index[i].tag = (uint32_t)(f->gram >> 32);
    f->index[i].position = f->end;
}

void ag_finder_push(struct ag_finder *f, ag_key key)
{
    append(f, key, gram_power());
    note(f);
}

/* Ops of a followed block, in bulk: only the end enters the index, which is enough because blocks
 * end at the same places every time. */
void ag_finder_push_run(struct ag_finder *f, const ag_key *keys, uint32_t n)
{
    uint64_t power = gram_power();
    for (uint32_t i = 0; i < n; i++)
        append(f, keys[i], power);
    if (n)
        note(f);
}

void ag_finder_boundary(struct ag_finder *f)
{
    f->floor = f->end;
    f->guessing = false;
    f->run = 0;
}

uint32_t ag_finder_period(const struct ag_finder *f)
{
    if (!f->guessing || f->odd_in_a_row)
        return 0;
    uint64_t period = f->end - f->guess;
    if (period == 0 || period > AG_MAX_BLOCK_OPS / 2 || f->run < period || f->run < 8)
        return 0;
    return (uint32_t)period;
}

uint64_t ag_finder_began(const struct ag_finder *f, uint32_t period)
{
    uint64_t run = f->run < AG_RING - period ? f->run : AG_RING - period;
    uint64_t first = f->end - period - run;
    while (first > f->floor && held(f, first - 1) && at(f, first - 1) == at(f, first - 1 + period))
        first--;
    return first;
}

void ag_finder_anchor(struct ag_finder *f, const struct ag_block *block)
{
    uint64_t power = gram_power(), gram = 0;
    for (uint32_t i = 0; i < block->len; i++) {
        gram = ag_hash_add(gram, block->keys[i]);
        if (i >= AG_GRAM)
            gram -= ag_mix(block->keys[i - AG_GRAM]) * power;
        if (i + 1 < AG_GRAM || i + 1 == block->len)
            continue;
        unsigned int slot = gram & (AG_INDEX - 1);
        f->anchors[slot].tag = (uint32_t)(gram >> 32);
        f->anchors[slot].position = i + 1;
        f->anchors[slot].block = ag_block_ref(block);
    }
}

/* The block, and the place in it, whose ops before that place are the last ones of the stream. */
struct ag_ref ag_finder_recognise(const struct ag_finder *f, uint32_t *position)
{
    unsigned int i = f->gram & (AG_INDEX - 1);
    if (f->end - f->floor < AG_GRAM || f->anchors[i].tag != (uint32_t)(f->gram >> 32))
        return (struct ag_ref){0, 0};
    *position = f->anchors[i].position;
    return f->anchors[i].block;
}
