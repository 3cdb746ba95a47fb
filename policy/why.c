/* why.c - why an op was not held back; for reports, so not on the hot path. */
#include "policy/internal.h"

static enum ag_why of_chunk(const struct ag_policy_state *s, struct ag_chunk *chunk, bool measured)
{
    const struct ag_sequence *b = chunk->sequence;
    if (measured)
        return AG_WHY_MEASURED;
    if (s->config.profit && b->profit.mode == AG_PROFIT_TRIES_EAGER)
        return AG_WHY_TRIAL;
    if (s->config.profit && !ag_profit_defers(&b->profit))
        return AG_WHY_SLOWER;
    switch (ag_chunk_state(chunk)) {
    case AG_CHUNK_READY:
        return b->visits < chunk->cold_until ? AG_WHY_RESTS : AG_WHY_REST_OF_CHUNK;
    case AG_CHUNK_BUILDING:
        return AG_WHY_BUILDING;
    case AG_CHUNK_FAILED:
        return chunk->retries ? AG_WHY_BUILD_FAILED : AG_WHY_SELDOM; /* the caller put it off */
    default:
        return AG_WHY_SELDOM;
    }
}

enum ag_why ag_policy_why_eager(const struct ag_policy *p)
{
    const struct ag_policy_state *s = p->state;
    struct ag_sequence *b = s->sequence;
    if (s->odds.last == p->counts.ops)
        return AG_WHY_ODD;
    if (!b)
        return AG_WHY_UNKNOWN;
    if (!b->plan.num_chunks)
        return AG_WHY_SELDOM;
    uint32_t at = ag_position(p); /* the next op; a period that has ended begins again */
    return of_chunk(s, &b->plan.chunks[ag_plan_chunk_at(b, at ? at - 1 : b->len - 1)],
                    ag_is_measured(p, b, s->run_began));
}
