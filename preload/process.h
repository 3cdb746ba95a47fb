/* process.h - fork and exit. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

/* Has `at_end` called once at the exit of this process, and `in_child` in the child of each fork.
 * Called once the driver has been found, because fork and exit matter from then on, and in each
 * process in which the library starts. Nothing is done at the exit of a child in which it never
 * started. The functions are the same each time. */
void ag_process_watch(void (*at_end)(void), void (*in_child)(void));

/* Called at every op. The first call makes sure that the last flush comes before the driver's own
 * teardown. */
extern _Atomic bool ag_process_has_ops;
void ag_process_first_op(void);
static inline void ag_process_op(void)
{
    if (__builtin_expect(!atomic_load_explicit(&ag_process_has_ops, memory_order_relaxed), 0))
        ag_process_first_op();
}
