/* thread.h - the library's own threads. */
#ifndef AG_THREAD_H
#define AG_THREAD_H

#include <pthread.h>
#include <stdbool.h>

/* Starts a thread in which none of the program's signal handlers run, but for those of faults,
 * which belong to the thread that makes them. `name`: at most 15 characters. */
bool ag_thread_start(pthread_t *thread, const char *name, void *(*run)(void *));

#endif
