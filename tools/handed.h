/*
 * handed.h - the chunks and single launches of a dump that went through a ring (AUTOGRAPH_SUBMIT):
 * how long they waited there, and what the library's own thread, the submitter, launched of them.
 * The rest was taken back by a call that had to drain.
 */
#pragma once

#include "tools/dump.h"

struct handed {
    uint32_t *threads, num_threads;   /* submitters, one of each process at most; in order */
    uint64_t slots;                   /* chunks and single launches */
    uint64_t chunks, ops, taken_back; /* of chunks */
    uint64_t singles, own_singles;
    uint64_t median_ns, p99_ns, longest_ns; /* what they waited */
    uint64_t own_launches, own_ops, own_ns; /* graph launches by submitters; time in them */
    uint64_t submit_ns;                     /* processor time of the submitters */
    bool knows_submit_ns;                   /* the dump has it */
    uint64_t gained_ns; /* saved by what was handed over, as the summary has it; 0: not known, or
                           nothing */
    struct handed_chunk *taken; /* by thread: what it has yet to submit */
    uint64_t percent; /* speed with the submitter when last compared; 0: never, or of several */
};

/* False without memory. */
bool handed_find(struct handed *h, const struct dump *d);
void handed_free(struct handed *h);
/* Whether this thread is a submitter: its time is not the program's. */
bool handed_is_own(const struct handed *h, uint32_t thread);

/* To be asked for each event in turn: whether it submits, or fails to submit, what came from a
 * ring, and how long that had waited there. */
bool handed_follow(struct handed *h, const struct dump_event *event, uint64_t *ns);
