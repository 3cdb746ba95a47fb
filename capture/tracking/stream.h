/*
 * stream.h - what is kept per stream, and how a stream is found.
 *
 * Every stream of every context that is launched to gets a struct ag_stream. The legacy default
 * stream has one per context. The per-thread default stream has none: its handle means another
 * stream in another thread, so that nobody else could flush it; work for it is submitted at once.
 *
 * Staged ops: arguments of the ops of the chunk that is being followed, in order. The first
 * `num_deferred` of them have not been submitted. Both counts are 0 between chunks.
 *
 * Locking: `lock` covers everything below it. It is held across driver calls that submit this
 * stream's deferred work (whoever comes next must come behind that work), never across eager
 * launches, and no second stream's lock is ever taken under it. Such a call may wait for room in a
 * full queue, so calls that never wait take the lock by ag_stream_lock_if_prompt() alone.
 *
 * Life: threads find streams without taking a reference, and another thread may end the context at
 * that moment. So the memory of a struct ag_stream stays one for ever: what is left of a stream
 * that has gone (AG_STREAM_DEAD) is used again for the next one, that of a legacy stream for the
 * same context. Who has taken the lock looks at `life` and `handle` before the stream's own state
 * means anything. A struct ag_context lives as long as the process.
 */
#ifndef AG_STREAM_H
#define AG_STREAM_H

#include "capture/system/lock.h"
#include "capture/tracking/dormant.h"
#include "capture/tracking/signature.h"
#include "driver/own.h"

struct ag_context {
    CUcontext handle;
    _Atomic bool broken;          /* an error has ended it, and it was not destroyed yet */
    _Atomic uint64_t host_calls;  /* hostfunction.c */
    struct ag_stream *old_legacy; /* what is left of the legacy stream of one that has ended */
    _Atomic(struct ag_stream *) legacy;  /* of this context, NULL if never used */
    _Atomic uint32_t blocking_deferring; /* blocking streams with ops deferred */
    struct ag_context *next;
};

enum ag_stream_life {
    AG_STREAM_LIVE,
    AG_STREAM_CLOSING, /* its context may be ending: everything is submitted at once, by who
                          launches */
    AG_STREAM_DEAD,
};

/* An allocation that was looked up, see memory.c. */
enum { AG_RANGES = 8 };
struct ag_range {
    CUdeviceptr start;
    size_t size;
};

/* What streams have seen, added up. */
struct ag_totals {
    uint64_t ops, replayed, covered, flushed, eager, dormant, updates, graph_launches;
    uint64_t mismatches, switches, resyncs, periods, sequences, evicted;
    uint64_t whys[AG_NUM_WHYS]; /* samples of eager ops: why they were */
    int64_t gained_ns;
};

struct ag_recorded {
    const struct ag_signature *signature;
    uint32_t offset; /* of its arguments in the recorded bytes */
};

struct ag_stream {
    /* constant */
    CUstream handle; /* never NULL: the legacy stream is CU_STREAM_LEGACY */
    struct ag_context *context;
    uintptr_t key; /* what it is found by */
    uint64_t serial;
    int priority;
    bool legacy;
    bool blocking; /* implicitly ordered with the legacy stream */

    _Atomic bool not_understood; /* launches into it inherit what a graph would not: all is eager */
    _Atomic uint32_t references; /* of lists; 0: what is left may be used again */
    _Atomic bool waits;          /* for more than the GPU, see waits.c */
    struct ag_dormant dormant;
    _Atomic uint32_t deferring; /* whether ops are deferred, readable without the lock */
    _Atomic uint64_t deferrals; /* times that deferring began */
    _Atomic uint32_t call_ns;   /* what an eager call takes on the host, smoothed */
    _Atomic uintptr_t owner;    /* thread that launched last */

    struct ag_lock lock;
    _Atomic bool in_driver; /* the holder of the lock is there, for this stream */
    uint8_t life;           /* enum ag_stream_life */
    void *green;            /* the green context that it belongs to, or NULL */
    bool open;              /* counted in ag_open_streams */
    CUevent behind_wait;    /* recorded behind the last such work, NULL if there was none */
    CUresult pending;       /* error of deferred work, not reported yet */
    struct ag_policy policy;
    struct ag_recorded *recorded;
    uint32_t num_recorded, num_deferred, max_recorded;
    uint8_t *bytes; /* recorded arguments */
    uint32_t num_bytes, max_bytes;
    struct ag_twins *twins; /* twin.h; NULL: no graph was asked for yet */
    struct ag_signature_cache signatures;
    struct ag_range ranges[AG_RANGES];
    uint32_t num_ranges;
    uint64_t ranges_epoch;
    int64_t gained_ns;          /* by replaying instead of launching, as measured */
    _Atomic uint64_t build_ns;  /* that building graphs for this stream has taken */
    uint64_t update_ns;         /* spent in node updates since the last chunk was submitted */
    uint64_t told;              /* ops that compare.c knows of */
    uint32_t whys[AG_NUM_WHYS]; /* of those eager ops that were looked at: why they were */
    uint64_t eager_ops, flushed_ops, covered_ops, replayed_ops, updates, launches;

