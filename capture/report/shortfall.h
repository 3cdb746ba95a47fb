/*
 * shortfall.h - why not more was replayed, in words for whoever runs the program.
 *
 * Everything that keeps an op from being replayed is counted somewhere. count.def counts ops that
 * were submitted at once. Samples count the policy's reasons for eager ops. This file counts ops
 * since the library decided only to observe. The largest of these counts gives the reason that the
 * user sees: in the summary, the live page and the dump. If a program launches much and little of
 * it was replayed, the reason also goes to stderr by default, in one line.
 */
#pragma once

#include "capture/report/stats.h"

struct ag_shortfall {
    uint64_t launched; /* ops of the program, including those that the policy never saw */
    uint64_t replayed;
    uint64_t kept;      /* roughly how many ops the reason kept from being replayed */
    const char *why;    /* NULL: all is well, or there is too little to say */
    const char *advice; /* what to do about it */
    char text[160];     /* of `why`, if it is composed */
};

/* Returns the ops that were eager because their streams are compared, or faster so (weigh.h). */
uint64_t ag_shortfall_weighed(const struct ag_totals *t);
void ag_shortfall_find(const struct ag_totals *t, struct ag_shortfall *f);

/* Call it once, when the library, not the user, has decided to replay nothing from here on. */
void ag_shortfall_observes(const char *why);
/* Says the one line if it is due and was not said yet. The caller holds no stream's lock. */
void ag_shortfall_tell(void);

/* While the library observes by its own decision, every stream is dormant. Returns for how many ops
 * it stays so before it looks again: few until the line is said, then very many. */
uint32_t ag_shortfall_rest(void);

/* Counts an op of a kind that cannot be recorded. `why` is a constant string. */
void ag_shortfall_not_recordable(const char *why);
