/* streams.h - all streams: how many there are, and lists of those that a call concerns. */
#pragma once

#include "capture/tracking/stream.h"

/* Streams that are not parked. */
size_t ag_streams_count(void);
/* The `serial` of the stream that was made last. */
uint64_t ag_streams_latest(void);

/* The streams that there are at one moment, each with a reference. Nearly all calls concern a few:
 * a list of these takes nothing from the program's heap, where it would come in between what the
 * program allocates (measured: its own walk through a list then took several times as long). */
enum { AG_STREAMS_FEW = 8 };
struct ag_streams {
    size_t n, next;
    bool lacks;              /* there was no memory for all of them */
    struct ag_stream **more; /* all of them, or NULL: they are in `few` */
    struct ag_stream *few[AG_STREAMS_FEW];
};
static inline struct ag_stream *ag_streams_at(const struct ag_streams *all, size_t i)
{
    return (all->more ? all->more : all->few)[i];
}
struct ag_streams ag_streams_snapshot(void);
/* The same for those that are open, hold something back or fork; the others cost nothing, as a
 * program may have thousands. */
struct ag_streams ag_streams_busy(void);
/* The same for those of them that have ops deferred. */
struct ag_streams ag_streams_deferring(void);
/* The same for the calling thread's own streams, and if `deferring` also for other threads'
 * streams that have ops deferred. Without `idle`, only those that are busy. */
struct ag_streams ag_streams_concerned(bool deferring, bool idle);
/* One after the other; NULL when all have been, and then the list is done. */
struct ag_stream *ag_streams_next(struct ag_streams *all);
/* Gives the references back. Whoever does not go through all of them calls it. */
void ag_streams_done(struct ag_streams *all);
