/*
 * policy.h - decides which ops become graphs, and when. Plain C over opaque op keys; it knows
 * nothing of CUDA. Only policy/ and its tests use the members of a chunk and of a policy; the
 * compiler must see them because others embed them and the hot path is inline.
 *
 * One struct ag_policy watches one stream. The caller reports every op by its key (equal keys mean
 * equal signatures, whatever the argument values) and every sync point. For each op the policy
 * answers what to do: submit it now, submit it now and remember its arguments (record), or defer
 * it. When the last op of a chunk has arrived, the answer names the chunk. The caller then submits
 * the chunk as one graph, or builds that graph.
 *
 * How the policy finds repetition: the ops between two sync points are a *segment*. The policy
 * remembers the content of every segment as a *sequence*. When a segment begins, the two segments
 * before it predict which sequence comes next (the most recent experience wins). The policy then
 * follows that sequence op by op. If the stream departs from it, another sequence with the same
 * beginning takes over, without a flush while the deferred ops fit. If there is none, the caller
 * flushes the deferred ops, and the policy observes the stream until it recognises it again: the
 * same sequence a little further on, or any sequence by its last ops. What the stream really did
 * becomes a sequence of its own.
 *
 * Streams without sync points get artificial ones, in two ways. The *period finder* notices that
 * the stream repeats what it did d ops ago; that period, aligned to where the loop began, becomes a
 * sequence that follows itself. Also, if the stream leaves known work with an op that has been the
 * first of other work before, one subsegment ends and the next begins.
 *
 * Ownership: the caller serialises all calls on one ag_policy (with the stream's lock). Another
 * thread (the builder) may give a chunk its graphs, and then call ag_policy_built(), and nothing
 * else.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint64_t ag_key; /* 0 is never a key */

/* Consecutive ops of a sequence that one graph submits. */
struct ag_chunk;
/* A known op sequence. */
struct ag_sequence;

enum ag_chunk_state {
    AG_CHUNK_NEW,      /* no graph yet */
    AG_CHUNK_BUILDING, /* the builder has it */
    AG_CHUNK_READY,    /* can be launched */
    AG_CHUNK_FAILED,   /* building failed; the policy tries again after a while */
};

enum ag_do {
    AG_DO_EAGER,  /* submit the op now */
    AG_DO_RECORD, /* submit it now and keep its arguments: its chunk is about to be built */
    AG_DO_DEFER,  /* keep it; nothing is submitted */
};

struct ag_verdict {
    uint32_t flush; /* deferred ops that the caller must submit, in order, before this op; their
                       arguments stay recorded, because the chunk may go on as one to build */
    enum ag_do what;
    bool fresh;            /* the op is the first of a chunk: discard what was recorded before it */
    struct ag_chunk *done; /* this op completes it: launch (DEFER) or build (RECORD) it */
};

/* What the policy did, for reports and tests. Each counts ops unless its comment says otherwise. */
struct ag_policy_counts {
    uint64_t ops;
    uint64_t sync_points; /* calls */
    uint64_t pauses;      /* cuts made where the program pauses, or comes to new ops (events) */
    uint64_t replayed;    /* deferred ops submitted by launching their whole chunk */
    uint64_t mismatches;  /* departures from a followed sequence while ops were deferred (events) */
    uint64_t switches;    /* changes to another sequence without departing (events) */
    uint64_t resyncs;     /* times the stream was recognised inside a sequence (events) */
    uint64_t periods;     /* periodic sequences made */
    uint64_t sequences;   /* sequences made */
    uint64_t evicted;     /* sequences dropped */
    uint64_t dormant;     /* ops that passed while the stream was dormant */
    uint64_t waits;       /* for a GPU that was far behind: calls of ag_policy_waited() */
};

