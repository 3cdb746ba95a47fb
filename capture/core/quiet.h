/*
 * quiet.h - streams whose events nobody asks for soon.
 *
 * Some libraries record events that nobody looks at, or only much later (CuPy's solvers, cuSOLVER).
 * If each such record were a sync point, graphs would be short. So once a stream's records have
 * been *quiet* for some time, it forks without a branch (tracking/fork.h): its records are ops.
 *
 * An event whose record is in a graph is ready when all of that graph has ended. Eagerly it is
 * ready before what comes behind the record, and the program may rely on that. So whoever asks for
 * an event counts:
 *
 *  - behind further ops, the stream is not quiet, and its records are sync points for long. A query
 *    far behind the record is an exception, as it waits for nothing; but if it comes again before
 *    the stream's next op, the program may well be waiting in that way.
 *  - right behind the record, no harm is done, but to hold the record back has gained nothing.
 *    However often it is queried, that is one ask.
 *
 * Where something else ends such a fork, as a host function does, records do not count for a while.
 * A stream with branches has its own rules (core/branch.h).
 */
#pragma once

#include "capture/tracking/event.h"
#include "capture/tracking/stream.h"

/* The event was recorded in that stream, in a call that was a sync point. Notes that as its last
 * record. The caller holds no lock. */
void ag_quiet_recorded(struct ag_stream *s, CUevent event);
/* A record comes to a stream that forks. Whether it may be an op. The caller holds the stream's
 * lock. */
bool ag_quiet_stays(struct ag_stream *s);

/* Whether any stream's records count. */
extern _Atomic bool ag_quiet_any;
/* Somebody asks for the event whose last record that is, and nothing has been submitted for that
 * yet: the host (`by` is NULL), or a stream that waits for it. `query`: the call does not wait. The
 * caller holds no lock. */
void ag_quiet_asked(const struct ag_record *last, const struct ag_stream *by, bool query);
