/*
 * pairs.h - which of two ways of doing something makes a program faster, by the program's own
 * clock.
 *
 * Both ways take turns in short spans, in the order A B B A, so that what drifts meets both alike.
 * Each span of one way is compared with its neighbour of the other. The second way must win by the
 * median of nine such pairs and by 3 %; a tie goes to the first way. The answer holds for some
 * seconds, then the two are compared again; the same answer doubles that time. No answer is final.
 *
 * Until the first comparison, a quarter of a second from the start, the second way is taken: ask
 * only where it is likely to be the better one.
 */
#ifndef AG_PAIRS_H
#define AG_PAIRS_H

#include <stdbool.h>
#include <stdint.h>

enum { AG_PAIRS = 9 };

struct ag_pairs {
    /* all 0 at first */
    uint64_t began_ns, began_ops; /* of the span under way */
    uint64_t next_ns;             /* when the ways are compared next */
    uint64_t interval_ns;
    double rates[2]; /* ops per ns of the pair's spans */
    uint32_t ratios[AG_PAIRS], count;
    uint32_t spans;   /* of this comparison, that were counted */
    uint32_t trials;  /* comparisons that have ended */
    uint32_t wins;    /* of these, by the second way */
    uint32_t percent; /* median of the last: speed of the second way, of the first */
    bool tries, warms, second;
};

/* Call this often, with the time and the number of ops until now. Returns whether to do it the
 * second way. */
bool ag_pairs_choose(struct ag_pairs *p, uint64_t now_ns, uint64_t ops);

#endif
