/* lock.c - the slow path of lock.h. */
#include "capture/lock.h"
#include <stddef.h>
#include <time.h>

__thread uint32_t ag_locks_held __attribute__((tls_model("initial-exec")));

enum { SPINS = 100 };

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

void ag_lock_contended(struct ag_lock *lock)
{
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&lock->state, memory_order_relaxed) == 0 && ag_take_lock(lock))
            return;
        relax();
    }
    while (atomic_exchange_explicit(&lock->state, 2, memory_order_acquire) != 0)
        syscall(SYS_futex, &lock->state, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
}

void ag_lock_wait(struct ag_lock *lock)
{
    const struct timespec most = {.tv_nsec = 50000};
    uint32_t held = 1;
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&lock->state, memory_order_relaxed) == 0)
            return;
        relax();
    }
    /* whoever unlocks it wakes one that waits, so the word has to say that there is one */
    if (atomic_compare_exchange_strong(&lock->state, &held, 2) || held == 2)
        syscall(SYS_futex, &lock->state, FUTEX_WAIT_PRIVATE, 2, &most, NULL, 0);
}
