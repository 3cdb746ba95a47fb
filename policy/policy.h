/*
 * policy.h - what becomes a graph, and when. Plain C over opaque op keys; knows nothing of CUDA.
 *
 * One struct ag_policy watches one stream. It is told every op (by key: equal keys mean equal
 * signature, whatever the argument values) and every sync point, and answers what to do with each
 * op: submit it now, submit it now but remember its arguments (record), or defer it. When the last
 * op of a chunk has arrived the answer names the chunk, and the caller submits it as one graph (or
 * builds that graph).
 *
 * How repetition is found, in one paragraph: the ops between two sync points are a *segment*. Every
 * segment is remembered by its content as a *sequence*. When a segment begins, the two segments
 * before it tell which sequence comes next (most recent experience wins); the sequence is then
 * followed op by op. Where the stream departs from it, another sequence with the same beginning
 * takes over, without a flush while the deferred ops fit; failing that, deferred ops are flushed,
 * the stream is observed until it is recognised again (the same sequence a little further on, or
 * any sequence by its last ops), and what was really seen becomes a sequence of its own. Streams
 * without sync points get artificial ones: the *period finder* notices that the stream repeats what
 * it did d ops ago, and the period, aligned to where the loop began, becomes a sequence that
 * follows itself; and where the stream leaves known work with an op that has been the first of
 * other work before, a subsegment ends and the next begins.
 *
 * Ownership: the caller serialises all calls on one ag_policy (the stream's lock). ag_chunk.state
 * is the only thing that another thread (the builder) may write.
 */
#ifndef AG_POLICY_H
#define AG_POLICY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint64_t ag_key; /* 0 is never a key */

enum { AG_MAX_SEQUENCE_OPS = 16384 };

enum ag_chunk_state {
    AG_CHUNK_NEW,      /* no graph yet */
    AG_CHUNK_BUILDING, /* handed to the builder */
    AG_CHUNK_READY,    /* can be launched */
    AG_CHUNK_FAILED,   /* building failed; tried again after a back-off */
};

/* Consecutive ops of a sequence that one graph submits. */
struct ag_chunk {
    struct ag_sequence *sequence;
    uint32_t first; /* index of its first op in the sequence */
    uint32_t count; /* number of ops, at least 1 */
    _Atomic uint8_t state;
    uint8_t retries;   /* failed builds so far */
    uint32_t retry_at; /* visit count of the sequence at which a failed build is tried again; 0: the
                          failure was not noticed yet */
    uint32_t hits;     /* times launched ... */
    uint32_t fails;    /* ... and times flushed instead, since last judged */
    uint32_t cold_until;             /* no deferral before this many visits of the sequence */
    void *user;                      /* the caller's graphs; freed by ag_policy_hooks.drop */
    bool published;                  /* private: known to ag_policy_cover() */
    struct ag_chunk *next_same_head; /* ready chunks with the same first key */
};

/* Whether a sequence gains from its graphs; see profit.c. */
enum { AG_PROFIT_SAMPLES = 7, AG_TUNE_SAMPLES = 47 };
struct ag_profit_samples {
    uint32_t ns[AG_PROFIT_SAMPLES];
    uint32_t count; /* at most AG_PROFIT_SAMPLES of them are kept */
};
enum ag_profit_mode {
    AG_PROFIT_NEW, /* never replayed yet */
    AG_PROFIT_REPLAY,
    AG_PROFIT_EAGER,
    AG_PROFIT_TRIES_EAGER, /* replay is the mode */
    AG_PROFIT_TRIES_REPLAY,
};
/* How far the early look has come: eager submission is tried, and is far faster; replay is tried
 * once more, and still is slower; it is tried in ever shorter chunks. */
enum ag_profit_early { AG_EARLY_NONE, AG_EARLY_EAGER, AG_EARLY_REPLAY, AG_EARLY_SHORTER };
struct ag_profit {
    struct ag_profit_samples replay, eager;
    uint64_t first_ns;  /* the fastest visit before there were graphs; 0: not known */
    uint64_t best_ns;   /* of the cuts that lost to eager submission */
    uint32_t interval;  /* visits between trials; 0: none yet */
    uint32_t left;      /* visits until the trial, or of the trial */
    uint8_t mode;       /* enum ag_profit_mode */
    bool doubt;         /* replay has lost once */
    bool unsure;        /* replay has won once, after it had lost */
    bool hinted;        /* replay was compared with first_ns */
    bool looked;        /* the early look was taken, or was not worth it */
    uint8_t early;      /* enum ag_profit_early */
    bool replan;        /* to be cut anew */
    uint32_t most;      /* ops in a chunk, 0: as planned */
    uint32_t best_most; /* of best_ns */
};

