/*
 * parked.h - streams that work when they are parked (stream.h).
 *
 * The driver lets each launch of a graph wait for the one before, also in another stream. So no new
 * stream may go on with the graphs of one that still works: it would wait for that. An event is
 * recorded behind the work, and the stream is taken by a new one once that has passed.
 */
#pragma once

#include "capture/tracking/stream.h"

/* The stream is about to be parked: false if that cannot be, as the driver refuses the event, or as
 * it works and is that of a thread that has ended. The caller holds the lock. */
bool ag_parked_begins(struct ag_stream *s);
/* A stream of that kind is about to be made: asks the parked ones with which it could go on whether
 * they still work, until one does not. The caller holds no lock. */
void ag_parked_look(const struct ag_stream_kind *kind);
/* Nobody goes on with the stream. `ended`: its context has ended, and the event with it. The caller
 * holds the lock. */
void ag_parked_ends(struct ag_stream *s, bool ended);
