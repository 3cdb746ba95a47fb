/*
 * lock.h - a lock of four bytes for state that is nearly always touched by one thread: one atomic
 * exchange to take it and one to release it, a futex only where two threads meet. (U. Drepper,
 * "Futexes Are Tricky", the second mutex.)
 */
#ifndef AG_LOCK_H
#define AG_LOCK_H

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

struct ag_lock {
    _Atomic uint32_t state; /* 0 free, 1 held, 2 held and waited for */
};

void ag_lock_contended(struct ag_lock *lock);

static inline void ag_lock(struct ag_lock *lock)
{
    uint32_t expected = 0;
    if (__builtin_expect(!atomic_compare_exchange_strong_explicit(&lock->state, &expected, 1,
                                                                  memory_order_acquire,
                                                                  memory_order_relaxed),
                         0))
        ag_lock_contended(lock);
}

static inline void ag_unlock(struct ag_lock *lock)
{
    if (__builtin_expect(atomic_exchange_explicit(&lock->state, 0, memory_order_release) == 2, 0))
        syscall(SYS_futex, &lock->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

#endif
