/*
 * stream.h - what the library keeps for each stream, and how it finds a stream.
 *
 * Every stream that is launched to, in any context, gets a struct ag_stream. The legacy default
 * stream has one per context, and per-thread default streams one per thread and context
 * (per_thread.h).
 *
 * Locking: `lock` covers what the fields say. It is held across driver calls that submit this
 * stream's deferred work, because whoever comes next must come after that work. It is never held
 * across eager launches, and no second stream's lock is ever taken under it. A submitting call may
 * wait for room in a full queue, so calls that never wait take the lock only by
 * ag_stream_lock_if_prompt().
 *
 * Life: threads find streams without taking a reference, and another thread may end the context at
 * that moment. So the memory of a struct ag_stream stays a struct ag_stream for ever: the memory
 * of a stream that is gone is reused for the next one, that of a legacy stream for the same
 * context. After taking the lock, check that the stream is live, and its `handle`, before you rely
 * on the rest of its state. A struct ag_context lives as long as the process.
 *
 * Programs make a stream for a task and destroy it. So a stream may be *parked* when its handle
 * ends (ag_stream_park()): its engine is closed but keeps what it knows, with its graphs, and the
 * next stream of the same context, kind and priority goes on with it, in the same struct ag_stream.
 * A parked stream is in the list of all, so whatever invalidates sequences, counts figures or makes
 * room for graphs finds it; its handle is NULL, and no call finds it. What belongs to the handle
 * ends with it.
 */
#pragma once

#include "capture/capture.h"
#include "capture/system/lock.h"
#include "capture/tracking/dormant.h"
#include "capture/tracking/signature.h"
#include "driver/own.h"
#include "policy/constants.h"
#include "policy/pairs.h"
#include "policy/ring.h"
#include "policy/engine.h"

/* The library's own kernels in one context (graphs/ownkernels.h). */
enum ag_own_kernel { AG_OWN_FILL, AG_OWN_COPY, AG_OWN_FENCE, AG_OWN_KERNELS };
struct ag_own {
    bool tried; /* to load them; once is enough */
    CUmodule module;
    CUfunction functions[AG_OWN_KERNELS]; /* NULL: they could not be loaded */
};

struct ag_context {
    CUcontext handle;
    _Atomic bool broken;          /* an error has ended it, and it has not been destroyed yet */
    uint64_t bit;                 /* constant: its own; 0 for the 65th and later ones */
    _Atomic uint32_t ending;      /* calls under way that may end it */
    _Atomic bool own_kernels;     /* the library's are loaded there */
    struct ag_own own;            /* under the lock of ownkernels.c */
    _Atomic uint64_t host_calls;  /* see hostfunction.c */
    _Atomic uint32_t attached;    /* cuCtxAttach, less cuCtxDetach */
    struct ag_stream *old_legacy; /* memory of the legacy stream that was destroyed, for reuse */
    _Atomic(struct ag_stream *) legacy; /* of this context, NULL if never used */
    /* Blocking streams with ops deferred, and those with records due (fork.h); the same of the
     * legacy stream, and its branches. So a stream may count twice. */
    _Atomic uint32_t blocking_held, legacy_held;
    /* Memory of the host for core/read_back.c, 0 while there is none; its places in use, and those
     * to which the driver has refused to copy, a bit each; and its address, which stays. */
    _Atomic CUdeviceptr staging;
    _Atomic uint64_t staging_used, staging_failed;
    void *staging_memory;
    struct ag_context *next;
};

/* An allocation that was looked up; see memory.c. */
struct ag_range {
    CUdeviceptr start;
    size_t size;
    uint8_t what; /* enum ag_memory */
    bool syncs;   /* calls of no stream wait for the GPU there (memory.h) */
};
struct ag_ranges {
    struct ag_range *list; /* by `start`, no two alike; `n` of them, with room for `room` */
    uint32_t n, room;
};

