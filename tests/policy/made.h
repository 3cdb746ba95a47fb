/* made.h - for tests of other rooms: what only policy/ can make or set. */
#pragma once

#include "policy/policy.h"

/* A chunk of one op, the op `first` of a sequence, with seven chunks behind it. free() it. */
struct ag_chunk *made_chunk(void *user, uint32_t first);
/* Now the sequence has so many chunks, this one and those behind it. */
void made_chunks(struct ag_chunk *chunk, uint32_t chunks);
/* The policy has seen an op, of which it learns nothing. */
void made_op(struct ag_policy *p);
/* What the policy takes for the host's time between two ops, ns. */
void made_gap(struct ag_policy *p, uint32_t ns);
