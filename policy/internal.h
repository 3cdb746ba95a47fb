/*
 * internal.h - what the files of policy/ share. Nothing outside policy/ includes this.
 *
 *  sequence.c   the table of known sequences, by content and by first key; chunks ready to launch
 *  alike.c      chooses among known sequences with the same beginning
 *  plan.c       how a sequence is cut into chunks
 *  profit.c     whether replaying a sequence is faster than submitting it eagerly
 *  tune.c       whether a sequence gains from longer or shorter chunks
 *  samples.c    the times of a few visits, and what follows from them
 *  chain.c      which sequence follows which
 *  finder.c     the history ring, the period finder, the anchors that recognise a sequence
 *  follow.c     runs, following a sequence, changing to another: ag_policy_op()
 *  observe.c    while the policy follows nothing: rejoining, recognising, going dormant
 *  period.c     loops without sync points
 *  pause.c      places at which the program pauses without a call
 *  learn.c      ends of subsegments and segments: ag_policy_sync_point()
 *  life.c       open, close, invalidate; the builder's answers
 *  why.c        why an op was submitted eagerly
 *
 * engine.c is above all of them: it uses policy.h as any other caller does.
 */
#pragma once

#include "policy/constants.h"
#include "policy/new.h"
#include "policy/policy.h"
/* If memory runs out, uthash ends the program by default. With this it sets `hh.tbl` to NULL after
 * adding. */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>
#include <utlist.h>

enum { AG_MAX_SEQUENCE_OPS = 16384 };

enum {
    AG_SLOTS = 8192,        /* most sequences of a stream */
    AG_KNOWN_OPS = 1 << 22, /* most ops in all of them, 16 bytes each */
    AG_RING = 16384,        /* most ops of history; a power of two, at least AG_MAX_SEQUENCE_OPS */
    AG_INDEX = 16384,       /* most entries of a table keyed by gram; a power of two */
    AG_CHAIN = 65536,       /* most entries of the successor table; a power of two */
    AG_SEEN = 256,          /* contents remembered as seen; a power of two ... */
    AG_SEEN_WAYS = 8,       /* ... so many of which share a place */
    AG_PAUSES = 256,        /* places remembered at which the watchdog flushed */
};

#define AG_MULTIPLIER 0x9E3779B97F4A7C15ull

static inline uint64_t ag_mix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xBF58476D1CE4E5B9ull;
    x ^= x >> 27;
    x *= 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}

/* A polynomial hash: the hash of a concatenation follows from those of its parts; see
 * ag_hash_join(). It is modulo a prime. Modulo 2^64, whatever the multiplier, streams that swap two
 * ops as the Thue-Morse sequence does have the same hash as those that swap them the other way
 * round. */
#define AG_HASH_PRIME (((uint64_t)1 << 61) - 1)
#define AG_HASH_BASE  (AG_MULTIPLIER >> 3)
static inline uint64_t ag_hash_sum(uint64_t a, uint64_t b)
{
    return a + b < AG_HASH_PRIME ? a + b : a + b - AG_HASH_PRIME;
}
static inline uint64_t ag_hash_product(uint64_t a, uint64_t b)
{
    __extension__ unsigned __int128 product = (unsigned __int128)a * b;
    uint64_t sum = ((uint64_t)product & AG_HASH_PRIME) + (uint64_t)(product >> 61);
    return sum < AG_HASH_PRIME ? sum : sum - AG_HASH_PRIME;
}
static inline uint64_t ag_hash_of(ag_key key)
{
    return ag_mix(key) >> 3 < AG_HASH_PRIME ? ag_mix(key) >> 3 : 0;
}
static inline uint64_t ag_hash_add(uint64_t hash, ag_key key)
{
    return ag_hash_sum(ag_hash_product(hash, AG_HASH_BASE), ag_hash_of(key));
}
static inline uint64_t ag_hash_keys(const ag_key *keys, uint32_t len)
{
    uint64_t hash = 0;
    for (uint32_t i = 0; i < len; i++)
        hash = ag_hash_add(hash, keys[i]);
    return hash;
}
uint64_t ag_hash_join(uint64_t left, uint64_t right, uint32_t right_len);
static inline uint64_t ag_content_id(uint64_t hash, uint32_t len)
{
    return ag_mix(hash ^ ((uint64_t)len << 40)) | 1;
}