/* Whether a sequence gains from longer chunks; see tune.c. */
enum ag_tune_mode { AG_TUNE_WAITS, AG_TUNE_TRIES, AG_TUNE_RESTS };
enum ag_tune_wish { AG_TUNE_NOTHING, AG_TUNE_NEW_PLAN, AG_TUNE_TURN, AG_TUNE_SETTLE };
struct ag_tune {
    uint32_t
        ratios[AG_TUNE_SAMPLES]; /* thousandths: a turn with the new cut over one with the old */
    uint32_t pairs;              /* of turns; at most AG_TUNE_SAMPLES of them are kept */
    uint64_t turn_ns, before_ns; /* of the visits counted in this turn, and in the one before */
    uint32_t counted;            /* visits in this turn */
    uint32_t visits, replayed, fails; /* in this mode; replayed: in a trial in this turn */
    uint32_t rest;                    /* visits until longer chunks are tried again */
    uint8_t mode;                     /* enum ag_tune_mode */
    uint8_t wants;                    /* enum ag_tune_wish: before the sequence begins again */
    int8_t up;                        /* how often the chunks were made longer; < 0: shorter */
    bool shorter;                     /* longer ones did not help: shorter ones are tried next */
    bool old_plan;                    /* of two, the one before the trial is in use */
    bool old_wins;
    bool replan; /* to be cut anew */
};

/* How a sequence is cut. */
struct ag_plan {
    struct ag_chunk *chunks;
    uint32_t num_chunks; /* 0: it is not */
    uint32_t longest;    /* ops in a chunk, as it was planned last */
    uint32_t limit;      /* most ops in a chunk at the pace it was planned for */
};

/* A known op sequence. Read-only for callers. */
struct ag_sequence {
    uint64_t id;     /* content hash */
    uint32_t serial; /* distinguishes successive users of one slot */
    uint32_t slot;
    uint32_t len;                 /* ops */
    uint32_t visits;              /* times seen from start to end */
    uint32_t streak;              /* times in a row, for periodic sequences */
    uint32_t tries;               /* times followed with deferral */
    uint32_t fails;               /* of these, ended by a flush of deferred ops */
    uint8_t kept, left;           /* of late: visits, and times left half way */
    uint64_t last_use;            /* policy clock */
    uint64_t seen_ns;             /* when it was seen last, 0: never */
    uint64_t first_seen_ns;       /* and the first time */
    bool periodic;                /* ends in an artificial sync point and is expected to repeat */
    bool loose;                   /* periodic, and often left for others that begin alike */
    struct ag_sequence *unrolled; /* several repetitions of this one merged, or NULL */
    ag_key *keys;
    uint64_t *prefix; /* prefix[i]: hash of keys[0..i), len + 1 entries */
    struct ag_chunk *chunks;
    uint32_t num_chunks;    /* 0 until planned */
    uint32_t longest;       /* ops in a chunk, as it was planned last */
    uint32_t planned_limit; /* most ops in a chunk at the pace it was planned for */
    uint32_t planned_at;    /* visits then */
    uint32_t dropped_at;    /* visits when its graphs were dropped last */
    uint32_t replans;
    struct ag_plan aside; /* the other one of two between which tune.c has not decided */
    struct ag_profit profit;
    struct ag_tune tune;
    uint32_t shortest_period;  /* of a merged sequence: its repeating unit, else 0 */
    uint32_t arguments_period; /* ops after which its arguments come again, where that is known */
};

enum ag_do {
    AG_DO_EAGER,  /* submit the op now */
    AG_DO_RECORD, /* submit it now and keep its arguments: its chunk is about to be built */
    AG_DO_DEFER,  /* keep it; nothing is submitted */
};

struct ag_verdict {
    uint32_t flush; /* deferred ops that must be submitted, in order, before this op; their
                       arguments stay recorded (the chunk may go on as one to build) */
    enum ag_do what;
    bool fresh;            /* the op is the first of a chunk: what was recorded before it is void */
    struct ag_chunk *done; /* chunk that this op completes: launch it (DEFER) or build it (STAGE) */
};

/* What the policy did, for reports and tests. Counted in ops unless said otherwise. */
struct ag_policy_counts {
    uint64_t ops;
    uint64_t sync_points; /* calls */
    uint64_t replayed;    /* deferred ops that a complete chunk submitted */
    uint64_t covered;     /* deferred ops of an incomplete chunk submitted by shorter graphs */
    uint64_t flushed;     /* deferred ops submitted eagerly */
    uint64_t mismatches;  /* departures from a followed sequence with ops deferred (events) */
    uint64_t switches;    /* sequence changes without a flush (events) */
    uint64_t resyncs;     /* times recognised again inside a sequence (events) */
    uint64_t periods;     /* periodic sequences made */
    uint64_t sequences;   /* sequences made */
    uint64_t evicted;     /* sequences dropped */
    uint64_t dormant;     /* ops that passed while the observer was off */
};

