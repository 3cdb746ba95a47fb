/*
 * debt.h - what graphs may cost. A stream owes ns of building that no gain has paid. Debts lapse
 * with the time that passes: a part of the program's time may always be spent on building. Else a
 * bad start would make graphs dear for as long as the process lives.
 */
#pragma once

#include "policy/constants.h"
#include <stdatomic.h>
#include <stdint.h>

/* What a stream owes that lives, where building has cost `spent` ns more than the share of the gain
 * that may be spent. `lapsed`: ns of it that need not be paid, 0 at first. All streams share the
 * time that passes: until `*last`, in ns of the caller's clock, it has been used up; 0 at first.
 * Not much is saved up while nobody is in debt. */
static inline int64_t ag_debt_now(int64_t *lapsed, int64_t spent, _Atomic uint64_t *last,
                                  uint64_t now)
{
    int64_t owed = spent - *lapsed;
    if (owed <= 0)
        return owed;
    uint64_t before = atomic_exchange(last, now);
    int64_t lapses = before && now > before ? (int64_t)((now - before) / AG_DEBT_LAPSES_ONE_IN) : 0;
    if (lapses > AG_BUILD_ALLOWANCE_NS)
        lapses = AG_BUILD_ALLOWANCE_NS;
    if (lapses > owed)
        lapses = owed;
    *lapsed += lapses;
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