/* Settings; ag_policy_defaults() gives the documented values. */
struct ag_policy_config {
    uint32_t min_repeats;   /* times a sequence must be seen before its graphs are built (>= 2) */
    uint32_t min_ops;       /* shortest sequence that gets graphs */
    uint32_t max_chunk;     /* most ops in a chunk */
    uint32_t fixed_chunk;   /* ops in every chunk; 0: the policy chooses */
    bool profit;            /* run the profitability check on the live program (profit.c) */
    uint32_t max_sequences; /* sequences remembered per stream, at most 8192 */
    uint32_t hold_most_ns;  /* longest host time from the first to the last op of a planned chunk */
};
void ag_policy_defaults(struct ag_policy_config *config);

/* Whether a chunk should end behind an op; a loop best begins behind an AG_BEST_END. */
enum ag_end { AG_NO_END, AG_GOOD_END, AG_BEST_END };
/* How far these ends count: not at all; for chunks that would end elsewhere; so much that sequences
 * which begin alike are not cut alike. */
enum ag_ends { AG_ANY_ENDS, AG_SOME_ENDS, AG_OWN_ENDS };

struct ag_policy_hooks {
    /* `to` is a chunk without graphs. `from` has the same ops at the same place of a sequence with
     * the same beginning. The hook may let `to` use the graphs of `from`: it gives them to `to` by
     * ag_chunk_set_user(), to be dropped like any others, and returns true. If the hook is NULL or
     * returns false, `to` gets graphs of its own. */
    bool (*share)(void *context, struct ag_chunk *from, struct ag_chunk *to);
    /* Whether chunks of these ops should end at certain ops only. If so, sets ends[i] to an enum
     * ag_end for each. NULL: they may end anywhere. */
    enum ag_ends (*ends)(void *context, const ag_key *keys, uint32_t n, uint8_t *ends);
    /* The chunk is about to be freed: free its graphs. The policy never calls this for a chunk
     * that is being built. */
    void (*drop)(void *context, struct ag_chunk *chunk);
    void *context;
};

/* What the end of a chunk reads and writes of it is in its first cache line. */
struct ag_chunk {
    _Alignas(64) struct ag_sequence *sequence;
    uint32_t first; /* index of its first op in the sequence */
    uint32_t count; /* number of ops, at least 1 */
    _Atomic uint8_t state;
    bool goes_on;        /* without cuts it would be one with the chunk before it */
    bool published;      /* ag_policy_cover() can find it */
    uint8_t retries;     /* failed builds so far */
    uint32_t hits;       /* launches since the chunk was last judged */
    uint32_t fails;      /* flushes instead of launches since then */
    uint32_t fill_ns;    /* in which the host mostly issues it; 0: not known */
    uint64_t cold_until; /* no deferral until the sequence has this many visits */
    void *user;          /* the caller's graphs; ag_policy_hooks.drop frees them */
    uint64_t retry_at;   /* visits of the sequence at which a failed build is tried again; 0: the
                            policy has not noticed the failure yet */
    struct ag_chunk *next_same_head, *prev_same_head; /* ready chunks with the same first key */
};
_Static_assert(offsetof(struct ag_chunk, retry_at) <= 64, "as docs/fast-path.md has it");
/* A chunk's sequence, the index of its first op there, and the number of its ops, at least 1. */
static inline struct ag_sequence *ag_chunk_sequence(const struct ag_chunk *chunk)
{
    return chunk->sequence;
}
static inline uint32_t ag_chunk_first(const struct ag_chunk *chunk)
{
    return chunk->first;
}
static inline uint32_t ag_chunk_count(const struct ag_chunk *chunk)
{
    return chunk->count;
}
/* Whoever reads AG_CHUNK_READY sees the graphs that the builder gave the chunk before. */
static inline enum ag_chunk_state ag_chunk_state(const struct ag_chunk *chunk)
{
    return atomic_load_explicit(&chunk->state, memory_order_acquire);
}
/* The caller's graphs, NULL if there are none. ag_policy_hooks.drop frees them. */
static inline void *ag_chunk_user(const struct ag_chunk *chunk)
{
    return chunk->user;
}
static inline void ag_chunk_set_user(struct ag_chunk *chunk, void *graphs)
{
    chunk->user = graphs;
}