/* Sums over streams. */
struct ag_totals {
    uint64_t ops, replayed, covered, flushed, eager, dormant, updates, graph_launches;
    uint64_t mismatches, switches, resyncs, periods, sequences, evicted, waits;
    uint64_t singles;           /* ops that were handed over one by one */
    uint64_t handed_chunks;     /* that went into rings */
    uint64_t whys[AG_NUM_WHYS]; /* samples of eager ops, by the reason why they were eager */
    int64_t gained_ns, handed_gained_ns; /* by all of these; the second is part of the first */
};

/* See ag_driver_enter(). */
struct ag_visit {
    bool entered;
    int cancel;
};

/* How much a stream had seen: ops, keys that nobody had met, ops handed over by themselves, ops for
 * which it was asked whether they are. */
struct ag_wish {
    uint64_t ops, met, singles;
    uint32_t asked;
};

struct ag_doubt {
    bool is;
    uint32_t looks;
    uint64_t ops;    /* of the stream when that was last asked */
    int64_t gain_ns; /* of its graphs since then */
};

/* See graphs/ahead.h. */
enum ag_made { AG_NOT_MADE, AG_MAKE, AG_MADE };
struct ag_ahead {
    _Atomic uint32_t behind;  /* ops behind the oldest event that has not passed; 0: there is none.
                                 Anybody may read it */
    uint32_t ops, last;       /* that count; as many when the latest event was recorded */
    uint32_t calls;           /* of a fork: that went by themselves, and do not count yet */
    uint32_t oldest, pending; /* of the events: recorded, and not seen to have passed */
    _Atomic uint8_t made;     /* enum ag_made: whether the events are */
    bool impatient;           /* the oldest has been waited for in vain */
    bool waits;               /* the launch under way is to wait when it is done */
    uint64_t waited_at;       /* ops of the stream when a launch last waited; 0: none has */
    CUevent events[AG_AHEAD_EVENTS];
    uint32_t at[AG_AHEAD_EVENTS]; /* ops in front of them */
};

enum ag_deferring {
    AG_DEFERS_NOTHING,
    AG_DEFERS,        /* ops are held back */
    AG_DEFERS_HANDED, /* something is in the ring, or was; the stream holds back nothing else */
};

enum ag_not_understood {
    AG_LACKS_SETTINGS = 1, /* its launches inherit settings that a graph would not. For good */
    AG_BEHIND_WAITS = 2,   /* a per-thread default stream: some stream may wait for the program, and
                              what strayed from this one would wait there (core/wait.c) */
    AG_FORK_IS_OVER = 4,   /* the fork that it belongs to ends before its next op (core/branch.h) */
};

struct ag_stream {
    /* What a launch that is followed reads of it lies in its first three cache lines (current.h
     * says why). Threads that look at all streams read the first one alone, which launches do not
     * write. */
    _Alignas(128) struct ag_stream *next;
    CUstream handle; /* the legacy stream's is CU_STREAM_LEGACY, that of a per-thread default
                        stream names its thread and is none of the driver's; NULL: it is
                        parked. Changes when it is parked, and when the next stream goes on
                        with it. Written under its lock and the table's, as `serial`. What
                        the driver gets is ag_stream_handle() */
    _Atomic uintptr_t owner; /* the thread that launched last, or used it first; 0: nobody */
    _Atomic(struct ag_stream *) origin; /* of whom it is a branch, or NULL */
    struct ag_context *context;         /* constant, as the next three and `priority` */
    bool legacy;
    bool blocking;  /* implicitly ordered with the legacy stream */
    bool in_order;  /* with every stream of its context, see ag_streams_are_in_order() */
    uint8_t branch; /* which one it is */
    _Atomic uint32_t deferring;     /* enum ag_deferring, readable without the lock */
    _Atomic bool open;              /* counted in ag_open_streams; written under the lock */
    _Atomic bool forks;             /* it has branches of its own (fork.h) */
    _Atomic bool shared;            /* several threads have put something into it */
    _Atomic uint8_t not_understood; /* enum ag_not_understood: why all its ops are eager */
    _Atomic bool listed;            /* among the busy ones (streams.h); written under the ... */
    struct ag_stream *busy_next;    /* ... table's lock, as this */