/* Whether a sequence gains from its graphs; see profit.c. */
struct ag_profit_samples {
    uint32_t ns[AG_PROFIT_SAMPLES];
    uint32_t count; /* only the latest AG_PROFIT_SAMPLES are kept */
};
enum ag_profit_mode {
    AG_PROFIT_NEW, /* never replayed yet */
    AG_PROFIT_REPLAY,
    AG_PROFIT_EAGER,
    AG_PROFIT_TRIES_EAGER, /* eager submission is tried; replay is the mode */
    AG_PROFIT_TRIES_REPLAY,
};
/* How far the early look (see profit.c) has come. AG_EARLY_EAGER: eager submission is tried.
 * AG_EARLY_REPLAY: it was far faster, so replay is tried once more. AG_EARLY_SHORTER: replay was
 * still slower, so shorter and shorter chunks are tried. */
enum ag_profit_early { AG_EARLY_NONE, AG_EARLY_EAGER, AG_EARLY_REPLAY, AG_EARLY_SHORTER };
struct ag_profit {
    uint8_t mode;  /* enum ag_profit_mode */
    bool doubt;    /* replay has lost once */
    bool hinted;   /* replay was compared with first_ns */
    bool looked;   /* the early look has begun, or was not worth it */
    uint8_t early; /* enum ag_profit_early */
    bool replan;   /* the sequence needs a new plan */
    struct ag_profit_samples replay, eager;
    uint64_t first_ns;  /* the fastest visit before there were graphs; 0: not known */
    uint64_t best_ns;   /* the fastest replay among the plans that lost to eager submission */
    uint32_t interval;  /* visits between trials; 0: none yet */
    uint32_t left;      /* visits until the next trial, or until this one ends */
    uint32_t patience;  /* times it may still be followed until then */
    uint32_t most;      /* most ops in a chunk; 0: plan.c decides */
    uint32_t best_most; /* most ops in a chunk when replay is tried again */
    uint32_t launches;  /* that `gained_ns` is of */
    int64_t gained_ns;  /* in launches of a sequence in chunks of one op */
};

/* Whether a sequence gains from longer or shorter chunks; see tune.c. */
enum ag_tune_mode { AG_TUNE_WAITS, AG_TUNE_TRIES, AG_TUNE_RESTS };
enum ag_tune_wish { AG_TUNE_NOTHING, AG_TUNE_NEW_PLAN, AG_TUNE_TURN, AG_TUNE_SETTLE };
struct ag_tune {
    uint32_t ratios[AG_TUNE_SAMPLES]; /* thousandths: a turn by the new plan over one by the old */
    uint32_t pairs;                   /* pairs of turns; at most AG_TUNE_SAMPLES of them are kept */
    uint64_t turn_ns, before_ns;      /* time of the visits counted in this turn and in the last */
    uint32_t counted;                 /* visits counted in this turn */
    uint32_t visits, replayed, fails; /* in this mode; replayed: in this turn of a trial */
    uint32_t rest;                    /* visits until longer chunks are tried again */
    uint8_t mode;                     /* enum ag_tune_mode */
    uint8_t wants;                    /* enum ag_tune_wish, for when the sequence begins again */
    int8_t up;                        /* times the chunks were made longer; < 0: shorter */
    bool shorter;                     /* longer chunks did not help: shorter ones are tried next */
    bool old_plan;                    /* during a trial: the plan from before it is in use */
    bool old_wins;
    bool replan;       /* the sequence needs a new plan */
    uint32_t launcher; /* the state's, when this last started over */
};

/* A place at which a chunk must end, because the program pauses there. */
struct ag_cut {
    uint32_t at;   /* ops before it, from 1; in a loop, of the turn */
    uint32_t left; /* visits until it goes, if the program pauses in each; 0: it has gone */
    uint64_t gone; /* visits of the sequence when it last went */
    uint8_t times; /* times in a row that it was made again soon after it went */
};

