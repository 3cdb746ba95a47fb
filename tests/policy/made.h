/* made.h - for tests of other rooms: what only policy/ can make or set. */
#ifndef AG_TESTS_MADE_H
#define AG_TESTS_MADE_H

#include "policy/policy.h"

/* The only chunk of a sequence: one op. free() it. */
struct ag_chunk *made_chunk(void *user);
/* What the policy takes for the host's time between two ops, ns. */
void made_gap(struct ag_policy *p, uint32_t ns);

#endif
