/*
 * debt.h - what graphs may cost. A stream owes ns of building that no gain has paid. Debts lapse
 * with the time that passes: a part of the program's time may always be spent on building. Else a
 * bad start would make graphs dear for as long as the process lives.
 */
#pragma once

#include "policy/constants.h"
#include <stdint.h>

/* Of a stream that lives. All 0 at first. */
struct ag_debt {
    int64_t lapsed;  /* ns */
    uint64_t looked; /* when that was last brought up to date, ns of the caller's clock */
};

/* What the stream owes now, where building has cost `spent` ns more than the share of the gain that
 * may be spent. */
static inline int64_t ag_debt_now(struct ag_debt *d, int64_t spent, uint64_t now)
{
    int64_t owed = spent - d->lapsed;
    int64_t lapses = d->looked ? (int64_t)((now - d->looked) / AG_DEBT_LAPSES_ONE_IN) : 0;
    d->looked = now;
    if (owed <= 0)
        return owed;
    lapses = lapses < owed ? lapses : owed;
    d->lapsed += lapses;
    return owed - lapses;
}

/* What streams that have ended owe is kept as the time at which nothing of it will be left:
 * `until`, in ns of the caller's clock. */
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

/* How often a sequence must have come before a graph of so many ops is built, where `owed` ns are
 * owed. A graph of few ops spares little, so less may be owed for such before. */
static inline uint32_t ag_debt_price(int64_t owed, uint32_t ops)
{
    int64_t share = ops < AG_BUILD_FEW_OPS ? ops : AG_BUILD_FEW_OPS;
    int64_t debt = owed - AG_BUILD_ALLOWANCE_NS * share / AG_BUILD_FEW_OPS;
    if (debt <= 0)
        return 0;
    int64_t price = AG_BUILD_FIRST_PRICE + debt / AG_BUILD_NS_A_VISIT;
    return price < AG_BUILD_HIGHEST_PRICE ? (uint32_t)price : AG_BUILD_HIGHEST_PRICE;
}