/* How a sequence is cut into chunks. */
struct ag_plan {
    struct ag_chunk *chunks;
    uint32_t num_chunks; /* 0: it is not cut yet */
    uint32_t longest;    /* ops in the longest chunk, as last planned */
    uint32_t limit;      /* most ops in a chunk at the pace of planning */
};

/* A reference that may outlive its sequence. It is valid while slot and serial agree. */
struct ag_ref {
    uint32_t slot;
    uint32_t serial; /* 0: none */
};

/* A known op sequence, with its links into the tables and lists. Most of what the end of a chunk
 * reads of it is in the first cache line (docs/fast-path.md, rule 12). */
struct ag_sequence {
    _Alignas(64) ag_key *keys;
    struct ag_plan plan;
    uint64_t visits;     /* times seen from start to end */
    struct ag_cut *cuts; /* places at which a chunk must end, in order; see pause.c */
    uint32_t num_cuts;   /* those that have gone as well */
    uint32_t len;        /* ops */
    bool periodic;       /* ends in an artificial sync point and is expected to repeat */
    bool loose; /* periodic, and the stream often leaves it for others with the same beginning */
    bool recut; /* it needs a new plan for its cuts alone */
    uint8_t kept, left; /* recent visits, and recent times the stream left it half way */
    uint32_t streak;    /* times in a row, for periodic sequences */
    struct ag_profit profit;
    struct ag_tune tune;
    uint64_t id;     /* content hash */
    uint32_t serial; /* distinguishes successive users of one slot */
    uint32_t slot;
    uint64_t last_use;      /* by the policy's clock */
    uint64_t seen_ns;       /* when it was last seen; 0: never */
    uint64_t first_seen_ns; /* when it was first seen; 0: never */
    uint64_t *prefix;       /* prefix[i]: hash of keys[0..i), len + 1 entries */
    struct ag_plan aside;   /* the other one, while tune.c compares two */
    uint32_t unfit;         /* visits whose pace asked for another plan, less those that did not */
    uint64_t dropped_at;    /* visits when its graphs were last dropped */
    uint32_t segment;       /* the last that it was a subsegment of */
    uint32_t replans;
    uint32_t shortest_period;  /* for a merged sequence: length of its repeating unit; else 0 */
    uint32_t arguments_period; /* ops after which its arguments repeat; 0: not known */
    struct ag_ref unrolled;    /* several repetitions of this one merged */
    uint64_t turn;             /* if periodic: hash of its ops, wherever it begins */
    struct ag_head *head;
    struct ag_sequence *next, *prev;   /* in the list of the same head */
    struct ag_sequence *older, *newer; /* in the list by use */
    bool seen_again;                   /* which of the two lists by use holds it */
    bool in_turns;
    UT_hash_handle hh;      /* keyed by id */
    UT_hash_handle turn_hh; /* keyed by turn, if in_turns */
};

/* A place at which the watchdog flushed, as the number of ops before it in the sequence. */
struct ag_pause_place {
    struct ag_ref sequence;
    uint32_t at, times;
    uint64_t visits; /* of the sequence, at the last pause */
};

struct ag_head {
    ag_key key;
    struct ag_sequence *first; /* sequences with this first key, most recently used first */
    struct ag_chunk *ready;    /* ready chunks with this first key */
    UT_hash_handle hh;
};

struct ag_keys {
    ag_key *data;
    uint32_t count, capacity;
    uint64_t hash;
    bool overflow; /* too long for a sequence; data is not complete */
};

/* Tables start small and grow with their content, so that a stream of few ops costs little.
 * They are direct-mapped: the hash of an entry gives its slot, and a newer entry replaces an
 * older one. */
struct ag_place {
    uint64_t gram;     /* 0: empty */
    uint64_t position; /* just after the last occurrence of this gram */
};
struct ag_anchor {
    uint64_t gram;     /* 0: empty */
    uint16_t position; /* in the sequence, just after the gram; at most AG_MAX_SEQUENCE_OPS */
    uint16_t slot;     /* of the sequence */
    uint32_t serial;
};

