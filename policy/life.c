/* life.c - opens, empties and closes a policy; takes the builder's answers; says what a sequence
 * is. */
#include "policy/internal.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

void ag_policy_defaults(struct ag_policy_config *config)
{
    *config = (struct ag_policy_config){.min_repeats = 2,
                                        .min_ops = 1,
                                        .max_chunk = 64,
                                        .fixed_chunk = 0,
                                        .profit = false,
                                        .max_sequences = 8192,
                                        .hold_most_ns = 500 * AG_PLAN_HELD_THOUSANDTHS};
}

int ag_policy_open(struct ag_policy *p, const struct ag_policy_config *config,
                   const struct ag_policy_hooks *hooks)
{
    struct ag_policy_state *s = ag_new(sizeof(*s));
    if (!s)
        return -ENOMEM;
    if (ag_finder_open(&s->finder)) {
        ag_finder_close(&s->finder);
        free(s);
        return -ENOMEM;
    }
    memset(p, 0, sizeof(*p));
    s->config = *config;
    if (s->config.max_sequences > AG_SLOTS)
        s->config.max_sequences = AG_SLOTS;
    if (s->config.max_sequences < 16)
        s->config.max_sequences = 16;
    if (hooks)
        s->hooks = *hooks;
    p->idle = true;
    s->pure = true;
    p->state = s;
    return 0;
}

void ag_policy_invalidate(struct ag_policy *p)
{
    struct ag_policy_state *s = p->state;
    ag_follow_nothing(p);
    ag_sequence_drop_all(s);
    ag_keys_clear(&s->subsegment);
    ag_finder_sync_point(&s->finder);
    s->segment_hash = s->segment_len = s->splits = 0;
    s->departed.serial = 0;
    s->pure = p->idle = true;
    s->rejoined = false;
    s->odds = (struct ag_odds){0}; /* all ops may be new behind this */
}

void ag_policy_close(struct ag_policy *p)
{
    if (!p->state)
        return;
    ag_policy_invalidate(p);
    free(p->state->subsegment.data);
    free(p->state->slots);
    free(p->state->pauses);
    ag_finder_close(&p->state->finder);
    free(p->state->chain.entries);
    free(p->state);
    p->state = NULL;
}

struct ag_sequence_facts ag_sequence_facts(const struct ag_sequence *sequence)
{
    return (struct ag_sequence_facts){.id = sequence->id,
                                      .keys = sequence->keys,
                                      .len = sequence->len,
                                      .num_chunks = sequence->plan.num_chunks,
                                      .visits = sequence->visits - sequence->dropped_at,
                                      .seen_ns = sequence->seen_ns,
                                      .periodic = sequence->periodic};
}

struct ag_chunk *ag_sequence_chunk(const struct ag_sequence *sequence, uint32_t index)
{
    return &sequence->plan.chunks[index];
}

void ag_policy_built(struct ag_chunk *chunk, bool ok)
{
    /* touch nothing else of the chunk: its stream may be following it at this moment */
    atomic_store_explicit(&chunk->state, ok ? AG_CHUNK_READY : AG_CHUNK_FAILED,
                          memory_order_release);
}

void ag_policy_not_built(struct ag_chunk *chunk)
{
    atomic_store_explicit(&chunk->state, AG_CHUNK_NEW, memory_order_release);
}

void ag_policy_put_off(struct ag_chunk *chunk, uint32_t visits)
{
    chunk->retry_at = chunk->sequence->visits + visits;
    atomic_store_explicit(&chunk->state, AG_CHUNK_FAILED, memory_order_release);
}
