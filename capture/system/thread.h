/* thread.h - the library's own threads. */
#ifndef AG_THREAD_H
#define AG_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Remembers which processors the process has: before the program pins its threads. */
void ag_thread_look(void);
/* Whether the calling thread may keep all others from running: real-time, on the only processor. */
bool ag_thread_starves_others(void);

/* Starts a thread in which none of the program's signal handlers run, but for those of faults,
 * which belong to the thread that makes them. `name`: at most 15 characters. */
bool ag_thread_start(pthread_t *thread, const char *name, void *(*run)(void *));

/* Waits for the thread's end, for a second: it may be in the driver, behind a launch of another
 * thread's that waits there, and a process that ends does not wait for that. */
void ag_thread_join(pthread_t thread);

/* Waits at most so long for `cond`, under the mutex; it may end sooner without a cause. */
void ag_thread_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, uint64_t ns);

#endif
