/* process.h - fork and exit. */
#ifndef AG_PROCESS_H
#define AG_PROCESS_H

#include <stdatomic.h>
#include <stdbool.h>

/* Called once the driver has been found, because fork and exit matter from then on, and in each
 * process in which the library starts. Nothing is done at the exit of a child in which it never
 * started. */
void ag_process_watch(void);

/* Called at every op. The first call makes sure that the last flush comes before the driver's own
 * teardown. */
extern _Atomic bool ag_process_has_ops;
void ag_process_first_op(void);
static inline void ag_process_op(void)
{
    if (__builtin_expect(!atomic_load_explicit(&ag_process_has_ops, memory_order_relaxed), 0))
        ag_process_first_op();
}

#endif
