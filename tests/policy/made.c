/* made.c - see made.h. */
#include "tests/policy/made.h"
#include "policy/internal.h"
#include <stdlib.h>

struct ag_chunk *made_chunk(void *user, uint32_t first)
{
    struct made {
        struct ag_chunk chunk; /* first: whoever frees it frees both */
        struct ag_sequence sequence;
    } *made = ag_new(sizeof(*made));
    if (!made)
        abort();
    made->sequence = (struct ag_sequence){.plan = {.chunks = &made->chunk, .num_chunks = 8}};
    made->chunk =
        (struct ag_chunk){.sequence = &made->sequence, .first = first, .count = 1, .user = user};
    return &made->chunk;
}

void made_chunks(struct ag_chunk *chunk, uint32_t chunks)
{
    chunk->sequence->plan.num_chunks = chunks;
}

void made_op(struct ag_policy *p)
{
    p->counts.ops++;
}

void made_gap(struct ag_policy *p, uint32_t ns)
{
    p->state->gap = ns;
}
