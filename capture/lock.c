/* lock.c - the slow path of lock.h. */
#include "capture/lock.h"
#include <stddef.h>

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
        uint32_t expected = 0;
        if (atomic_load_explicit(&lock->state, memory_order_relaxed) == 0 &&
            atomic_compare_exchange_strong_explicit(&lock->state, &expected, 1,
                                                    memory_order_acquire, memory_order_relaxed))
            return;
        relax();
    }
    while (atomic_exchange_explicit(&lock->state, 2, memory_order_acquire) != 0)
        syscall(SYS_futex, &lock->state, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
}