struct ag_finder {
    ag_key *ring;
    uint32_t ring_size; /* a power of two, at most AG_RING */
    uint64_t end;       /* ops pushed so far, which is the position of the next */
    uint64_t gram;      /* hash of the last AG_GRAM keys */
    uint64_t floor;     /* nothing before this position counts (the last real sync point) */
    uint64_t guess;     /* the position that predicts the next op */
    uint64_t run;       /* ops that the guess has covered; all were as predicted ... */
    uint32_t odd;       /* ... except this many, which were others in the same place */
    uint32_t odd_in_a_row;
    uint64_t odd_at; /* the position of the last of them */
    bool guessing;
    struct ag_place *index;
    uint32_t index_size, index_used;
    uint32_t driven_out; /* grams of this segment that others pushed out of a table of this size */
    struct ag_anchor *anchors;
    uint32_t anchors_size, anchors_used;
};

struct ag_link {
    uint32_t context; /* 0: empty */
    bool sure;        /* its last prediction was right */
    struct ag_ref next;
};

enum ag_chain_kind { AG_CHAIN_REAL, AG_CHAIN_SUBSEGMENT };

struct ag_chain {
    struct ag_link *entries;
    uint32_t size, used;
};

struct ag_odd {
    ag_key key;
    uint64_t until; /* it is odd while the stream has fewer ops */
};

/* Ops are numbered by ag_policy_counts.ops, positions are those of the history. See odd.c. */
struct ag_odds {
    struct ag_odd keys[AG_ODD_KEYS]; /* by hash */
    ag_key newest[AG_ODD_KINDS];     /* keys that were never met before, the last of them ... */
    uint32_t num_new;
    uint64_t part;               /* ... and the position behind the last */
    uint64_t born[AG_ODD_KINDS]; /* ops at which the last odd keys were met first */
    uint32_t num_born;
    uint64_t trusted_until;    /* until so many ops, a new key inside a sequence is an odd one */
    uint64_t synced;           /* ops up to the last sync point */
    uint32_t parts;            /* that have ended there; none is empty */
    uint32_t leading;          /* new ops right behind the last ... */
    uint32_t led[AG_ODD_ROWS]; /* ... and behind those before, if they were the smaller half */
    uint64_t born_replayed; /* the count of replayed ops when the last odd key was met first, ... */
    uint32_t born_parts;    /* ... and of parts */
    uint64_t newest_at;     /* the last new op */
    uint32_t row;           /* new ops in a row up to that, and in the rows before */
    uint32_t rows[AG_ODD_ROWS], num_rows;
    uint64_t last;          /* the last op that was odd */
    uint64_t watched_until; /* until so many ops, keys that were met before may matter */
};

/* A visit that has ended, except for the wait behind it. */
struct ag_awaited {
    struct ag_ref sequence;
    uint64_t at; /* the beginning of the wait, ns */
    uint64_t replayed;
    bool recorded, is;
};

struct ag_policy_state {
    /* What the end of a chunk reads and writes lies side by side, as in a sequence. Times in ns; 0:
     * not known */
    _Alignas(64) struct ag_sequence *sequence; /* the followed one; NULL: the policy observes */
    struct ag_plan retired;                    /* a plan that was dropped; freed in the next call */
    uint64_t run_began;
    uint64_t first_op; /* when the run's first op came */
    uint32_t chunk;    /* index of the chunk that holds the current run */
    uint32_t gap;      /* estimated host time between ops, without the launch itself */
    bool recorded; /* ops were due to be recorded since the last sync point, real or artificial */
    bool pure;     /* this subsegment is exactly sequence->keys[0..position) */
    uint32_t long_gaps;    /* in a row */
    uint64_t unproductive; /* ops since anything repeated */
    uint32_t barren;       /* sequences made since any came again */

    struct ag_policy_config config;
    struct ag_policy_hooks hooks;

    /* known sequences */
    struct ag_sequence *by_id;
    struct ag_sequence *by_turn; /* periodic ones; of several with one turn, the first */
    struct ag_head *by_head;
    struct ag_sequence *by_use[2]; /* seen once, and seen again; the longest unused first */
    struct ag_sequence **slots;
    uint32_t num_slots, num_sequences, serial;
    uint32_t free_slot;     /* no slot before this one is free */
    uint32_t sequences_ops; /* ops in all sequences */
    uint64_t clock;

