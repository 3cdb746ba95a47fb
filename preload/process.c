/*
 * process.c - fork and exit.
 *
 * Exit handlers run in the reverse order of their registration. The driver registers its own when
 * it is loaded or initialised, and cudart when a program's fat binaries are. Both have done so
 * before the first op. So a handler registered at the first op runs while the driver still works,
 * and after the handlers of everything that the program built later. The handler registered when
 * the driver was found is for programs that never submit an op.
 */
#include "preload/process.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "capture/capture.h"
#include "preload/exporttable.h"
#include "preload/resolve.h"
#include "preload/substitute.h"

static atomic_flag finished = ATOMIC_FLAG_INIT;
static pid_t watched;

_Atomic bool ag_process_has_ops;

static void finish(void)
{
    ag_core_finish();
    ag_export_tables_report();
}

/* The exit of a forked child is not the exit of this process. */
static void at_exit(void)
{
    if (getpid() != watched || atomic_flag_test_and_set(&finished))
        return;
    ag_resolve_finish();
    finish();
}

static void in_child(void)
{
    ag_substitute_after_fork();
    if (ag_resolve_after_fork())
        ag_core_after_fork_in_child();
}

void ag_process_watch(void)
{
    static bool registered; /* under the lock of resolve.c; a child inherits the handlers */
    watched = getpid();
    if (registered)
        return;
    registered = true;
    pthread_atfork(NULL, NULL, in_child);
    atexit(at_exit);
}

void ag_process_first_op(void)
{
    if (!atomic_exchange(&ag_process_has_ops, true))
        atexit(at_exit);
}
