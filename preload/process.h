/* process.h - fork and exit. */
#ifndef AG_PROCESS_H
#define AG_PROCESS_H

#include <stdatomic.h>
#include <stdbool.h>

/* Called when the driver has been found, from when on fork and exit matter, and in each process
 * that starts: the end of a child that never did is nobody's. */
void ag_process_watch(void);

/* Called at every op; the first one puts the last flush in front of the driver's own teardown. */
extern _Atomic bool ag_process_has_ops;
void ag_process_first_op(void);
static inline void ag_process_op(void)
{
    if (__builtin_expect(!atomic_load_explicit(&ag_process_has_ops, memory_order_relaxed), 0))
        ag_process_first_op();
}

#endif
