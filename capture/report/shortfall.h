/*
 * shortfall.h - why not more was replayed, in words for whoever runs the program.
 *
 * Everything that keeps an op from being replayed is counted somewhere: what was submitted at once
 * in count.def, what the policy did not want in samples of its reasons, and that the library only
 * observes here. The largest of these counts is the reason that is told: in the summary, the live
 * page and the dump, and by default in one line on stderr where a program that launches much had
 * little replayed.
 */
#ifndef AG_SHORTFALL_H
#define AG_SHORTFALL_H

#include "capture/report/stats.h"

struct ag_shortfall {
    uint64_t launched; /* ops of the program, those included that the policy never saw */
    uint64_t replayed;
    uint64_t kept;      /* ops that the reason kept from it, about */
    const char *why;    /* NULL: all is well, or there was too little to say */
    const char *advice; /* what to do about it */
    char text[160];     /* of `why`, where it is composed */
};

void ag_shortfall_find(const struct ag_totals *t, struct ag_shortfall *f);

/* The library has decided to replay nothing from here on, not the user. Once. */
void ag_shortfall_observes(const char *why);
/* Says the one line if it is due, and was not said. Without any stream's lock. */
void ag_shortfall_tell(void);

/* While it observes by its own decision, every stream sleeps: for so many ops in turn until the
 * line is said, and then for good. */
uint32_t ag_shortfall_rest(void);

/* An op of a kind that cannot be recorded. `why` is a constant. */
void ag_shortfall_not_recordable(const char *why);

#endif
