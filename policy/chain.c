/*
 * chain.c - which block comes next: the most recent experience after the same two blocks, else
 * after the same one. Segments (between real boundaries) and parts (between any) have chains of
 * their own.
 */
#include "policy/internal.h"

static uint64_t context_of(enum ag_chain_kind kind, uint64_t before, uint64_t last)
{
    return ag_mix(before * AG_MULTIPLIER + last + (uint64_t)kind * 0x51ED2701ull) | 1;
}

static void put(struct ag_policy_state *s, uint64_t context, struct ag_block *block)
{
    unsigned int i = context & (AG_CHAIN - 1);
    struct ag_ref ref = ag_block_ref(block);
    struct ag_link *link = &s->chain.entries[i];
    if (link->context == context && ag_block_get(s, link->next) && link->next.slot != ref.slot) {
        if (link->sure) { /* once is not enough to change a habit */
            link->sure = false;
            return;
        }
    } else {
        link->sure = link->context == context;
    }
    link->context = context;
    link->next = ref;
}

static struct ag_block *get(struct ag_policy_state *s, uint64_t context)
{
    unsigned int i = context & (AG_CHAIN - 1);
    if (s->chain.entries[i].context != context)
        return NULL;
    return ag_block_get(s, s->chain.entries[i].next);
}

/* `block` (NULL if too long or not kept) with content `id` has come after what the contexts hold.
 */
void ag_chain_learn(struct ag_policy_state *s, enum ag_chain_kind kind, struct ag_block *block,
                    uint64_t id)
{
    uint64_t *last = kind == AG_CHAIN_REAL ? &s->real1 : &s->part1;
    uint64_t *before = kind == AG_CHAIN_REAL ? &s->real2 : &s->part2;
    if (block) {
        put(s, context_of(kind, *before, *last), block);
        put(s, context_of(kind, 0, *last), block);
    }
    *before = *last;
    *last = id;
}

struct ag_block *ag_chain_predict(struct ag_policy_state *s, enum ag_chain_kind kind)
{
    uint64_t last = kind == AG_CHAIN_REAL ? s->real1 : s->part1;
    uint64_t before = kind == AG_CHAIN_REAL ? s->real2 : s->part2;
    struct ag_block *block = get(s, context_of(kind, before, last));
    return block ? block : get(s, context_of(kind, 0, last));
}
