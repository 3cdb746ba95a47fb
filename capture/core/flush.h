/*
 * flush.h - submitting deferred ops before their chunk is complete. All under the stream's lock.
 */
#ifndef AG_FLUSH_H
#define AG_FLUSH_H

#include "capture/tracking/stream.h"

/* Submits the stream's first `n` recorded ops, which are those deferred: by graphs of shorter
 * chunks where there are any, else one by one. Their arguments stay recorded. Errors go to
 * s->pending. */
void ag_flush(struct ag_stream *s, uint32_t n);

/* A sync point (the policy learns) or a break (it does not, and the sequence goes on behind it). */
void ag_stream_end_segment(struct ag_stream *s);
void ag_stream_break(struct ag_stream *s);

/* Ends what this stream must not overtake: before an op or a call on `s` is submitted or deferred,
 * whatever implicit ordering with the legacy default stream says must come first is submitted.
 * `s` NULL: the per-thread default stream, which is a blocking one. No lock may be held. */
void ag_flush_for_order(const struct ag_stream *s);

/* The stream starts or ends holding ops back. */
void ag_deferring_begins(struct ag_stream *s);
void ag_deferring_ends(struct ag_stream *s);

/* Takes the stream's lock, breaks or ends its segment. */
void ag_stream_submit_deferred(struct ag_stream *s, bool sync_point);
/* The same for callers that must not wait for the driver: where the lock is held by a thread that
 * is in the driver for this stream, which submits what is deferred at this very moment, and may
 * wait there for room in a full queue, nothing is done. False then. */
bool ag_stream_submit_if_prompt(struct ag_stream *s, bool sync_point);

/* What a sync point, or a launch, returns of the stream's untold error: once. Under the lock. */
CUresult ag_stream_tell(struct ag_stream *s);
void ag_stream_open(struct ag_stream *s); /* counted in ag_open_streams */

#endif
