/* stats.h - what streams have seen, added up, and how long something waited in their rings. */
#pragma once

#include "capture/trace/trace_format.h"
#include "capture/tracking/stream.h"

/* The totals of all streams, including those that are gone. */
void ag_stats_collect(struct ag_totals *totals);
/* Keeps the figures of a stream that is about to be freed in the totals. */
void ag_stats_retire_stream(const struct ag_stream *s);

/* Chunks and single ops wait in rings: one in AG_TIMED_ONE_IN is timed, all of them while a dump is
 * written, and more at first (policy/ring.h). Counts one that waited for so long. Any thread may
 * call it. */
void ag_waited(uint64_t ns);
void ag_waited_fill(struct ag_live_waits *w);
