/* event.c - see event.h. */
#include "capture/tracking/event.h"
#include "capture/system/lock.h"
#include <stdlib.h>
#include <string.h>

/* Of a pointer. uthash's own function takes longer than all the rest of a look-up. */
static inline unsigned int hash_of(const void *key)
{
    uintptr_t bits;
    memcpy(&bits, key, sizeof(bits));
    return (unsigned int)(bits * 0x9E3779B97F4A7C15u >> 32);
}
#define HASH_FUNCTION(key, bytes, hash) ((void)(bytes), (hash) = hash_of(key))
#include "capture/system/hash.h"
#include <utlist.h>

struct known {
    CUevent event; /* the key */
    CUcontext context;
    struct ag_record last;
    uint64_t epoch;            /* when `last` was written */
    uint64_t ending;           /* ag_event_ends_later(); 0: the program has not destroyed it */
    struct known *next, *prev; /* in the list `left`; `prev` NULL: it is not there */
    UT_hash_handle hh;
};

static struct ag_lock lock;
static struct known *events;
static _Atomic uint64_t epoch;
static _Atomic uint32_t num_ending, num_left;
static uint64_t last_ending; /* under the lock */
static struct known *left;   /* in the order in which they were left */

/* Under the lock. */
static struct known *find_any(CUevent event)
{
    struct known *k;
    HASH_FIND_PTR(events, &event, k);
    return k;
}

static struct known *find(CUevent event)
{
    struct known *k = find_any(event);
    return k && !k->ending ? k : NULL;
}

/* Takes it out of the list. */
static void take(struct known *k)
{
    DL_DELETE(left, k);
    k->prev = NULL;
    atomic_fetch_sub(&num_left, 1);
}

static void forget(CUevent event)
{
    struct known *k = find_any(event);
    if (k && k->ending)
        atomic_fetch_sub(&num_ending, 1);
    if (k && k->prev)
        take(k);
    if (k)
        HASH_DEL(events, k);
    free(k);
}

void ag_event_made(CUevent event, CUcontext context, unsigned int flags)
{
    ag_lock(&lock, AG_RANK_EVENTS);
    forget(event); /* one of that name has ended with its context */
    bool usable = flags & CU_EVENT_DISABLE_TIMING && !(flags & CU_EVENT_INTERPROCESS);
    struct known *k = usable ? calloc(1, sizeof(*k)) : NULL;
    if (k) {
        k->event = event;
        k->context = context;
        HASH_ADD_PTR(events, event, k);
        if (!k->hh.tbl)
            free(k);
    }
    ag_unlock(&lock);
}

void ag_event_ends(CUevent event)
{
    ag_lock(&lock, AG_RANK_EVENTS);
    forget(event);
    ag_unlock(&lock);
}

/* Under the lock. */
static struct known *mark_ending(CUevent event)
{
    struct known *k = find_any(event);
    if (k && !k->ending) {
        k->ending = ++last_ending;
        atomic_fetch_add(&num_ending, 1);
    }
    return k;
}

uint64_t ag_event_ends_later(CUevent event)
{
    ag_lock(&lock, AG_RANK_EVENTS);
    const struct known *k = mark_ending(event);
    uint64_t number = k ? k->ending : 0;
    ag_unlock(&lock);
    return number;
}

/* The event is forgotten last: until the driver has destroyed it, calls on it must not get there.
 */
void ag_event_destroy(CUevent event, uint64_t number)
{
    AG_REAL(cuEventDestroy_v2)(event);
    ag_lock(&lock, AG_RANK_EVENTS);
    const struct known *k = find_any(event);
    if (k && k->ending == number) /* else the handle is another's already */
        forget(event);
    ag_unlock(&lock);
}

void ag_event_is_left(CUevent event)
{
    ag_lock(&lock, AG_RANK_EVENTS);
    struct known *k = mark_ending(event);
    if (k && !k->prev) {
        DL_APPEND(left, k);
        atomic_fetch_add(&num_left, 1);
    }
    ag_unlock(&lock);
}

uint32_t ag_events_left(void)
{
    return atomic_load(&num_left);
}

bool ag_event_first_left(CUevent *event, uint64_t *number, struct ag_record *last)
{
    ag_lock(&lock, AG_RANK_EVENTS);
    const struct known *k = left;
    if (k) {
        *event = k->event;
        *number = k->ending;
        *last = k->last;
    }
    ag_unlock(&lock);
    return k;
}

bool ag_event_take_left(CUevent event, uint64_t number)
{
    ag_lock(&lock, AG_RANK_EVENTS);
    struct known *k = find_any(event);
    bool found = k && k->prev && k->ending == number;
    if (found)
        take(k);
    ag_unlock(&lock);
    return found;
}

static CUevent take_of(CUcontext context, uint64_t *number)
{
    CUevent event = NULL;
    ag_lock(&lock, AG_RANK_EVENTS);
    struct known *k = left;
    while (k && k->context != context)
        k = k->next;
    if (k) {
        take(k);
        event = k->event;
        *number = k->ending;
    }
    ag_unlock(&lock);
    return event;
}

void ag_events_context_may_end(CUcontext context)
{
    uint64_t number;
    for (CUevent event; (event = take_of(context, &number));)
        ag_event_destroy(event, number);
}

bool ag_event_is_ending(CUevent event)
{
    if (!atomic_load(&num_ending))
        return false;
    ag_lock(&lock, AG_RANK_EVENTS);
    const struct known *k = find_any(event);
    bool ending = k && k->ending;
    ag_unlock(&lock);
    return ending;
}

bool ag_event_find(CUevent event, struct ag_record *last)
{
    ag_lock(&lock, AG_RANK_EVENTS);
    const struct known *k = find(event);
    *last = k ? k->last : (struct ag_record){.serial = 0};
    last->context = k ? k->context : NULL;
    last->outdated = k && k->epoch != atomic_load(&epoch);
    ag_unlock(&lock);
    return k;
}

bool ag_event_recorded(CUevent event, const struct ag_record *last)
{
    ag_lock(&lock, AG_RANK_EVENTS);
    struct known *k = find(event);
    if (k && last->context && last->context != k->context)
        k = NULL;
    if (k) {
        k->last = *last;
        k->epoch = atomic_load(&epoch);
    }
    ag_unlock(&lock);
    return k;
}

void ag_event_reached(CUevent event, uint64_t fork, uint64_t number, bool passed)
{
    ag_lock(&lock, AG_RANK_EVENTS);
    struct known *k = find(event);
    if (k && k->last.fork == fork && k->last.number == number) {
        k->last.passed |= passed;
        k->last.told |= !passed;
    }
    ag_unlock(&lock);
}

void ag_events_unseen(void)
{
    atomic_fetch_add(&epoch, 1);
}
