/* made.c - see made.h. */
#include "tests/policy/made.h"
#include "policy/internal.h"

struct ag_chunk *made_chunk(void *user)
{
    static struct ag_sequence sequence;
    static struct ag_chunk chunk;
    sequence = (struct ag_sequence){0};
    chunk = (struct ag_chunk){.sequence = &sequence, .count = 1, .user = user};
    return &chunk;
}

void made_gap(struct ag_policy *p, uint32_t ns)
{
    p->state->gap = ns;
}