    /* where we are */
    struct ag_sequence *keep;  /* the sequence about to be followed; not evicted either */
    uint32_t from;             /* the sequence's ops before this index came through `subsegment` */
    uint32_t pushed;           /* the history holds the sequence's ops before this index */
    bool rejoined;             /* this subsegment departed from `sequence` and came back */
    struct ag_keys subsegment; /* ops since the last sync point (of any kind) not followed purely */
    uint64_t segment_hash;     /* from the last real sync point to the last one of any kind */
    uint64_t segment_len;
    uint32_t splits;   /* artificial sync points since the last real one */
    uint64_t looped;   /* ops of this segment in loops, and in subsegments that it had before */
    uint32_t segments; /* begun until now */

    struct ag_ref last; /* what the last segment was, or varied */
    struct ag_ref loop; /* that the stream has left in this segment ... */
    uint32_t loop_at;   /* ... and where */

    /* realignment after a departure */
    struct ag_ref departed;
    uint32_t departed_at, realign, realign_run, realign_left;
    bool departed_new; /* it left at an op that was never met before */
    struct ag_odds odds;

    /* pauses */
    struct ag_pause_place *pauses; /* AG_PAUSES of them; NULL: there was none yet */
    uint32_t next_pause;

    /* contexts */
    struct ag_chain chain;
    uint64_t last_id[2], id_before[2]; /* of the last two (sub)segments, by enum ag_chain_kind */
    uint64_t seen[AG_SEEN];

    struct ag_finder finder;
    struct {
        uint64_t ops, replayed; /* counts when a loop was entered last (period.c) */
    } entered;

    /* who makes the launches (tune.c) */
    bool by_submitter;
    bool compares;     /* both take turns */
    uint32_t launcher; /* how often tuning has started over; 0: the two were never compared */

    struct ag_awaited awaited;
    uint32_t others; /* segments for which it counts that one was another than the one before */
    uint64_t sequence_began; /* time of the last sync point, real or artificial, ns; 0: not known */
    uint64_t replayed_began; /* ops replayed before that */
    uint64_t last_op;        /* when the last op came, if the policy observed it; else 0 */

    /* backing off */
    uint32_t fresh_began; /* p->fresh when this segment began */
    uint32_t fresh;       /* the last p->fresh that was looked at */
    uint32_t rest;        /* length of the last dormant time, in ops */
    bool was_dormant;
};

/* sequence.c */
void ag_keys_push(struct ag_keys *keys, ag_key key);
void ag_keys_clear(struct ag_keys *keys);
struct ag_sequence *ag_sequence_find(struct ag_policy_state *s, uint64_t hash, uint32_t len);
/* A periodic sequence with this hash of its turn; and enters one. */
struct ag_sequence *ag_sequence_of_turn(struct ag_policy_state *s, uint64_t turn);
void ag_sequence_has_turn(struct ag_policy_state *s, struct ag_sequence *sequence);
struct ag_sequence *ag_sequence_add(struct ag_policy *p, const ag_key *keys, uint32_t len);
void ag_sequence_touch(struct ag_policy_state *s, struct ag_sequence *sequence);
struct ag_ref ag_sequence_ref(const struct ag_sequence *sequence);
struct ag_sequence *ag_sequence_get(struct ag_policy_state *s, struct ag_ref ref);
void ag_sequence_drop_all(struct ag_policy_state *s);
void ag_plan_free(struct ag_policy_state *s, struct ag_plan *plan);
bool ag_plan_retire(struct ag_policy_state *s, struct ag_plan *plan);
void ag_sequence_swap_plans(struct ag_sequence *sequence);
void ag_chunk_publish(struct ag_policy_state *s, struct ag_chunk *chunk);

/* alike.c */
struct ag_sequence *ag_sequence_candidate(struct ag_policy_state *s, ag_key head, uint64_t prefix,
                                          uint32_t position, ag_key key);