struct ag_sequence_facts {
    uint64_t id; /* a hash of its content */
    const ag_key *keys;
    uint32_t len;        /* ops */
    uint32_t num_chunks; /* 0: it is not cut yet */
    uint64_t visits;     /* how often it was seen since its graphs were last dropped */
    uint64_t seen_ns;    /* when it was seen last, by the clock of the calls below; 0: never */
    bool periodic;       /* the policy found it by its period, and expects it to repeat at once */
};
struct ag_sequence_facts ag_sequence_facts(const struct ag_sequence *sequence);
struct ag_chunk *ag_sequence_chunk(const struct ag_sequence *sequence, uint32_t index);

/* One stream's policy. The hot path uses the first four members. */
struct ag_policy {
    const ag_key *next; /* the expected op; valid while next != stop */
    const ag_key *stop; /* end of the current run */
    enum ag_do doing;   /* what to do with the ops of this run */
    bool idle;          /* a segment has begun, and none of its ops has come */
    uint32_t dormant;   /* ops to let pass unseen before the policy looks again; 0: it is looking */
    uint32_t launch_ns; /* host time of an eager submission, set by the caller; 0: not known */
    uint32_t fresh;     /* keys never met before, if the caller counts them */
    uint32_t measured;  /* ops after the last sync point that the program may be measuring */
    struct ag_policy_state *state;
    struct ag_policy_counts counts;
};

int ag_policy_open(struct ag_policy *p, const struct ag_policy_config *config,
                   const struct ag_policy_hooks *hooks); /* 0 or -ENOMEM */
void ag_policy_close(struct ag_policy *p);

/*
 * Call this when an op arrives. `now` is in nanoseconds of any monotonic clock. The caller may keep
 * the hot path to itself: if the op is ag_policy_expected(), it may call ag_policy_step() and act
 * on the answer, as long as it calls ag_policy_run_end() when the run has ended. ag_policy_op()
 * does the same and handles everything else.
 */
void ag_policy_op(struct ag_policy *p, ag_key key, uint64_t now, struct ag_verdict *verdict);
void ag_policy_run_end(struct ag_policy *p, uint64_t now, struct ag_verdict *verdict);

static inline const struct ag_policy_counts *ag_policy_counts(const struct ag_policy *p)
{
    return &p->counts;
}
/* Changes with each op of a chunk that is followed. For comparison alone. */
static inline const void *ag_policy_place(const struct ag_policy *p)
{
    return p->next;
}
/* The key of the expected op; 0 if none is expected. */
static inline ag_key ag_policy_expected(const struct ag_policy *p)
{
    return __builtin_expect(p->next != p->stop, 1) ? *p->next : 0;
}
/* The host's time between two ops, without the launches themselves, ns; 0: not known yet. */
uint32_t ag_policy_gap(const struct ag_policy *p);
/* When the first op of the followed chunk may have come at the earliest; 0: not known. */
uint64_t ag_policy_began(const struct ag_policy *p);
/* Whether the next op may complete a chunk, or begin a sequence, so that ag_policy_op() needs its
 * time. For other ops the time may be 0, which is none. */
static inline bool ag_policy_wants_time(const struct ag_policy *p)
{
    return p->next || p->idle;
}
/* Whether the expected op is deferred and is not the last of its run. */
static inline bool ag_policy_is_inside(const struct ag_policy *p)
{
    return __builtin_expect(p->doing == AG_DO_DEFER && p->next + 1 != p->stop, 1);
}
/* The expected op has come. Sets `*ends` if it was the last of its run. */
static inline enum ag_do ag_policy_step(struct ag_policy *p, bool *ends)
{
    enum ag_do doing = p->doing;
    p->counts.ops++;
    *ends = ++p->next == p->stop;
    return doing;
}
/* Call these before ag_policy_op(). The first gives the host time of an eager submission, or 0 if
 * it is not known. The second reports an op whose key nobody had met before. */
