/* late.c - threads that are late, or stuck, in their calls: by SIMCUDA_LATE or cuSimHold. A thread
 * is known by its name, so a test can mean one of a library's below it. */
#include "sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

enum { NAME = 16 }; /* as the system keeps it */

static char late[NAME]; /* constant once read */
static unsigned int most_us;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of what follows */
static pthread_cond_t released = PTHREAD_COND_INITIALIZER;
static char held[NAME];
static enum sim_symbol held_symbol;
static bool held_behind;
static unsigned int passing;         /* calls that pass before one is held */
static unsigned int holds;           /* calls of cuSimHold: each lets go what the one before held */
static _Atomic unsigned int waiting; /* calls that are held */

/* Whether the calling thread's name begins so. */
static bool is_called(const char *beginning)
{
    char name[NAME] = "";
    return *beginning && !prctl(PR_GET_NAME, name) && !strncmp(name, beginning, strlen(beginning));
}

/* A thread of a library's may begin with its capture mode, before it has anything to do. */
static bool is_any(enum sim_symbol symbol)
{
    return held_symbol == SIM_SYMBOL_COUNT && symbol != SIM_cuThreadExchangeStreamCaptureMode;
}

static void hold(enum sim_symbol symbol, bool behind)
{
    pthread_mutex_lock(&lock);
    if (held_behind == behind && (is_any(symbol) || held_symbol == symbol) && is_called(held) &&
        !(passing && passing--)) {
        atomic_fetch_add(&waiting, 1);
        for (unsigned int now = holds; holds == now;)
            pthread_cond_wait(&released, &lock);
        atomic_fetch_sub(&waiting, 1);
    }
    pthread_mutex_unlock(&lock);
}

/* On either side of what a call does, one time in eight. */
static void be_late(void)
{
    static _Thread_local uint64_t random = 1;
    random = random * 6364136223846793005u + 1442695040888963407u;
    if (most_us && random >> 61 == 0 && is_called(late)) {
        struct timespec t = {.tv_nsec = (long)((random >> 32) % (most_us * 1000u))};
        nanosleep(&t, NULL);
    }
}

void sim_late(enum sim_symbol symbol, bool behind)
{
    be_late();
    hold(symbol, behind);
}

SIM_EXPORT int cuSimHold(const char *thread, const char *symbol, unsigned int nth, int behind)
{
    int i = symbol ? sim_symbol_find(symbol) : SIM_SYMBOL_COUNT;
    if (i < 0)
        return -1;
    pthread_mutex_lock(&lock);
    snprintf(held, sizeof held, "%s", thread ? thread : "");
    held_symbol = (enum sim_symbol)i;
    held_behind = behind;
    passing = nth ? nth - 1 : 0;
    holds++;
    pthread_cond_broadcast(&released);
    pthread_mutex_unlock(&lock);
    if (thread)
        atomic_fetch_or(&sim_attention, SIM_ATTEND_LATE);
    return 0;
}

SIM_EXPORT unsigned int cuSimHeld(void)
{
    return atomic_load(&waiting);
}

/* "name:us" */
void sim_late_read_environment(void)
{
    const char *text = getenv("SIMCUDA_LATE");
    if (!text || !*text)
        return;
    if (sscanf(text, "%15[^:]:%u", late, &most_us) != 2 || most_us >= 1000000) {
        fprintf(stderr, "simcuda: SIMCUDA_LATE=%s is not a thread's name and microseconds\n", text);
        most_us = 0;
    } else {
        atomic_fetch_or(&sim_attention, SIM_ATTEND_LATE);
    }
}
