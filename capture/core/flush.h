/*
 * flush.h - submits deferred ops before their chunk is complete. The caller holds the stream's lock
 * unless a comment says otherwise.
 */
#ifndef AG_FLUSH_H
#define AG_FLUSH_H

#include "capture/core/deferral.h"

/* Ends the segment at a sync point, from which the policy learns; or breaks it, from which the
 * policy does not learn: the sequence goes on behind the break; or breaks it because ops have been
 * held back for too long, from which the policy learns if that happens again. */
void ag_stream_end_segment(struct ag_stream *s);
void ag_stream_break(struct ag_stream *s);
void ag_stream_pause(struct ag_stream *s);
/* Ends the segment, unless that would have to wait for the submitter: then it returns false. Where
 * nothing but the ring's chunks is held back, the policy learns of the sync point all the same. */
bool ag_stream_end_segment_if_prompt(struct ag_stream *s);

/* Call it before submitting or deferring an op or a call on `s`. It submits whatever must come
 * first by the implicit ordering with the legacy default stream. `s` NULL: the per-thread default
 * stream, which is a blocking one. The caller holds no lock. */
void ag_flush_for_order(const struct ag_stream *s);

/* Takes the stream's lock, then ends its segment at a sync point, or else breaks it. */
void ag_stream_submit_deferred(struct ag_stream *s, bool sync_point);
/* The same for callers that must not wait for the driver. Another thread may hold the lock while it
 * is in the driver for this stream. That thread is submitting what is deferred, and may wait there
 * for room in a full queue. In that case this function does nothing and returns false. */
bool ag_stream_submit_if_prompt(struct ag_stream *s, bool sync_point);

#endif
