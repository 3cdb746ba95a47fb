/*
 * lock.h - a lock of four bytes for state that is nearly always touched by one thread: one atomic
 * exchange to take it and one to release it, a futex only where two threads meet. (U. Drepper,
 * "Futexes Are Tricky", the second mutex.)
 */
#ifndef AG_LOCK_H
#define AG_LOCK_H

#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

struct ag_lock {
    _Atomic uint32_t state; /* 0 free, 1 held, 2 held and waited for */
};

/* Locks of the library that this thread holds, mutexes included: a handler of the program's may
 * interrupt it there and end the process (lifecycle.c). */
extern __thread uint32_t ag_locks_held __attribute__((tls_model("initial-exec")));

void ag_lock_contended(struct ag_lock *lock);
/* Takes the lock, unless its holder sets `gives_up`: false then. */
bool ag_lock_unless(struct ag_lock *lock, const _Atomic bool *gives_up);

static inline bool ag_take_lock(struct ag_lock *lock)
{
    uint32_t expected = 0;
    return atomic_compare_exchange_strong_explicit(&lock->state, &expected, 1, memory_order_acquire,
                                                   memory_order_relaxed);
}

static inline void ag_lock(struct ag_lock *lock)
{
    ag_locks_held++;
    if (__builtin_expect(!ag_take_lock(lock), 0))
        ag_lock_contended(lock);
}

static inline void ag_unlock(struct ag_lock *lock)
{
    if (__builtin_expect(atomic_exchange_explicit(&lock->state, 0, memory_order_release) == 2, 0))
        syscall(SYS_futex, &lock->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    ag_locks_held--;
}

static inline void ag_mutex_lock(pthread_mutex_t *mutex)
{
    ag_locks_held++;
    pthread_mutex_lock(mutex);
}

static inline void ag_mutex_unlock(pthread_mutex_t *mutex)
{
    pthread_mutex_unlock(mutex);
    ag_locks_held--;
}

#endif
