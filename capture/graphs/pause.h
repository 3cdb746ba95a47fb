/*
 * pause.h - when nothing is built: whoever is about to change or end what graphs hang on, and
 * whoever launches what may wait for the program, keeps the builder from its work.
 */
#ifndef AG_PAUSE_H
#define AG_PAUSE_H

#include "capture/system/lock.h"

/* Of the builder and of those who keep it waiting; under `mutex`. */
extern struct ag_pause {
    pthread_mutex_t mutex;
    pthread_cond_t work; /* something to do, or stop */
    pthread_cond_t idle; /* a build has ended */
    unsigned int paused; /* nothing is requested either */
    unsigned int held;   /* nothing new is begun */
    bool busy;           /* something is under way */
    bool barred;         /* the thread sleeps though there is something to do: paused, or held */
} ag_pause;

static inline void ag_pause_lock(void)
{
    ag_mutex_lock(&ag_pause.mutex, AG_RANK_PAUSE);
}
static inline void ag_pause_unlock(void)
{
    ag_mutex_unlock(&ag_pause.mutex);
}

/* Whether something may be begun. Under the mutex. */
bool ag_pause_permits(void);
/* What was under way has ended. Under the mutex. */
void ag_pause_rests(void);
/* Begins something in the calling thread. False: something is under way, or must not begin. */
bool ag_pause_enter(void);
void ag_pause_leave(void);

/* Ends ag_builder_pause(). */
void ag_pause_resume(void);
/* No build is under way, and none begins until the matching release. What is queued stays. */
void ag_pause_hold(void);
void ag_pause_release(void);
/* Something that kept the builder waiting (a capture of the program's) has ended, or there is
 * something to destroy. */
void ag_pause_wake(void);

#endif
