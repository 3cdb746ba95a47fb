/*
 * pairs.h - which of two ways of doing something makes a program faster, by the program's own
 * clock.
 *
 * Both ways take turns in short spans, in the order A B B A, so that what drifts meets both alike.
 * Each span of one way is compared with its neighbour of the other. The second way must win by the
 * median of nine such pairs and by 3 %; a tie goes to the first way. A comparison ends as soon as
 * its answer is known, and after three pairs if the second way won none of them. The answer holds
 * for some seconds, then the two are compared again; the same answer doubles that time. No answer
 * is final. A comparison that comes to none within 64 spans, or whose first three spans, of both
 * ways, have too few ops, ends without one: the last one holds. If a way is so slow that the
 * program comes by less than once in each, a comparison with longer ones follows.
 *
 * The machine's clock says when spans and comparisons begin. Processes that wait for each other, as
 * the ranks of one program do, then go the same way at the same time. If they did not, each would
 * measure what the others do.
 *
 * Until the first comparison, half a second from the start at most, the first way is taken. One
 * that has had to wait for something else (ag_pairs_soon()) begins at the next chance.
 */
#pragma once

#include "policy/constants.h"
#include <stdbool.h>
#include <stdint.h>

struct ag_pairs {
    /* all 0 at first */
    bool tries, warms, second, last; /* the last: what the ways were last found to be */
    bool longer;                     /* of this comparison or the next: its spans are longer */
    uint64_t tries_since;            /* ns */
    uint64_t span;                /* the number of the one under way, from the clock's beginning */
    uint64_t counted;             /* of the last one that was counted */
    uint64_t began_ns, began_ops; /* of the part of the span that counts */
    uint64_t next_ns;             /* when the ways are compared next */
    uint64_t interval_ns;
    uint32_t looks[2];  /* in this comparison, by way */
    double rate;        /* ops per ns of the span that was counted last */
    uint64_t ops, most; /* of that span; of one in this comparison */
    uint32_t ratios[AG_PAIRS], count;
    uint32_t trials;  /* comparisons that have ended */
    uint32_t percent; /* median of the last: speed of the second way, of the first */
};

/* Whether the ways are compared now, or soon for the first time. If ag_pairs_choose() is not called
 * any more, no comparison comes. */
bool ag_pairs_are_awaited(const struct ag_pairs *p, uint64_t now_ns);
/* The program is not at its beginning: a comparison that nothing puts off may come at once. */
void ag_pairs_soon(struct ag_pairs *p);
/* A comparison that is under way ends without an answer; the next one comes as the first did. */
void ag_pairs_abort(struct ag_pairs *p);
/* Call this often, with the time of the machine's clock and the number of ops until now. Returns
 * whether to do it the second way. */
bool ag_pairs_choose(struct ag_pairs *p, uint64_t now_ns, uint64_t ops);
