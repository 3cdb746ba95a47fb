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
#include "capture/system/hot.h"

static atomic_flag finished = ATOMIC_FLAG_INIT;
static pid_t watched;
static void (*end)(void);

_Alignas(64) _Atomic bool ag_process_has_ops AG_HOT; /* the first of these that is linked */

/* The exit of a forked child is not the exit of this process. A thread that has been cancelled goes
 * on: it would leave exit() in here, and the process would stay. */
static void at_exit(void)
{
    int cancel;
    if (getpid() != watched || atomic_flag_test_and_set(&finished))
        return;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    end();
    pthread_setcancelstate(cancel, NULL);
}

void ag_process_watch(void (*at_end)(void), void (*in_child)(void))
{
    static bool registered; /* under the lock of resolve.c; a child inherits the handlers */
    watched = getpid();
    if (registered)
        return;
    registered = true;
    end = at_end;
    pthread_atfork(NULL, NULL, in_child);
    atexit(at_exit);
}

void ag_process_first_op(void)
{
    if (!atomic_exchange(&ag_process_has_ops, true))
        atexit(at_exit);
}