    struct ag_totals counted; /* as stats.c saw it last, under its lock */

    struct ag_stream *next, *prev;
    struct ag_stream *chained; /* of the same bucket */
};

/* The calling thread: a number that no other thread had, 0 until it is wanted, and of how many
 * streams it has become the owner, those that others have taken from it since included. */
struct ag_thread {
    uintptr_t number;
    uint32_t owned;
};
extern __thread struct ag_thread ag_thread __attribute__((tls_model("initial-exec")));
uintptr_t ag_number_thread(void);
static inline uintptr_t ag_this_thread(void)
{
    return __builtin_expect(ag_thread.number != 0, 1) ? ag_thread.number : ag_number_thread();
}

/* The stream's state, made if it is new; NULL for the per-thread default stream, for a handle that
 * the driver does not know, and where there is no memory. No reference is taken, see above. */
struct ag_stream *ag_stream_get(CUstream handle, bool ptsz);
/* The same, but never made. */
struct ag_stream *ag_stream_find(CUstream handle, bool ptsz);
/* Whether the handle names the calling thread's own default stream. */
bool ag_stream_is_per_thread(CUstream handle, bool ptsz);

/* The stream sleeps, as its policy wishes: `ops` launches pass unseen. And it is awake again. Under
 * its lock, with nothing deferred. */
void ag_stream_goes_dormant(struct ag_stream *stream, uint32_t ops);
void ag_stream_leaves_dormant(struct ag_stream *stream);
/* Lets this thread's next launches on a sleeping stream pass by ag_dormant_passes(), if they may.
 */
void ag_stream_remember_dormant(struct ag_stream *stream, CUstream handle);

/* All streams, each with a reference, in a list that ag_streams_release() frees. */
struct ag_stream **ag_streams_snapshot(size_t *n);
/* The same of the calling thread's own streams, and if `deferring` of those of other threads that
 * hold ops back. What other streams there are costs a look at each, no reference. */
struct ag_stream **ag_streams_concerned(bool deferring, size_t *n);
static inline bool ag_stream_is_own(const struct ag_stream *stream)
{
    return atomic_load_explicit(&stream->owner, memory_order_relaxed) == ag_this_thread();
}
/* Whether the calling thread may own a stream other than this one. */
static inline bool ag_owns_others(const struct ag_stream *stream)
{
    return ag_thread.owned > ag_stream_is_own(stream);
}
void ag_streams_release(struct ag_stream **streams, size_t n);

/* Takes the stream, which is dead, out of the table. */
void ag_stream_invalidate(struct ag_stream *stream);

/* Under its lock. */
static inline bool ag_stream_is_live(const struct ag_stream *s)
{
    return s->life == AG_STREAM_LIVE;
}

/* Whether `handle` names this stream, and it is alive. Under its lock. */
static inline bool ag_stream_is(const struct ag_stream *s, CUstream handle)
{
    return s->handle == (handle ? handle : CU_STREAM_LEGACY) && ag_stream_is_live(s);
}

/* Takes the stream's lock, unless its holder is in the driver: false then. */
bool ag_stream_lock_if_prompt(struct ag_stream *stream);

/* The holder of the stream's lock is in the driver from here on: the stream's context is current,
 * and the thread cannot be cancelled, as it would keep the lock. */
struct ag_visit {
    bool entered;
    int cancel;
};
struct ag_visit ag_driver_enter(struct ag_stream *s);
void ag_driver_leave(struct ag_stream *s, struct ag_visit visit);

/* What is kept of a context, made if it is new; NULL without memory. The same, but never made. */
struct ag_context *ag_context_get(CUcontext handle);
struct ag_context *ag_context_find(CUcontext handle);
/* Calls `act` with each, without a lock. */
void ag_contexts_each(void (*act)(struct ag_context *context, void *data), void *data);

/* Once, before there is any: what becomes of the policy's chunks, and what is called behind the
 * making of a stream, without any lock. */
void ag_streams_start(const struct ag_policy_hooks *hooks, void (*made)(struct ag_stream *stream));

#endif
