/*
 * chain.c - predicts which sequence comes next: the one that came after the same two sequences,
 * unless only the one that came after the last of them is a habit (it came twice in a row).
 * Segments (between real sync points) and subsegments (between sync points of any kind) have chains
 * of their own.
 */
#include "policy/internal.h"
#include <stdlib.h>
#include <string.h>

enum {
    SMALLEST = 64,
    WAYS = 4,
    LINE = 64 /* bytes of a cache line of the processor; holds WAYS entries */
};
_Static_assert(WAYS * sizeof(struct ag_link) == LINE, "a lookup is one access to memory");

static uint32_t context_of(enum ag_chain_kind kind, uint64_t before, uint64_t last)
{
    return (uint32_t)ag_mix(before * AG_MULTIPLIER + last + (uint64_t)kind * 0x51ED2701ull) | 1;
}

/* Finds the entry of a context, in any of WAYS places. (With one place each, two contexts that
 * share it would keep replacing each other.) If there is none, returns the entry to replace (`add`)
 * or NULL. */
static struct ag_link *link_of(const struct ag_chain *chain, uint32_t context, bool add)
{
    if (!chain->size)
        return NULL;
    struct ag_link *set = &chain->entries[context & (chain->size - WAYS)];
    struct ag_link *victim = &set[context >> 30];
    for (int i = 0; i < WAYS; i++) {
        if (set[i].context == context)
            return &set[i];
        if (!set[i].context)
            victim = &set[i];
    }
    return add ? victim : NULL;
}

/* If there is no memory, the table stays as it is. */
static void grow(struct ag_chain *chain)
{
    struct ag_chain larger = {.size = chain->size ? chain->size * 2 : SMALLEST};
    if (chain->size == AG_CHAIN || chain->used * 4 < chain->size)
        return;
    size_t bytes = larger.size * sizeof(*larger.entries);
    larger.entries = aligned_alloc(LINE, bytes);
    if (!larger.entries)
        return;
    memset(larger.entries, 0, bytes);
    for (uint32_t i = 0; i < chain->size; i++)
        if (chain->entries[i].context) {
            struct ag_link *link = link_of(&larger, chain->entries[i].context, true);
            larger.used += !link->context;
            *link = chain->entries[i];
        }
    free(chain->entries);
    *chain = larger;
}

static void put(struct ag_policy_state *s, uint32_t context, struct ag_sequence *sequence)
{
    struct ag_ref ref = ag_sequence_ref(sequence);
    grow(&s->chain);
    struct ag_link *link = link_of(&s->chain, context, true);
    if (!link)
        return;
    s->chain.used += !link->context;
    if (link->context == context && ag_sequence_get(s, link->next) && link->next.slot != ref.slot) {
        if (link->sure) { /* one exception does not change a habit */
            link->sure = false;
            return;
        }
    } else {
        link->sure = link->context == context;
    }
    link->context = context;
    link->next = ref;
}

static const struct ag_link *get(struct ag_policy_state *s, uint32_t context)
{
    const struct ag_link *link = link_of(&s->chain, context, false);
    return link && ag_sequence_get(s, link->next) ? link : NULL;
}

/* The stream has just done `sequence` (NULL if it is too long or not kept), with content `id`,
 * after what the contexts hold. */
void ag_chain_learn(struct ag_policy_state *s, enum ag_chain_kind kind,
                    struct ag_sequence *sequence, uint64_t id)
{
    if (sequence) {
        put(s, context_of(kind, s->id_before[kind], s->last_id[kind]), sequence);
        put(s, context_of(kind, 0, s->last_id[kind]), sequence);
    }
    s->id_before[kind] = s->last_id[kind];
    s->last_id[kind] = id;
}

struct ag_sequence *ag_chain_predict(struct ag_policy_state *s, enum ag_chain_kind kind)
{
    const struct ag_link *two = get(s, context_of(kind, s->id_before[kind], s->last_id[kind]));
    const struct ag_link *one = get(s, context_of(kind, 0, s->last_id[kind]));
    const struct ag_link *best = two && (two->sure || !one || !one->sure) ? two : one;
    return best ? ag_sequence_get(s, best->next) : NULL;
}
