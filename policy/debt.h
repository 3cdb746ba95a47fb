/*
 * debt.h - what graphs may cost. What streams that have ended still owe for theirs (ns of building
 * that no gain has paid) lapses with the time that passes, or a bad start would make graphs dear
 * for as long as the process lives. So it is kept as the time at which nothing of it will be left:
 * `until`, in ns of the caller's clock.
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

/* How often a sequence must have come before a graph of so many ops is built, where building has
 * cost `spent` ns more than the share of the gain that may be spent. A graph of few ops spares
 * little, so less may be spent on such before. */
static inline uint32_t ag_debt_price(int64_t spent, uint32_t ops)
{
    int64_t share = ops < AG_BUILD_FEW_OPS ? ops : AG_BUILD_FEW_OPS;
    int64_t debt = spent - AG_BUILD_ALLOWANCE_NS * share / AG_BUILD_FEW_OPS;
    if (debt <= 0)
        return 0;
    int64_t price = AG_BUILD_FIRST_PRICE + debt / AG_BUILD_NS_A_VISIT;
    return price < AG_BUILD_HIGHEST_PRICE ? (uint32_t)price : AG_BUILD_HIGHEST_PRICE;
}
