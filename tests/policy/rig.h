/*
 * rig.h - the world of one engine (policy/engine.h), which checks the contract in every call.
 *
 * The arguments of each op are its number, so the rig sees which op it is whatever the engine's own
 * books say. What must hold, whatever the stream: ops are submitted in program order, each exactly
 * once, with their own arguments; what the policy counts as deferred is what is deferred, and it is
 * the beginning of the followed chunk; a chunk that is done holds exactly the last ops, those that
 * were deferred or recorded for it; a graph is launched only for the keys that it was built from;
 * graphs are dropped exactly once, and never while they are being built; the engine says that it
 * defers exactly while it does; the content of the running segment as the policy keeps it (hash and
 * length) is that of the ops it was given; after a pause, the chunks of every plan follow each
 * other, and none lies across a cut.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "policy/engine.h"
#include "policy/internal.h"

enum { RIG_BUILDS = 4096, RIG_KEYS = 1 << 20 };
/* Of the host, beside `gap`. RIG_WATCHDOG_NS: until the watchdog flushes. */
enum { RIG_LAUNCH_NS = 2500, RIG_SYNC_NS = 5000, RIG_WATCHDOG_NS = 300000 };

/* What a call submitted. */
struct rig_given {
    uint64_t ops, graphs;
};

struct rig {
    struct ag_engine engine;
    uint64_t now, gap;  /* ns; each op takes `gap` */
    uint64_t launch_ns; /* of the host, for a launch or a graph's; for a flushed op none */
    /* in place of that: makes the launch of the chunk's graph, or of a single op (NULL) */
    void (*launch)(struct rig *r, const struct ag_chunk *chunk);
    void *world; /* its own */

    /* what the builder does */
    uint32_t build_delay; /* ops until a build is answered; 0: at once */
    uint32_t fail_percent, decline_percent;
    uint32_t launch_fail_percent; /* of launches */

    ag_key keys[AG_MAX_SEQUENCE_OPS]; /* of the last ops, each at its number, modulo the size */
    bool deferring, flushing;         /* as the engine has told */
    enum ag_engine_why why;           /* it flushes, or flushed last */
    bool may_break;                   /* the test wants a mistake to be found ... */
    uint32_t mistakes;                /* ... and this many were */
    uint64_t flush_began, covered_before;
    struct {
        struct ag_chunk *chunk;
        uint64_t due;
    } builds[RIG_BUILDS];
    uint32_t num_builds;

    bool tells_new;       /* that a key comes for the first time */
    ag_key met[RIG_KEYS]; /* a table of the keys that came */
    uint32_t num_met;

    /* totals */
    uint64_t ops, submitted;   /* the ops between the two are deferred */
    uint64_t covered, flushed; /* deferred ops, by shorter graphs and one by one */
    uint64_t replayed;         /* ops that their own chunk submitted */
    uint64_t awaited;          /* whole chunks for which an idle GPU may have waited */
    uint64_t graphs_built, graphs_shared, graphs_live, graphs_peak, launches;
    uint64_t dormant;      /* ops that the policy did not look at */
    uint64_t first_replay; /* op number, 0: none yet */

    /* the true content since the last sync point */
    uint64_t segment_hash, segment_len;
    bool segment_known;

    /* the window since rig_mark() */
    uint64_t mark_ops, mark_good, mark_flushed, mark_built, mark_launches;
    uint64_t seed;
};

struct rig *rig_open(
    const struct ag_policy_config *config); /* NULL: the defaults, with the profitability check */
void rig_close(struct rig *r);
struct rig_given rig_op(struct rig *r, ag_key key);
struct rig_given rig_sync(struct rig *r);
void rig_break(struct rig *r);
void rig_pause(struct rig *r);
void rig_rest(struct rig *r, uint32_t ops); /* with nothing deferred */
void rig_invalidate(struct rig *r);
void rig_drain(struct rig *r); /* answers every build */
void rig_run(struct rig *r, const ag_key *keys, uint32_t n);

void rig_mark(struct rig *r);
double rig_replayed(const struct rig *r); /* of the window's ops, by graphs, in percent */
double rig_flushed(const struct rig *r);
uint64_t rig_built(const struct rig *r);
double rig_ops_per_launch(const struct rig *r);

uint64_t rig_random(uint64_t *seed);
ag_key rig_key(uint64_t seed, uint64_t n); /* the n-th key of a family */
void rig_keys(ag_key *keys, uint32_t n, uint64_t seed);

/* One-line assertions that say what was seen. */
#define rig_at_least(value, bound)                                                                 \
    do {                                                                                           \
        double rig_v = (value), rig_b = (bound);                                                   \
        if (rig_v < rig_b)                                                                         \
            fail_msg("%s is %.2f, must be at least %.2f", #value, rig_v, rig_b);                   \
    } while (0)
#define rig_at_most(value, bound)                                                                  \
    do {                                                                                           \
        double rig_v = (value), rig_b = (bound);                                                   \
        if (rig_v > rig_b)                                                                         \
            fail_msg("%s is %.2f, must be at most %.2f", #value, rig_v, rig_b);                    \
    } while (0)