    _Alignas(64) struct ag_lock lock;
    CUresult pending; /* under the lock: error of deferred work that has not been reported yet */
    struct ag_dormant dormant;
    struct ag_engine engine; /* under the lock. Closed: its context may be ending, or has ended */

    /* What the end of a chunk reads and writes besides lies side by side as well. Written under the
     * lock, if nothing else is said */
    _Atomic uint64_t deferrals;      /* how often deferring began */
    _Atomic(struct ag_ring *) ring;  /* what the submitter launches (submitter.h), or NULL; it stays
                                 with the memory of the stream */
    _Atomic uint32_t call_ns;        /* host time of an eager call, smoothed */
    _Atomic uint32_t usual_ns;       /* the same of most: what an op in a graph spares the host */
    _Atomic int handed_error;        /* what the driver said of them; CUresult */
    _Atomic uint32_t handed_eagerly; /* ops of those whose graph could not be launched */
    bool handed;                     /* the last chunk went into the ring */
    bool hands_ops; /* as far as is known the submitter makes it faster: it gets single ops */
    bool handed_op; /* the last eager op went into the ring */
    uint64_t handed_chunks;
    uint64_t asks_at;      /* when to ask again whether it does (core/wanted.h), ns */
    struct ag_doubt doubt; /* whether its graphs gain anything (core/weigh.h) */
    uint64_t ties;         /* event records and waits, and times that something strayed */
    /* ops that went by graphs, and what that took the program's threads: [1] handed over, [0] not
     */
    _Atomic int64_t graph_ops[2], graph_ns[2];
    _Atomic int64_t worth_ns; /* gain over calls of `call_ns`: how much building may cost */
    struct ag_pairs pairs;    /* whether the submitter makes it faster */
    struct ag_pairs without;  /* whether it is faster without graphs (weigh.h) */

    struct ag_stream *prev, *busy_prev;
    int priority;
    _Atomic uintptr_t thread; /* whose default stream it is, or 0; written as `handle` */
    bool ended; /* that thread has ended, and nobody knows yet; under the table's lock */
    _Atomic uint64_t serial;
    /* under the table's lock */
    uintptr_t key;                  /* the key under which it is found */
    uint64_t made;                  /* how many had been made before, and it */
    bool parked;                    /* it is in that list */
    _Atomic(CUevent) behind_parked; /* see parked.h; written under the stream's lock, NULL: none */

    uint64_t looked_calls; /* under its lock, as the next: what standing.c saw last */
    bool looked_ready;
    _Atomic uint32_t references; /* from lists; at 0 the memory may be reused */
    _Atomic bool waits;          /* for something outside the GPU, see waits.c */
    _Atomic bool due;            /* some of its records are due (fork.h) */
    _Atomic bool asked_for;      /* somebody has asked for an event of its fork (fork.h) */
    _Atomic bool in_driver;      /* the lock's holder is in the driver, for this stream */
    bool strays;                 /* in a visit under way; under its lock, see per_thread.h */