static inline void ag_policy_launch_takes(struct ag_policy *p, uint32_t ns)
{
    p->launch_ns = ns;
}
static inline void ag_policy_meets_new(struct ag_policy *p)
{
    p->fresh++;
}
/* The recorded ops of this chunk are lost. Its remaining ops go eagerly, so that they are not
 * mistaken for the whole chunk. */
static inline void ag_policy_lost_record(struct ag_policy *p)
{
    p->doing = AG_DO_EAGER;
}
/* Call this before ag_policy_sync_point(): the program may be measuring this many ops after it. */
static inline void ag_policy_may_measure(struct ag_policy *p, uint32_t ops)
{
    p->measured = ops;
}
/* Whether the policy wants to be dormant, for how many ops the caller must let the stream pass
 * unseen, and how many of those it did not let pass in the end. */
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
/* Or it lets the stream pass nothing unseen: the policy looks on, and wishes to rest again later.
 */
void ag_policy_refuse_rest(struct ag_policy *p);
/* Calls of ag_policy_meets_new(). */
static inline uint32_t ag_policy_met(const struct ag_policy *p)
{
    return p->fresh;
}

/* Why the last op was submitted eagerly, if it was. For reports; read it between calls. */
enum ag_why {
    AG_WHY_UNKNOWN,       /* the policy follows no sequence */
    AG_WHY_SELDOM,        /* its sequence was seen too seldom to build graphs */
    AG_WHY_BUILDING,      /* its graph is being built */
    AG_WHY_BUILD_FAILED,  /* its graph could not be built; the policy will try again */
    AG_WHY_SLOWER,        /* the profitability check found eager submission faster */
    AG_WHY_TRIAL,         /* the profitability check is comparing */
    AG_WHY_RESTS,         /* its chunk was flushed too often and rests */
    AG_WHY_MEASURED,      /* the program measures how long the op takes */
    AG_WHY_REST_OF_CHUNK, /* its chunk was joined in the middle, or flushed there */
    AG_WHY_ODD,           /* another op comes at this place in each turn */
    AG_NUM_WHYS
};
enum ag_why ag_policy_why_eager(const struct ag_policy *p);

/* The caller has submitted the chunk from the verdict. The time this took is not the host's own
 * time between ops. */
void ag_policy_submitted(struct ag_policy *p, uint64_t now);
/* Behind that the program was made to wait so long for a GPU that was far behind. */
void ag_policy_waited(struct ag_policy *p, uint64_t ns, uint64_t now);
/* Launching a graph of the sequence took the host by `ns` less than eager calls usually take. */
void ag_policy_gained(struct ag_policy *p, struct ag_sequence *sequence, int64_t ns);

/* Makes the stream dormant for this many ops, as when nothing repeats: the caller must let
 * ag_policy_take_rest() ops pass unseen. Nothing may be deferred. */
void ag_policy_rest(struct ag_policy *p, uint32_t ops);

/* A sync point: returns how many deferred ops the caller must submit before it. */
uint32_t ag_policy_sync_point(struct ag_policy *p, uint64_t now);
/* Whether the policy wants to know when a call that waits for the GPU returns, and that it has:
 * call the first behind ag_policy_sync_point(). If it does not hear of that, it does without. */
bool ag_policy_awaits(const struct ag_policy *p);
void ag_policy_returned(struct ag_policy *p, uint64_t now);

/* The program measures how long the next ops take: `ops` of them, or fewer if a sync point comes
 * first. The policy leaves sequences that are still new to eager submission there, so that the
 * program makes the choice that it would make without the library. Call this right after a sync
 * point, with nothing deferred. */
void ag_policy_measured(struct ag_policy *p, uint32_t ops, uint64_t now);

/* The deferred ops must go now although no sync point has come, as when another stream needs them.
 * The policy defers nothing more until the end of the chunk. Returns how many ops to submit. */
uint32_t ag_policy_break(struct ag_policy *p);

/* The deferred ops have waited for too long: the program may be polling memory that one of them
 * writes. At first the same as a break. If this happens at one place several times, the policy
 * ends a chunk there. Returns how many ops to submit. */
uint32_t ag_policy_pause(struct ag_policy *p, uint64_t now);

