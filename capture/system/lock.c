/* lock.c - the slow path of lock.h, and the order of locks. */
#include "capture/system/lock.h"
#include "capture/system/thread.h"
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { SPINS = 100 };

void ag_lock_contended(struct ag_lock *lock)
{
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&lock->state, memory_order_relaxed) == 0 && ag_take_lock(lock))
            return;
        ag_relax();
    }
    while (atomic_exchange_explicit(&lock->state, 2, memory_order_acquire) != 0)
        syscall(SYS_futex, &lock->state, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
}

void ag_lock_wake(struct ag_lock *lock)
{
    syscall(SYS_futex, &lock->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* Waits until the lock may be free, at most 50 us. Returns whether it slept. */
static bool wait_briefly(struct ag_lock *lock)
{
    const struct timespec most = {.tv_nsec = 50000};
    uint32_t held = 1;
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&lock->state, memory_order_relaxed) == 0)
            return false;
        ag_relax();
    }
    /* unlocking wakes a waiter, so the word has to say that there is one */
    if (!atomic_compare_exchange_strong(&lock->state, &held, 2) && held != 2)
        return false;
    syscall(SYS_futex, &lock->state, FUTEX_WAIT_PRIVATE, 2, &most, NULL, 0);
    return true;
}

/* Goes on without the lock. The thread may have been woken in place of another waiter, so either
 * the lock's holder must wake that one, or this function does. */
static void hand_on(struct ag_lock *lock)
{
    uint32_t held = 1;
    if (!atomic_compare_exchange_strong(&lock->state, &held, 2) && held == 0)
        syscall(SYS_futex, &lock->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void ag_mutex_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
    int cancel;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    pthread_cond_wait(cond, mutex);
    pthread_setcancelstate(cancel, NULL);
}

void ag_sleep_ns(uint32_t ns)
{
    const struct timespec rest = {.tv_nsec = ns};
    syscall(SYS_nanosleep, &rest, NULL);
}

bool ag_lock_unless(struct ag_lock *lock, enum ag_rank rank, const _Atomic bool *gives_up)
{
    bool slept = false;
    /* first: a handler that ends the process may come between any two of these */
    ag_thread.locks_held++;
    for (;;) {
        /* after a sleep: others may still sleep, and unlocking wakes them only if the word says so
         */
        uint32_t expected = 0;
        if (slept ? atomic_compare_exchange_strong_explicit(
                        &lock->state, &expected, 2, memory_order_acquire, memory_order_relaxed)
                  : ag_take_lock(lock)) {
            ag_rank_take(lock, rank);
            return true;
        }
        if (atomic_load_explicit(gives_up, memory_order_acquire))
            break;
        slept |= wait_briefly(lock);
    }
    if (slept)
        hand_on(lock);
    ag_thread.locks_held--;
    return false;
}

#ifndef NDEBUG
enum { MOST_HELD = 16 };

/* The locks that this thread holds, in the order in which it took them, which is the order of
 * ranks. */
static __thread struct {
    const void *lock;
    enum ag_rank rank;
} held[MOST_HELD];
static __thread unsigned int num_held;

void ag_rank_take(const void *lock, enum ag_rank rank)
{
    if (num_held == MOST_HELD || (num_held && held[num_held - 1].rank >= rank)) {
        fprintf(stderr, "autograph: lock %d is taken under lock %d (enum ag_rank)\n", (int)rank,
                num_held ? (int)held[num_held - 1].rank : -1);
        abort();
    }
    held[num_held].lock = lock;
    held[num_held++].rank = rank;
}

void ag_rank_give(const void *lock)
{
    unsigned int i = num_held;
    while (i && held[i - 1].lock != lock)
        i--;
    if (!i) /* taken before a fork */
        return;
    for (; i < num_held; i++)
        held[i - 1] = held[i];
    num_held--;
}
#endif
