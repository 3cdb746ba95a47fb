/*
 * flush.h - submits deferred ops before their chunk is complete. The caller holds the stream's lock
 * unless a comment says otherwise.
 */
#pragma once

#include "capture/core/deferral.h"

/* Submit what is deferred: at a sync point, at a break, or because ops have been held back for too
 * long. engine.h says what the policy learns from each. */
void ag_stream_end_segment(struct ag_stream *s);
void ag_stream_break(struct ag_stream *s);
void ag_stream_pause(struct ag_stream *s);
/* Ends its segment at a sync point, or else breaks it. Does nothing if the stream has ended. */
void ag_stream_submit(struct ag_stream *s, bool sync_point);
/* Ends the segment. If that would have to wait for the submitter, returns false instead; if only
 * the ring's chunks are held back, the policy still learns of the sync point. */
bool ag_stream_end_segment_if_prompt(struct ag_stream *s);

/* Call it before submitting or deferring an op or a call on `s`. It submits whatever must come
 * first by the implicit ordering with the legacy default stream. `s` NULL: a stream of which
 * nothing is kept, which counts as a blocking one, as the per-thread default stream is. The caller
 * holds no lock. */
void ag_flush_for_order(const struct ag_stream *s);
/* In a host function of the program's: waits until the watchdog has submitted what `s` holds back
 * now. The caller holds no lock. */
void ag_flush_await(const struct ag_stream *s);
/* The same before a call on a stream of which nothing is kept, for what a fork keeps back in the
 * driver's stead (fork.h). */
void ag_flush_for_order_of_unknown(CUstream stream);
/* The same before a call on the legacy stream that names none; `everywhere`: non-blocking streams
 * are ordered with that call as well. */
void ag_flush_records(bool everywhere);

/* The same, and takes the stream's lock. */
void ag_stream_submit_deferred(struct ag_stream *s, bool sync_point);
/* The same for callers that must not wait for the driver. Another thread may hold the lock while it
 * is in the driver for this stream. That thread is submitting what is deferred, and may wait there
 * for room in a full queue. In that case this function does nothing and returns false. */
bool ag_stream_submit_if_prompt(struct ag_stream *s, bool sync_point);

/* Submits what the fork of the stream holds back, and ends the fork (tracking/fork.h): the stream
 * is a branch no longer, and has none. The caller holds no lock. */
void ag_branches_end(struct ag_stream *s);