struct ag_sequence *ag_sequence_beginning(struct ag_policy_state *s, ag_key head_key);
bool ag_sequence_is_kept(const struct ag_sequence *sequence);
void ag_sequence_left(struct ag_sequence *sequence, uint32_t at);
void ag_sequence_kept(struct ag_sequence *sequence);
bool ag_sequence_has_like(const struct ag_sequence *sequence);
struct ag_sequence *ag_sequence_planned_alike(const struct ag_sequence *sequence, uint32_t limit);
/* A ready chunk of another sequence with the same first key, with the same ops at the same place;
 * NULL if there is none. */
struct ag_chunk *ag_chunk_alike(const struct ag_chunk *chunk);

/* Ops after which the sequence repeats, or its length. */
static inline uint32_t ag_unit(const struct ag_sequence *b)
{
    return b->shortest_period ? b->shortest_period : b->len;
}

/* follow.c; `now` is the time of the current op or sync point */
static inline uint32_t ag_position(const struct ag_policy *p) /* in the followed sequence */
{
    return (uint32_t)(p->next - p->state->sequence->keys);
}
void ag_follow(struct ag_policy *p, struct ag_sequence *sequence, uint32_t at, uint64_t now);
void ag_follow_nothing(struct ag_policy *p);
void ag_replan(struct ag_policy *p, uint64_t now);
void ag_into_history(struct ag_policy_state *s, uint32_t upto);
/* Whether the program may be measuring this sequence, which was first seen not long ago. */
bool ag_is_measured(const struct ag_policy *p, const struct ag_sequence *b, uint64_t now);
void ag_depart(struct ag_policy *p);
/* What is deferred must be submitted eagerly. Returns how many ops that are. */
uint32_t ag_give_up(struct ag_policy *p);

/* observe.c */
void ag_observe(struct ag_policy *p, ag_key key, uint64_t now, struct ag_verdict *v);
/* An op passes that repeats nothing; many new ones tell that nothing will. */
void ag_passes_new(struct ag_policy *p);
/* Behind odd ops, this one goes on in the sequence that the stream left, at a cut. */
bool ag_rejoin_at_cut(struct ag_policy *p, ag_key key, uint64_t now);
void ag_sequence_is_new(struct ag_policy_state *s);
static inline void ag_something_repeats(struct ag_policy_state *s)
{
    s->unproductive = s->barren = 0;
}
void ag_wake(struct ag_policy *p);
void ag_learn_gap(struct ag_policy_state *s, uint64_t ns);

/* odd.c */
/* Whether the op that comes now, and that the followed sequence does not expect, is odd. If the
 * first says no, it is not. */
static inline bool ag_may_be_odd(const struct ag_policy *p)
{
    return p->fresh != p->state->fresh || p->counts.ops < p->state->odds.watched_until;
}
bool ag_is_odd(struct ag_policy *p, ag_key key);
/* A sync point comes. */
void ag_odds_end(struct ag_policy *p);
/* Behind a new op that was not taken for odd, the sequence went on. */
void ag_odds_were(struct ag_policy *p);

/* period.c */
struct ag_sequence *ag_sequence_periodic(struct ag_policy *p, const ag_key *keys, uint32_t len);
bool ag_adopt_period(struct ag_policy *p, uint64_t now);
void ag_end_period(struct ag_policy *p, uint64_t now);

/* pause.c */
/* The first cut behind index `at` of the sequence; `end` if there is none before that. */
uint32_t ag_cut_behind(const struct ag_sequence *b, uint32_t at, uint32_t end);
bool ag_is_cut(const struct ag_sequence *b, uint32_t at);
bool ag_has_cuts(const struct ag_sequence *b);
/* The unit in which the sequence repeats has changed. */
void ag_cuts_fold(struct ag_sequence *b);
/* The program pauses where it does in the ops that `b` and `model` both begin with. */
void ag_cuts_copy(struct ag_sequence *b, const struct ag_sequence *model);
/* `ops` deferred ops behind index `at` took `ns` from the op before them: tells the cut there, if
 * there is one, whether the program has paused. */
void ag_cut_passed(struct ag_policy_state *s, struct ag_sequence *b, uint32_t at, uint64_t ns,
                   uint32_t ops);

/* The stream left or joined the sequence before the op at index `at`. */
void ag_cut_wanted(struct ag_policy *p, struct ag_sequence *b, uint32_t at);