/* Tunables; ag_policy_defaults() gives the documented values. */
struct ag_policy_config {
    uint32_t min_repeats;   /* sightings of a sequence before its graphs are built (>= 2) */
    uint32_t min_ops;       /* shortest sequence that is graphed */
    uint32_t max_chunk;     /* most ops in a chunk */
    uint32_t fixed_chunk;   /* every chunk this long; 0: the policy chooses */
    bool profit;            /* compare replay with eager on the live program (profit.c) */
    uint32_t max_sequences; /* sequences remembered per stream, at most 8192 */
    uint32_t hold_most_ns;  /* host's time from first to last op, at most, of a planned chunk */
};
void ag_policy_defaults(struct ag_policy_config *config);

struct ag_policy_hooks {
    /* The chunk `to`, which has no graphs, may use those of `from`, which has the same ops at the
     * same place of a sequence that begins alike: to->user is to be set, and dropped like any
     * other. NULL or false: it gets graphs of its own. */
    bool (*share)(void *context, struct ag_chunk *from, struct ag_chunk *to);
    /* The chunk goes away: free chunk->user. Never called for a chunk that is being built. */
    void (*drop)(void *context, struct ag_chunk *chunk);
    void *context;
};

/* Private to policy/: callers use the functions below. The first four members are the hot path's.
 */
struct ag_policy {
    const ag_key *next; /* expected op, valid while next != stop */
    const ag_key *stop; /* end of the current run */
    enum ag_do doing;   /* what is done with the ops of this run */
    uint32_t dormant;   /* ops to pass unseen before looking again; 0: awake */
    uint32_t launch_ns; /* host time of an eager submission, set by the caller; 0: not known */
    uint32_t fresh;     /* keys that nobody had met before, counted by the caller; or left alone */
    uint32_t measured;  /* ops, from the last sync point on, that the program may be measuring */
    struct ag_policy_counts counts;
    struct ag_policy_state *state;
};

int ag_policy_open(struct ag_policy *p, const struct ag_policy_config *config,
                   const struct ag_policy_hooks *hooks); /* 0 or -ENOMEM */
void ag_policy_close(struct ag_policy *p);

/*
 * An op arrived. `now` is in nanoseconds of any monotonic clock.
 * The hot path is the caller's: where the op is ag_policy_expected(), the caller may call
 * ag_policy_step() and act on what that gives, provided that it calls ag_policy_run_end() where
 * the run has ended. ag_policy_op() does the same and handles everything else.
 */
void ag_policy_op(struct ag_policy *p, ag_key key, uint64_t now, struct ag_verdict *verdict);
void ag_policy_run_end(struct ag_policy *p, uint64_t now, struct ag_verdict *verdict);

/* The key of the expected op; 0: none is expected. */
static inline ag_key ag_policy_expected(const struct ag_policy *p)
{
    return p->next == p->stop ? 0 : *p->next;
}
/* Whether ops are followed or were lately. */
static inline bool ag_policy_follows(const struct ag_policy *p)
{
    return p->next != NULL;
}
/* The expected op has come. `*ends`: it was the last of its run. */
static inline enum ag_do ag_policy_step(struct ag_policy *p, bool *ends)
{
    enum ag_do doing = p->doing;
    p->counts.ops++;
    *ends = ++p->next == p->stop;
    return doing;
}
/* What is known before ag_policy_op(): the host's time of an eager submission, 0 where it is not;
 * and an op of a kind that nobody had met before. */
static inline void ag_policy_launch_takes(struct ag_policy *p, uint32_t ns)
{
    p->launch_ns = ns;
}
static inline void ag_policy_meets_new(struct ag_policy *p)
{
    p->fresh++;
}
/* The recorded ops of this chunk are lost: the rest of it goes eagerly, and is not taken for all.
 */
static inline void ag_policy_lost_stage(struct ag_policy *p)
{
    p->doing = AG_DO_EAGER;
}
/* Before ag_policy_sync point(): so many ops behind it the program may be measuring. */
static inline void ag_policy_may_measure(struct ag_policy *p, uint32_t ops)
{
    p->measured = ops;
}
/* Ops that the caller is to pass unseen from now on, and that it did not pass in the end. */
static inline bool ag_policy_wants_rest(const struct ag_policy *p)
{
    return __builtin_expect(p->dormant != 0, 0);
}
static inline uint32_t ag_policy_take_rest(struct ag_policy *p)
{
    uint32_t ops = p->dormant;
    p->dormant = 0;
    return ops;
}
static inline void ag_policy_not_rested(struct ag_policy *p, uint32_t ops)
{
    p->counts.dormant -= ops;
}