    /* under its lock */
    bool gone;              /* its handle has ended; a context that stays does not open it */
    _Atomic bool strayed;   /* see per_thread.h; written under the lock */
    CUevent behind_strayed; /* recorded behind that, or NULL */
    _Atomic(void *) green;  /* the green context it belongs to, or NULL */
    struct ag_fork *fork;   /* its own branches (fork.h), or NULL */
    uint64_t taken_at;      /* ops when another thread took over the fork */
    _Atomic(const struct ag_stream *) suitor; /* what it may become a branch of, or NULL; anybody
                                                 may write NULL */
    uint32_t suits;               /* times that it forked from that and joined it (core/branch.c) */
    bool forked;                  /* it has not joined it since */
    CUevent behind_wait;          /* recorded behind the last work that waits (waits.c), or NULL */
    struct ag_visit visit;        /* of a flush under way */
    bool flush_hands;             /* that goes into the ring */
    int quiet;                    /* records of late that nobody asked for (core/quiet.h) */
    uint64_t asked_at, asked_ops; /* ag_record.at, and the stream's ops, when somebody did */
    uint32_t asked;               /* single ops for which this was asked */
    uint32_t turns;               /* of the submitter and the program's thread, in tests */
    uint32_t passed;              /* ops while it was AG_BEHIND_WAITS */
    uint64_t singles;             /* ops that went into the ring by themselves */
    struct ag_wish wish;          /* when the policy last wished to rest */
    uint64_t flush_began;
    uint64_t fast_until; /* the watchdog may hurry until it has looked so many times */
    const void *place;   /* of the policy at its looks in that time, and since when, ns */
    uint64_t place_since;
    struct ag_twins *twins; /* request.c; NULL: no graph has been requested yet */
    struct ag_signature_cache signatures;
    struct ag_ranges device_memory, pinned_memory;
    uint64_t memory_epoch;      /* of both */
    _Atomic uint64_t build_ns;  /* time spent building graphs for this stream */
    int64_t lapsed_ns;          /* of that (policy/debt.h) */
    uint64_t update_ns;         /* spent in node updates since the last chunk was submitted */
    uint64_t told;              /* ops that compare.c has counted */
    _Atomic uint64_t noted;     /* records and waits that came as ops of its fork (fork.h), of these
                                   `done` and `num_due`. All three are readable without the lock */
    uint64_t only_awake;        /* records, waits and copies to the host: a dormant stream counts
                                   none of these */
    uint64_t of_branches;       /* other ops of its branches. These count them themselves while it
                                   is dormant */
    uint32_t whys[AG_NUM_WHYS]; /* sampled eager ops, by the reason why they were eager */
    uint64_t unrecorded; /* launches, fills and copies that came while it was awake and are no ops
                            of its policy, as no graph may hold them */
    _Atomic uint64_t collectives; /* among what it let pass while it was dormant */
    /* written by whoever has the lock and a ring at rest, or the ring's role */
    _Atomic uint64_t updates, launches;
    _Atomic uint64_t done;              /* the driver has got them, or a graph stands for them */
    _Atomic uint32_t num_due;           /* records that are due */
    _Alignas(64) struct ag_ahead ahead; /* how far its graphs are ahead of the GPU */

    struct ag_totals counted; /* as stats.c last read it, under stats.c's lock */

    struct ag_stream *chained; /* next in the same bucket; of those that are parked */
};

/* The next mean of host times. The first call of a kernel takes many times as long as the others,
 * and few calls are timed before its sequence goes as graphs. So a call counts as twice the mean at
 * most. */
static inline uint32_t ag_usual_ns(uint32_t mean, uint32_t ns)
{
    if (!mean)
        return ns;
    if (mean > 2 * ns)
        mean = 2 * ns;
    return (mean * 7 + (ns < 2 * mean ? ns : 2 * mean)) / 8;
}

/* An eager call took that long: one of the submitter's, or of the program's. */
static inline void ag_stream_call_usually_takes(struct ag_stream *s, uint64_t ns)
{
    if (ns >= AG_LONGEST_CALL_NS)
        return;
    uint32_t usual = atomic_load_explicit(&s->usual_ns, memory_order_relaxed);
    atomic_store_explicit(&s->usual_ns, ag_usual_ns(usual, (uint32_t)ns), memory_order_relaxed);
}
static inline void ag_stream_call_took(struct ag_stream *s, uint64_t ns)
{
    uint32_t mean = atomic_load_explicit(&s->call_ns, memory_order_relaxed);
    if (ns >= AG_LONGEST_CALL_NS)
        return;
    mean = mean ? (mean * 7 + (uint32_t)ns) / 8 : (uint32_t)ns;
    atomic_store_explicit(&s->call_ns, mean, memory_order_relaxed);
    ag_stream_call_usually_takes(s, ns);
}

__attribute__((cold)) uintptr_t ag_number_thread(void);
static inline uintptr_t ag_this_thread(void)
{
    return __builtin_expect(ag_thread.number != 0, 1) ? ag_thread.number : ag_number_thread();
}