/* learn.c */
void ag_measure(struct ag_policy *p, struct ag_sequence *sequence, uint64_t now);
void ag_visited(struct ag_policy *p, struct ag_sequence *sequence);
bool ag_seen_before(struct ag_policy_state *s, uint64_t id);
struct ag_sequence *ag_end_subsegment(struct ag_policy *p, struct ag_sequence *sequence,
                                      bool alone);
/* Ends the segment here, if there are ops in it. Returns how many of them were deferred. */
uint32_t ag_end_segment(struct ag_policy *p, uint64_t now);

/* plan.c */
/* Without memory the sequence stays without a plan. */
void ag_plan(struct ag_policy_state *s, struct ag_sequence *sequence);
/* Whether the sequence would now get another plan, and it is time to change to that. */
bool ag_plan_is_stale(struct ag_policy_state *s, struct ag_sequence *sequence);
uint32_t ag_plan_chunk_at(const struct ag_sequence *sequence, uint32_t position);
uint32_t ag_plan_limit(const struct ag_policy_state *s, const struct ag_sequence *sequence, int up);

/* samples.c: times in nanoseconds; UINT32_MAX stands for every longer time. */
/* Adds a sample and keeps the latest `most`, at most AG_TUNE_SAMPLES. ag_samples_kept() gives the
 * number kept from `*count`. */
void ag_sample_add(uint32_t *ns, uint32_t *count, uint32_t most, uint64_t sample);
static inline uint32_t ag_samples_kept(uint32_t count, uint32_t most)
{
    return count < most ? count : most;
}
/* The median of the `kept` samples or, in sorted order, the sample `off` places after it. */
uint32_t ag_samples_middle(const uint32_t *ns, uint32_t kept, int off);

/* profit.c */
static inline bool ag_profit_defers(const struct ag_profit *g)
{
    return g->mode != AG_PROFIT_EAGER && g->mode != AG_PROFIT_TRIES_EAGER;
}
void ag_profit_first(struct ag_profit *profit, uint64_t ns);
void ag_profit_followed(struct ag_profit *profit);
void ag_profit_gained(struct ag_profit *profit, int64_t ns, uint32_t len);
void ag_profit_visit(struct ag_profit *profit, uint64_t ns, bool replayed, uint32_t longest,
                     uint32_t gap);

/* tune.c */
void ag_tune_visit(const struct ag_policy_state *s, struct ag_sequence *sequence, uint64_t ns,
                   bool replayed);

/* Whether longer chunks save enough launches per visit to be worth building graphs for. */
bool ag_tune_saves_launches(const struct ag_policy_state *s, const struct ag_sequence *sequence);
void ag_tune_failed(struct ag_sequence *sequence);
/* Call this before the sequence begins. Returns true if the policy must follow other chunks from
 * now on. */
bool ag_tune_changes_plan(struct ag_policy *p, struct ag_sequence *sequence);
/* Ends a trial without a winner. */
void ag_tune_ends(struct ag_sequence *sequence);

/* chain.c */
void ag_chain_learn(struct ag_policy_state *s, enum ag_chain_kind kind,
                    struct ag_sequence *sequence, uint64_t id);
struct ag_sequence *ag_chain_predict(struct ag_policy_state *s, enum ag_chain_kind kind);

/* finder.c */
int ag_finder_open(struct ag_finder *f);
void ag_finder_close(struct ag_finder *f);
static inline ag_key ag_finder_at(const struct ag_finder *f, uint64_t position)
{
    return f->ring[position & (f->ring_size - 1)];
}
void ag_finder_push(struct ag_finder *f, const ag_key *keys, uint32_t n);
void ag_finder_sync_point(struct ag_finder *f);
/* The period in ops that the history has just repeated, 0 if there is none; and the position at
 * which that loop began. */
uint32_t ag_finder_period(const struct ag_finder *f);
uint64_t ag_finder_began(const struct ag_finder *f, uint32_t period);
void ag_finder_anchor(struct ag_finder *f, const struct ag_sequence *sequence);
struct ag_ref ag_finder_recognise(const struct ag_finder *f, uint32_t *position);