/* Why the op that came last was submitted eagerly, where it was. Read between calls, for reports.
 */
enum ag_why {
    AG_WHY_UNKNOWN,       /* nothing known is followed */
    AG_WHY_SELDOM,        /* seen too seldom to be built */
    AG_WHY_BUILDING,      /* its graph is being built */
    AG_WHY_BUILD_FAILED,  /* and will be tried again */
    AG_WHY_SLOWER,        /* the profitability check has seen that eager submission is faster */
    AG_WHY_TRIAL,         /* the profitability check compares */
    AG_WHY_RESTS,         /* it was held back in vain too often */
    AG_WHY_MEASURED,      /* the program measures how long it takes */
    AG_WHY_REST_OF_CHUNK, /* it was taken up again in the middle of a chunk, or flushed there */
    AG_NUM_WHYS
};
enum ag_why ag_policy_why_eager(const struct ag_policy *p);

/* The chunk that was handed out has been submitted: what it took is not the host's own time. */
void ag_policy_submitted(struct ag_policy *p, uint64_t now);

/* Looks away for so many ops, as it does where nothing repeats: p->dormant is to be passed unseen.
 * Nothing may be deferred. */
void ag_policy_rest(struct ag_policy *p, uint32_t ops);

/* A sync point: returns how many deferred ops must be submitted before it. */
uint32_t ag_policy_sync_point(struct ag_policy *p, uint64_t now);

/* The program measures how long the next ops take, until the next sync point or for `ops` of them:
 * sequences that are not old yet are left to be submitted eagerly there, so that what it chooses by
 * its measurements is what it would choose. Right behind a sync point, with nothing deferred. */
void ag_policy_measured(struct ag_policy *p, uint32_t ops, uint64_t now);

/* Deferred ops must go now although no sync point was met (watchdog, another stream's need): the
 * following goes on without deferral to the end of the chunk. Returns how many to submit. */
uint32_t ag_policy_break(struct ag_policy *p);

/* Ops deferred at present. */
uint32_t ag_policy_deferred(const struct ag_policy *p);

/* The arguments of a periodic sequence come again after `period` ops, the keys sooner: a sequence
 * of whole periods is followed in its place from now on, and cut in such. 0: nothing is known. Not
 * between a verdict and what is done about its chunk. */
void ag_policy_align(struct ag_policy *p, struct ag_sequence *sequence, uint32_t period);

/* Names a chunk for as long as it is there. */
struct ag_chunk_ref {
    uint32_t slot, serial, index; /* serial 0: none */
};
struct ag_chunk_ref ag_policy_chunk_ref(const struct ag_chunk *chunk);
/* NULL where its sequence is gone or has fewer chunks now; where it was cut anew, another chunk. */
struct ag_chunk *ag_policy_chunk_get(struct ag_policy *p, struct ag_chunk_ref ref);

/* The longest ready chunk equal to the first ops of `keys`, with at most n ops; NULL if none. Used
 * to flush by graph rather than op by op. */
struct ag_chunk *ag_policy_cover(struct ag_policy *p, const ag_key *keys, uint32_t n);

/* The builder's answer for a chunk that was handed out with AG_DO_RECORD. Any thread: only the
 * state is written, so chunk->user must hold the graphs before. `ok` false also for a ready chunk
 * whose graph could not be launched, by the stream's own thread, when it has freed chunk->user and
 * set it to NULL: the chunk is built again after a while. */
void ag_policy_built(struct ag_chunk *chunk, bool ok);
/* The caller declines to build now (budget, capture active): the chunk is recorded again later. */
void ag_policy_not_built(struct ag_chunk *chunk);
/* The same, and it is not recorded before so many more visits of its sequence. By the caller of the
 * policy only, who serialises all calls. */
void ag_policy_put_off(struct ag_chunk *chunk, uint32_t visits);

/* The least recently used sequence with graphs that may be dropped, and when it was used last. */
struct ag_sequence *ag_policy_victim(struct ag_policy *p, uint64_t *last_use);
/* Forgets a sequence's graphs (hooks.drop on each chunk); the sequence stays known. Fails (false)
 * while one is being built or the sequence is being followed; one that is only expected next is
 * not. */
bool ag_policy_drop_graphs(struct ag_policy *p, struct ag_sequence *sequence);
/* Bytes of host memory that the policy holds for this stream, graphs not counted. */
size_t ag_policy_memory(const struct ag_policy *p);

/* Forgets everything: keys have changed their meaning. Nothing may be deferred, and no chunk may
 * be with the builder (the same holds for ag_policy_close()). */
void ag_policy_invalidate(struct ag_policy *p);
/* Calls `visit` for every known sequence. */
void ag_policy_each(struct ag_policy *p, void (*visit)(void *context, struct ag_sequence *sequence),
                    void *context);

#endif
