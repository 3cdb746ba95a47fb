/*
 * pause.h - stops the builder while a thread is about to change or end what graphs depend on, or
 * launches something that may wait for the program.
 */
#pragma once

#include "capture/system/lock.h"

/* State of the builder and of the threads that keep it waiting. Protected by `mutex`. */
extern struct ag_pause {
    pthread_mutex_t mutex;
    pthread_cond_t work; /* something to do, or stop */
    pthread_cond_t idle; /* a build has ended */
    unsigned int paused; /* nothing may be requested either */
    unsigned int held;   /* nothing new may begin */
    bool busy;           /* something is under way, in one thread */
    bool barred;         /* the builder sleeps despite work to do: it may not begin */
    int cancel;          /* as it was in the thread that has entered */
} ag_pause;

static inline void ag_pause_lock(void)
{
    ag_mutex_lock(&ag_pause.mutex, AG_RANK_PAUSE);
}
static inline void ag_pause_unlock(void)
{
    ag_mutex_unlock(&ag_pause.mutex);
}

/* Whether something may begin: nothing else is under way, and nobody keeps it from beginning. The
 * caller holds the mutex. */
bool ag_pause_permits(void);
/* Marks that what was under way has ended. The caller holds the mutex. */
void ag_pause_rests(void);
/* Begins something in the calling thread. False: something is under way, or nothing may begin. The
 * thread cannot be cancelled until it leaves, as others wait for that. */
bool ag_pause_enter(void);
/* The same for a caller that holds the mutex and has asked whether it may. */
void ag_pause_begin(void);
void ag_pause_leave(void);

/* Ends ag_builder_pause(). */
void ag_pause_resume(void);
/* Waits until no build is under way. None begins until the matching release. Queued
 * requests stay. */
void ag_pause_hold(void);
void ag_pause_release(void);
/* Call it when something that kept the builder waiting has ended (a capture of the program's), or
 * when there is something to destroy. */
void ag_pause_wake(void);
