/*
 * submit.h - who makes a stream's launches: the program's thread, or the *submitter*, a thread that
 * takes chunks and single ops out of rings (ring.h); and when that looks, naps and sleeps.
 *
 * These are decisions alone. Whoever has the threads and the clock asks for them: the library
 * (capture/core/submitter.h), and a model of host and GPU in its own time
 * (tests/policy/model_cells.c).
 */
#pragma once

#include "policy/pairs.h"
#include "policy/policy.h"
#include "policy/ring.h"

enum ag_submitter_state {
    AG_SUBMITTER_ABSENT,
    AG_SUBMITTER_ASLEEP,
    AG_SUBMITTER_NAPS, /* a nap ends by itself */
    AG_SUBMITTER_AWAKE,
};

/* ---- whether it is wanted for a stream ---------------------------------------------------- */

/* Whether a stream may gain by it. `may_spin`: there is a processor for it. A comparison goes on to
 * its end, unless it loses the processor. */
static inline bool ag_submit_may_gain(struct ag_pairs *p, struct ag_policy *policy, bool may_spin)
{
    if (!may_spin)
        ag_pairs_abort(p);
    if (may_spin && (p->tries || ag_policy_gap(policy) >= AG_SLOW_HOST_NS))
        return true;
    ag_policy_launched_by(policy, p->last, false);
    return false;
}

/* Whether it is wanted now, by the pairs. `holds`: nothing may be compared now, because the program
 * measures or something else is compared. */
static inline bool ag_submit_is_wanted(struct ag_pairs *p, struct ag_policy *policy, bool holds,
                                       uint64_t now)
{
    bool wanted =
        holds ? p->second && !p->tries : ag_pairs_choose(p, now, ag_policy_counts(policy)->ops);
    ag_policy_launched_by(policy, p->last, p->tries && !holds);
    return wanted;
}

/* Whether single ops should go into the ring. Where the host takes longer than a nap between two
 * ops, an op would wait for the submitter, and the program would gain little. */
static inline bool ag_submit_gains_by_ops(uint32_t gap)
{
    return gap < AG_SUBMIT_SPIN_NS;
}

/* Whether a graph or single op has to wait for the GPU, and so does not go into the ring. `behind`:
 * ops that the GPU may not have done yet; `more`: its own, and those in front of it that have not
 * been launched. */
static inline bool ag_submit_is_far_ahead(uint32_t behind, uint32_t more)
{
    return __builtin_expect(behind + more >= AG_AHEAD_MOST, 0) && behind;
}

/* ---- what goes into a ring ---------------------------------------------------------------- */

/* What may go in. All false: a chunk in front of few others. */
struct ag_submit_offer {
    bool single;    /* it is a single op */
    bool by_itself; /* the program has waited before it, and may wait right behind it */
    bool wakes;     /* more comes before the program may wait, so waking the submitter pays */
};

/* `awaited`: an idle GPU may be waiting for the chunk; `behind`: chunks until the program may wait.
 * `compares`: the submitter is compared with the program's thread. If it slept then, both would be
 * the same. */
static inline struct ag_submit_offer ag_submit_chunk(bool awaited, uint32_t behind, bool compares)
{
    uint32_t least = compares ? 1 : AG_SUBMIT_WORTH_WAKING;
    return (struct ag_submit_offer){false, awaited && !behind, behind >= least};
}

/* Whether the program may wait behind the chunk that comes next. */
static inline bool ag_submit_last_comes(uint32_t behind)
{
    return behind == 1;
}

/* Whether the submitter will take what is put into the ring now, or soon. `chooses`: the program
 * makes those launches itself that would be faster so. To wake the submitter costs as much as a
 * launch. For a chunk that comes by itself the program would soon wait until the nap ends. */
static inline bool ag_submit_takes(struct ag_ring *r, struct ag_submit_offer o,
                                   enum ag_submitter_state now, bool chooses)
{
    uint32_t held = ag_ring_held(r);
    if (held && !ag_ring_is_busy(r)) { /* something waits, nobody is at it */
        bool many = held >= AG_SUBMIT_MOST_SINGLES || (!o.single && ag_ring_has_chunks(r));
        if (many && now != AG_SUBMITTER_NAPS)
            return false; /* it has other work, or no processor */
    }
    bool idle =
        (now == AG_SUBMITTER_NAPS && o.by_itself) || (now == AG_SUBMITTER_ASLEEP && !o.wakes);
    return !(idle && chooses);
}

/* Whether it has been at another stream for long: it may be waiting for room in that stream's
 * queue, and that stream for the very chunk that it would be given. */
static inline bool ag_submit_is_stuck(uint64_t since, uint64_t now)
{
    return now > since + AG_SUBMIT_LONG_NS;
}

/* Something has been put in: whether to wake the submitter. To do so before is too early: it might
 * sleep again until that is there. */
static inline bool ag_submit_must_wake(struct ag_ring *r, bool single, enum ag_submitter_state now)
{
    /* what may wait for the end of a nap */
    uint32_t most = single ? AG_SUBMIT_MOST_SINGLES : AG_SUBMIT_MOST_WAIT;
    return now == AG_SUBMITTER_ASLEEP || (now == AG_SUBMITTER_NAPS && ag_ring_held(r) > most);
}

/* ---- when it looks, naps and sleeps ------------------------------------------------------- */

/*
 * It takes what comes, until nothing has come for some time. To look all the time takes a
 * processor, and to wake it takes 2 to 7 us of the program's time (docs/results-log.md). So if
 * little comes, it looks now and then. Behind the last chunk of a sequence the program may wait,
 * and it would launch that chunk itself if the submitter napped. So that looks until the chunk has
 * come.
 *
 *     ag_submit_woken()     before anything else, and whenever somebody has woken it
 *     ag_submit_until()     until when it looks for work
 *     ag_submit_found()     it has found some
 *     ag_submit_sleeps()    it has found none: whether it sleeps now, or naps for `nap` ns
 *     ag_submit_napped()    it has napped, and nobody has woken it
 */
struct ag_submit_pace {
    uint32_t work;        /* there was in all, whoever did it. What the program took back while the
                             submitter napped counts: if it did not, it would nap because it had
                             napped */
    uint64_t last, woken; /* when some was last found, and it was last woken, ns */
    uint64_t apart; /* the usual time between two chunks, or from single launches to as many as
                       make up for a chunk, ns */
    uint64_t nap;   /* how long the next one is, ns */
};

void ag_submit_woken(struct ag_submit_pace *p, uint64_t now);
/* When something came last, or it was woken. */
static inline uint64_t ag_submit_since(const struct ag_submit_pace *p)
{
    return p->last > p->woken ? p->last : p->woken;
}
/* `last_comes`: behind the next chunk the program may wait. */
uint64_t ag_submit_until(const struct ag_submit_pace *p, bool last_comes);
/* `work`: more than there was. */
void ag_submit_found(struct ag_submit_pace *p, uint32_t work, uint64_t now);
static inline bool ag_submit_sleeps(const struct ag_submit_pace *p)
{
    return p->nap >= AG_SUBMIT_LONGEST_NAP_NS;
}
void ag_submit_napped(struct ag_submit_pace *p, uint64_t now);
