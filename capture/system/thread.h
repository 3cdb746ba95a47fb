/* thread.h - the library's own threads. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Records which processors the process may use, and its quota, and counts them. Call it before the
 * program pins its threads. It reads files. */
void ag_thread_look(void);
/* Whether the calling thread may keep all others from running: it is real-time, on the only
 * processor. */
bool ag_thread_starves_others(void);
/* Whether the calling thread is not a real-time one. */
bool ag_thread_is_ordinary(void);
/* Whether the process may take a processor for one thread: when the library last counted them, it
 * had two at least, by mask and by quota. */
bool ag_thread_may_spin(void);
/* Counts them again by the mask, which may change while the program runs. The calling thread is the
 * library's own, whose mask the program does not change. It opens no file: the program may have
 * given up the right to do so, or may be closing all files. */
void ag_thread_count_processors(void);

/* Starts a thread in which none of the program's signal handlers run, except those for faults,
 * which always run in the thread that causes the fault. `name`: at most 15 characters. */
bool ag_thread_start(pthread_t *thread, const char *name, void *(*run)(void *));

/* Waits up to a second for the thread to end. The thread may be in the driver, behind another
 * thread's launch that waits there, and a process that is ending must not wait for that. */
void ag_thread_join(pthread_t thread);

/* Waits for `cond` for at most `ns`, with the mutex held. It may return early for no reason. */
void ag_thread_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, uint64_t ns);

/* Between two looks at a word that another thread will change: the processor may rest. */
static inline void ag_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}