/* Whether an idle GPU may be waiting for this chunk, whose last op has just come: the program may
 * have waited before it. Behind an odd op the GPU is busy. */
bool ag_policy_awaited(const struct ag_policy *p, const struct ag_chunk *chunk);
/* How many chunks come behind this one until the program may wait: UINT32_MAX in a loop. */
uint32_t ag_chunk_behind(const struct ag_chunk *chunk);

/* Who makes the stream's launches: the submitter, or the program's thread. `compares`: now both
 * take turns. Chunks that suit one do not suit the other. */
void ag_policy_launched_by(struct ag_policy *p, bool submitter, bool compares);

/* The number of ops deferred now. */
uint32_t ag_policy_deferred(const struct ag_policy *p);

/* The arguments of a periodic sequence repeat after `period` ops, its keys sooner. From now on the
 * policy follows a sequence of whole periods instead, and cuts it at whole periods. If `period` is
 * 0, nothing is known and nothing changes. Do not call this between a verdict and acting on its
 * chunk. */
void ag_policy_align(struct ag_policy *p, struct ag_sequence *sequence, uint32_t period);

/* Names a chunk for as long as it exists. */
struct ag_chunk_ref {
    uint32_t slot, serial, index; /* serial 0: none */
};
struct ag_chunk_ref ag_policy_chunk_ref(const struct ag_chunk *chunk);
/* NULL if its sequence is gone or now has fewer chunks. If the sequence has a new plan, this is
 * another chunk. */
struct ag_chunk *ag_policy_chunk_get(struct ag_policy *p, struct ag_chunk_ref ref);

/* An op whose arguments are kept. */
struct ag_recorded {
    ag_key key;
    uint32_t offset; /* of its arguments among those of all */
};

/* The longest ready chunk of at most n ops that equals the first of `ops`; NULL if there is none.
 * With it, deferred ops are flushed by graph instead of one by one. */
struct ag_chunk *ag_policy_cover(struct ag_policy *p, const struct ag_recorded *ops, uint32_t n);

/* The builder's answer for a chunk that was handed out with AG_DO_RECORD. Any thread may call this.
 * It writes only the state, so the chunk must have its graphs before. The stream's own thread
 * also calls it, with `ok` false, for a ready chunk whose graph could not be launched, after it has
 * freed the graphs and taken them from the chunk. The chunk is built again after a while. */
void ag_policy_built(struct ag_chunk *chunk, bool ok);
/* The caller does not build the chunk now (for example because of the budget or an active stream
 * capture): the policy records it again later. */
void ag_policy_not_built(struct ag_chunk *chunk);
/* The same, but the policy does not record the chunk again until its sequence has had this many
 * more visits. Only the thread that makes the serialised calls on the policy may call this. */
void ag_policy_put_off(struct ag_chunk *chunk, uint32_t visits);

/* The least recently used sequence whose graphs may be dropped. */
struct ag_sequence *ag_policy_victim(struct ag_policy *p);
/* Drops a sequence's graphs (calls hooks.drop on each chunk); the policy still knows the sequence.
 * Fails (false) while one of the graphs is being built or the policy is following the sequence. A
 * sequence that is only expected next does not count as followed. */
bool ag_policy_drop_graphs(struct ag_policy *p, struct ag_sequence *sequence);
/* The same, and the policy no longer knows the sequence: one of its ops never comes again. Does
 * nothing where that fails; and a sequence that is about to be followed stays known. */
void ag_policy_forget(struct ag_policy *p, struct ag_sequence *sequence);
/* Bytes of host memory that the policy holds for this stream, without the graphs. */
size_t ag_policy_memory(const struct ag_policy *p);

/* Invalidates everything, because keys have changed their meaning. Nothing may be deferred, and the
 * builder may have no chunk. (The same holds for ag_policy_close().) */
void ag_policy_invalidate(struct ag_policy *p);
/* Calls `visit` for every known sequence. */
void ag_policy_each(struct ag_policy *p, void (*visit)(void *context, struct ag_sequence *sequence),
                    void *context);
