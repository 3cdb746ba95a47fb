/* stats.h - what streams have seen, added up. */
#ifndef AG_STATS_H
#define AG_STATS_H

#include "capture/tracking/stream.h"

/* Adds what a stream has seen to the totals: before it is freed, and for the report. */
void ag_stats_add_stream(struct ag_totals *totals, const struct ag_stream *s);
/* Of all streams, those that are gone included. */
void ag_stats_collect(struct ag_totals *totals);
/* The stream is about to be freed: its figures stay in the totals. */
void ag_stats_retire_stream(const struct ag_stream *s);

#endif
