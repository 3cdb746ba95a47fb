/*
 * event.h - which stream recorded each of the program's events last.
 *
 * Only events without timing, for this process alone, are known (cuEventCreate): their records may
 * be held back with other ops (fork.h), because nobody can ask such an event for its time.
 */
#pragma once

#include "driver/entries.h"
#include <stdbool.h>
#include <stdint.h>

struct ag_stream;

/* The last record of an event. All 0: none is known. */
struct ag_record {
    struct ag_stream *stream; /* it was recorded there; its memory stays, so compare `serial` */
    uint64_t serial;
    struct ag_stream *origin; /* whose fork it is a record of; NULL: of none */
    uint64_t fork, number;    /* ag_fork.id, and which of its records it is */
    uint64_t at;              /* ops of the stream, or of the origin, before it (core/quiet.h) */
    bool told;                /* the driver has got it */
    bool passed;              /* what comes before it has ended, known or not to the driver */
    CUcontext context;        /* the event's own: only streams of that may record it */
    bool outdated;            /* it may have been recorded since, in a way that nobody saw */
};

/* The program has made the event, or destroys it. */
void ag_event_made(CUevent event, CUcontext context, unsigned int flags);
void ag_event_ends(CUevent event);
/* The program has destroyed it, and the driver has not: to the program its handle is invalid.
 * Returns a number that tells it from later events with the same handle. */
uint64_t ag_event_ends_later(CUevent event);
/* Makes the driver destroy it. From then on the driver may give its handle to another event. */
void ag_event_destroy(CUevent event, uint64_t number);
bool ag_event_is_ending(CUevent event);
/* The same, and it is not known yet whether something still needs it: who would have to be asked is
 * busy. Whoever takes such an event finds out. */
void ag_event_is_left(CUevent event);
uint32_t ag_events_left(void);
/* Tells which was left first. It stays left. False: there is none. */
bool ag_event_first_left(CUevent *event, uint64_t *number, struct ag_record *last);
/* False: another thread has taken it. */
bool ag_event_take_left(CUevent event, uint64_t number);
/* The driver destroys all events of the context that are left. Nothing needs them any more. */
void ag_events_context_may_end(CUcontext context);

/* False if the event is not known, or the program has destroyed it. */
bool ag_event_find(CUevent event, struct ag_record *last);
/* False, and nothing else, in the same cases, and if the record names another context than the
 * event's own: the driver will refuse it. */
bool ag_event_recorded(CUevent event, const struct ag_record *last);

/* The driver has got that record of the event, or what comes before it has ended (`passed`). Notes
 * that if it is still the last one. */
void ag_event_reached(CUevent event, uint64_t fork, uint64_t number, bool passed);

/* Events may have been recorded in a way that nobody saw, as by a graph of the program's: no last
 * record is known any more. */
void ag_events_unseen(void);
