/*
 * lock.h - a lock of four bytes for state that only one thread touches nearly all the time. Taking
 * it is one atomic exchange, and releasing it is another; it uses a futex only if two threads
 * meet. (U. Drepper, "Futexes Are Tricky", the second mutex.)
 */
#pragma once

#include "capture/system/current.h"
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

struct ag_lock {
    _Atomic uint32_t state; /* 0 free, 1 held, 2 held and somebody waits */
};

/*
 * Every lock of the library, in the order in which a thread may take them. A thread that holds a
 * lock may only take locks with a higher number, and never a second one with the same number.
 * Builds without NDEBUG assert this (a Debug build, as the tests under AddressSanitizer are); in
 * other builds the numbers cost nothing. The loader's lock is outside this order: under it link.c
 * takes AG_RANK_POOL alone.
 */
enum ag_rank {
    /* Of preload/. Their holders call capture/. */
    AG_RANK_START,  /* resolve.c: starting capture/, which takes any of the others */
    AG_RANK_TABLES, /* exporttable.c: the copies of export tables */
    /* Held across whole calls of the program. The holder flushes streams and pauses the builder. */
    AG_RANK_PRIMARY,  /* primary.c: how often a device's primary context is retained */
    AG_RANK_SHORTAGE, /* shortage.c: one thread gives graphs back */
    AG_RANK_CAPTURES, /* captures.c: the program's captures, and leaving that state */
    /* Readers. They take streams' locks in turn, each only if its holder is not in the driver. */
    AG_RANK_COMPARE, /* compare.c: the thread's state and the pairs */
    AG_RANK_LIVE,    /* live.c: writing the page */
    /* A stream's lock: covers what struct ag_stream says. Held across driver calls
     * that submit the stream's deferred work, and in inline mode across building a graph. */
    AG_RANK_STREAM,
    /* No lock, but a word: only its holder takes chunks out of a stream's ring (policy/ring.h).
     * Held across driver calls that submit those chunks, with the stream's lock or, by the
     * submitter, without it. Whoever waits for it holds that lock. */
    AG_RANK_ROLE,
    AG_RANK_STREAMS,     /* stream.c: the table. Its holder may allocate, and calls nothing else */
    AG_RANK_IDLE_STREAM, /* a stream's, before and after others can find the stream */
    /* Taken under a stream's lock. Only the first four are held across driver calls; those calls
     * destroy graphs, query and load, and submit nothing. */
    AG_RANK_COLLECT,     /* budget.c: one thread at a time destroys graphs */
    AG_RANK_SIGNATURES,  /* signature.c: signatures, functions, their settings */
    AG_RANK_OWN_KERNELS, /* ownkernels.c: the list of loaded ones */
    AG_RANK_WAITS,       /* waits.c: waits of streams without a struct ag_stream */
    AG_RANK_WATCHDOG,    /* watchdog.c: starting and stopping the thread */
    AG_RANK_SUBMITTER,   /* submitter.c: the list of rings, and starting the thread */
    AG_RANK_MEMORY,      /* memory.c: whoever frees waits for a build under way */
    AG_RANK_PAUSE,       /* pause.h: the builder's queue, and who pauses the builder */
    AG_RANK_BUDGET,      /* budget.c: what was dropped, and who shares graphs */
    AG_RANK_BROKEN,      /* broken.c: which contexts are lost, and that the state says so */
    /* Their holders may allocate, and take no other lock. */
    AG_RANK_STATE,         /* state.c: the two words together */
    AG_RANK_HOST_MEMORY,   /* hostmemory.c: the ranges */
    AG_RANK_EVENTS,        /* event.c: the table of events */
    AG_RANK_STATS,         /* stats.c: figures of streams that are gone */
    AG_RANK_SIGNATURE_IDS, /* trace.c: defining a signature */
    AG_RANK_TEXTS,         /* trace_define.c: the texts */
    AG_RANK_SITES,         /* trace_site.c */
    AG_RANK_RINGS,         /* trace_ring.c: making rings, and the writer's thread */
    AG_RANK_DEFINITIONS,   /* trace_define.c: what waits for the writer */
    AG_RANK_POOL,          /* preload/substitute.c: stubs for functions that nobody knows */
};

#ifdef NDEBUG
static inline void ag_rank_take(const void *lock, enum ag_rank rank)
{
    (void)lock;
    (void)rank;
}
static inline void ag_rank_give(const void *lock)
{
    (void)lock;
}
#else
/* Ends the process if the thread must not take this lock now. */
void ag_rank_take(const void *lock, enum ag_rank rank);
void ag_rank_give(const void *lock);
#endif

__attribute__((cold)) void ag_lock_contended(struct ag_lock *lock);
__attribute__((cold)) void ag_lock_wake(struct ag_lock *lock);
/* Takes the lock. If the holder sets `gives_up`, returns false instead. */
bool ag_lock_unless(struct ag_lock *lock, enum ag_rank rank, const _Atomic bool *gives_up);

static inline bool ag_take_lock(struct ag_lock *lock)
{
    uint32_t expected = 0;
    return atomic_compare_exchange_strong_explicit(&lock->state, &expected, 1, memory_order_acquire,
                                                   memory_order_relaxed);
}

static inline void ag_lock(struct ag_lock *lock, enum ag_rank rank)
{
    ag_rank_take(lock, rank);
    ag_thread.locks_held++;
    if (__builtin_expect(!ag_take_lock(lock), 0))
        ag_lock_contended(lock);
}

static inline void ag_unlock(struct ag_lock *lock)
{
    ag_rank_give(lock);
    if (__builtin_expect(atomic_exchange_explicit(&lock->state, 0, memory_order_release) == 2, 0))
        ag_lock_wake(lock);
    ag_thread.locks_held--;
}

static inline void ag_mutex_lock(pthread_mutex_t *mutex, enum ag_rank rank)
{
    ag_rank_take(mutex, rank);
    ag_thread.locks_held++;
    pthread_mutex_lock(mutex);
}

static inline void ag_mutex_unlock(pthread_mutex_t *mutex)
{
    ag_rank_give(mutex);
    pthread_mutex_unlock(mutex);
    ag_thread.locks_held--;
}

/* Waits for `cond`. A program's thread that is cancelled meanwhile goes on until it has left the
 * library: it would keep the mutex, and others would wait for what it began. */
void ag_mutex_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);
/* Under a second; not a cancellation point either. */
void ag_sleep_ns(uint32_t ns);