/* The table of streams. */
extern struct ag_stream_table {
    struct ag_lock lock;            /* for all of it, and `next`, `prev`, `chained` of streams */
    struct ag_stream *newest;       /* the first of all, linked by `next` */
    struct ag_stream *busy;         /* the first of those that may not be idle, by `busy_next` */
    size_t count, parked, num_busy; /* of all; of those that are parked; in that list */
    uint64_t last_serial;
} ag_stream_table;

/* Finds the stream's state, or creates it. Returns NULL for a handle that the driver does not know,
 * for a per-thread default stream in a host function, and without memory. Takes no reference, see
 * above. */
struct ag_stream *ag_stream_get(CUstream handle, bool ptsz);
/* The same, but never creates it. */
struct ag_stream *ag_stream_find(CUstream handle, bool ptsz);
/* Whether the handle names the calling thread's own default stream. */
bool ag_stream_is_per_thread(CUstream handle, bool ptsz);

/* With CUDA_DEVICE_MAX_CONNECTIONS=1 the device has one queue of work, and starts it in the order
 * of the launches over all streams (CUDA C++ Programming Guide, environment variables). Programs
 * rely on that. */
bool ag_streams_are_in_order(void);

static inline bool ag_stream_is_own(const struct ag_stream *stream)
{
    return atomic_load_explicit(&stream->owner, memory_order_relaxed) == ag_this_thread();
}
/* Whether the calling thread may own a stream other than this one. */
static inline bool ag_owns_others(const struct ag_stream *stream)
{
    return ag_thread.owned > ag_stream_is_own(stream);
}

/* The stream's handle ends, and nothing of it is left: no op, no error, no fork, no wait; if it has
 * work on the GPU, ag_parked_begins() has said so. Its engine is parked. From here on the stream
 * is, too. Returns one that has been parked for longest if there are too many now, with a
 * reference: the caller closes and removes it. NULL: there are not. The caller holds the stream's
 * lock. */
struct ag_stream *ag_stream_park(struct ag_stream *stream);

/* What a new stream is. */
struct ag_stream_kind {
    CUstream handle;
    uintptr_t key, thread;
    struct ag_context *context; /* NULL: it has had no stream */
    int priority;
    bool legacy, blocking;
};
/* Of the parked streams with which one of that kind could go on, the one that was made first behind
 * `made` (0: first of all), or NULL. `kind` has a context. Under the table's lock. */
struct ag_stream *ag_stream_parked_behind(uint64_t made, const struct ag_stream_kind *kind);

/* Removes a stream that has ended from the table, and passes the table's reference to the caller.
 * False: another thread has done it. */
bool ag_stream_invalidate(struct ag_stream *stream);
/* Gives a reference back. */
void ag_stream_release(struct ag_stream *stream);

/* Call it under the stream's lock. */
static inline bool ag_stream_is_live(const struct ag_stream *s)
{
    return ag_engine_is_open(&s->engine);
}

/* Whoever makes the stream open, deferring or a fork calls it then, or barriers pass it by. A
 * stream stays listed until somebody who goes through the list finds it idle. So what makes it busy
 * is stored before `listed` is read here, and there `listed` is cleared before that is read once
 * more: one of the two sees the other (all four sequentially consistent). */
__attribute__((cold)) void ag_stream_list(struct ag_stream *s);
/* Takes it out of the list; `listed` is cleared. Under the table's lock. */
void ag_stream_unlist(struct ag_stream *s);
static inline void ag_stream_becomes_busy(struct ag_stream *s)
{
    if (__builtin_expect(!atomic_load(&s->listed), 0))
        ag_stream_list(s);
}

/* Counts the stream in ag_open_streams, or no longer. One that has strayed stays there, so that no
 * call passes it by. Call them under its lock. */
static inline void ag_stream_open(struct ag_stream *s)
{
    if (__builtin_expect(atomic_load_explicit(&s->open, memory_order_relaxed), 1))
        return;
    atomic_store(&s->open, true);
    atomic_fetch_add(&ag_open_streams, 1);
    ag_stream_becomes_busy(s);
}
static inline void ag_stream_close(struct ag_stream *s)
{
    if (!atomic_load_explicit(&s->open, memory_order_relaxed) || s->strayed)
        return;
    atomic_store_explicit(&s->open, false, memory_order_release);
    atomic_fetch_sub(&ag_open_streams, 1);
}

