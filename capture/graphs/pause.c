/* pause.c - see pause.h. */
#include "capture/graphs/pause.h"
#include "capture/tracking/state.h"

struct ag_pause ag_pause = {.mutex = PTHREAD_MUTEX_INITIALIZER,
                            .work = PTHREAD_COND_INITIALIZER,
                            .idle = PTHREAD_COND_INITIALIZER};

bool ag_pause_permits(void)
{
    return !ag_pause.busy && !ag_pause.paused && !ag_pause.held && !ag_state_captures();
}

void ag_pause_rests(void)
{
    ag_pause.busy = false;
    pthread_cond_broadcast(&ag_pause.idle);
    if (ag_pause.barred)
        pthread_cond_signal(&ag_pause.work);
}

void ag_pause_begin(void)
{
    ag_pause.busy = true;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &ag_pause.cancel);
}

bool ag_pause_enter(void)
{
    ag_pause_lock();
    bool entered = ag_pause_permits();
    if (entered)
        ag_pause_begin();
    ag_pause_unlock();
    return entered;
}

void ag_pause_leave(void)
{
    ag_pause_lock();
    int cancel = ag_pause.cancel;
    ag_pause_rests();
    ag_pause_unlock();
    pthread_setcancelstate(cancel, NULL);
}

void ag_pause_wake(void)
{
    ag_pause_lock();
    pthread_cond_signal(&ag_pause.work);
    ag_pause_unlock();
}

void ag_pause_hold(void)
{
    ag_pause_lock();
    ag_pause.held++;
    while (ag_pause.busy)
        ag_mutex_wait(&ag_pause.idle, &ag_pause.mutex);
    ag_pause_unlock();
}

/* Wakes the thread only if it has something to do. This function runs after each host function,
 * among others, and an idle wake-up is a system call of 8 us (measured on a virtual machine). */
void ag_pause_release(void)
{
    ag_pause_lock();
    ag_pause.held--;
    if (ag_pause.barred)
        pthread_cond_signal(&ag_pause.work);
    ag_pause_unlock();
}

void ag_pause_resume(void)
{
    ag_pause_lock();
    ag_pause.paused--;
    if (ag_pause.barred)
        pthread_cond_signal(&ag_pause.work);
    ag_pause_unlock();
}
