/* thread.h - the library's own threads. */
#ifndef AG_THREAD_H
#define AG_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Starts a thread in which none of the program's signal handlers run, but for those of faults,
 * which belong to the thread that makes them. `name`: at most 15 characters. */
bool ag_thread_start(pthread_t *thread, const char *name, void *(*run)(void *));

/* Waits at most so long for `cond`, under the mutex; it may end sooner without a cause. */
void ag_thread_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, uint64_t ns);

#endif