/* Ops that have come to the stream. Call it under the stream's lock. */
static inline uint64_t ag_stream_ops(const struct ag_stream *s)
{
    const struct ag_policy_counts *c = ag_policy_counts(ag_engine_policy(&s->engine));
    return c->ops + c->dormant - atomic_load_explicit(&s->dormant.left, memory_order_relaxed);
}

/* Of these, launches, fills and copies within the device. Whether a stream replays or is dormant,
 * it counts them alike, so they say how fast it gets on. */
static inline uint64_t ag_stream_launches(const struct ag_stream *s)
{
    return ag_stream_ops(s) + s->unrecorded - s->only_awake;
}

/* The counter of its context that says that it holds something back which goes before ops of other
 * streams. NULL: the legacy stream orders nothing with it. */
static inline _Atomic uint32_t *ag_stream_held(const struct ag_stream *s)
{
    return s->blocking ? &s->context->blocking_held : s->legacy ? &s->context->legacy_held : NULL;
}

/* The counter of its context that says that other streams hold back something that goes before ops
 * of this one. NULL: no single counter says it, or nothing goes before them. */
static inline const _Atomic uint32_t *ag_stream_held_before(const struct ag_stream *s)
{
    if (s->in_order)
        return NULL;
    return s->legacy ? &s->context->blocking_held : s->blocking ? &s->context->legacy_held : NULL;
}

/* Whether it is the calling thread's own default stream. */
static inline bool ag_stream_is_of_this_thread(const struct ag_stream *s)
{
    return s->thread && s->thread == ag_this_thread();
}

/* Whether `handle` names this stream, and the stream is alive. Also false for a per-thread default
 * stream that holds nothing back now. Call it under the stream's lock. */
static inline bool ag_stream_is(const struct ag_stream *s, CUstream handle)
{
    bool named = s->handle == (handle ? handle : CU_STREAM_LEGACY);
    if (__builtin_expect(!named, 0))
        named = handle == CU_STREAM_PER_THREAD && ag_stream_is_of_this_thread(s) &&
                !atomic_load(&s->not_understood);
    return named && ag_stream_is_live(s);
}

/* Whether nobody is launching what is in the stream's ring; whether all of it has been launched.
 * Neither needs a lock. */
static inline bool ag_stream_ring_is_free(const struct ag_stream *s)
{
    struct ag_ring *ring = atomic_load(&s->ring);
    return !ring || !ag_ring_is_busy(ring);
}
static inline bool ag_stream_ring_is_at_rest(const struct ag_stream *s)
{
    struct ag_ring *ring = atomic_load(&s->ring);
    return !ring || ag_ring_is_at_rest(ring);
}

/* Takes the stream's lock. If the lock's holder is in the driver, returns false instead. */
bool ag_stream_lock_if_prompt(struct ag_stream *stream);

/* Marks that the holder of the stream's lock is in the driver from here on. The stream's context
 * becomes current. The thread cannot be cancelled, as it would then keep the lock for ever. */
struct ag_visit ag_driver_enter(struct ag_stream *s);
void ag_driver_leave(struct ag_stream *s, struct ag_visit visit);

/* Finds what is kept for a context, or creates it; NULL without memory. The second function never
 * creates it. */
struct ag_context *ag_context_get(CUcontext handle);
struct ag_context *ag_context_find(CUcontext handle);
/* The first of all, linked by `next`. Needs no lock. */
struct ag_context *ag_contexts(void);

/* Call this once, before there are any streams. `hooks`: what happens to the policy's chunks.
 * `world`: what engines do. `comes` is called before a stream of that kind is created, and `made`
 * after it, without any lock. */
void ag_streams_start(const struct ag_policy_hooks *hooks, const struct ag_engine_world *world,
                      void (*comes)(const struct ag_stream_kind *kind),
                      void (*made)(struct ag_stream *stream));
