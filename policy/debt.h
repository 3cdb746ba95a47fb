/*
 * debt.h - what streams that have ended still owe for their graphs (ns of building that no gain has
 * paid). It lapses with the time that passes, or a bad start would make graphs dear for as long as
 * the process lives. So it is kept as the time at which nothing of it will be left: `until`, in ns
 * of the caller's clock.
 */
#pragma once

#include "policy/constants.h"
#include <stdint.h>

static inline int64_t ag_debt_at(uint64_t until, uint64_t now)
{
    return until > now ? (int64_t)((until - now) / AG_DEBT_LAPSES_ONE_IN) : 0;
}

/* The new `until`, once another stream has ended that owes `ns`, or had `-ns` to spare. No more
 * than `most` is owed. */
static inline uint64_t ag_debt_with(uint64_t until, uint64_t now, int64_t ns, int64_t most)
{
    int64_t owed = ag_debt_at(until, now) + ns;
    return now + (uint64_t)(owed < 0 ? 0 : owed > most ? most : owed) * AG_DEBT_LAPSES_ONE_IN;
}
