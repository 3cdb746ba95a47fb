/* stats.h - what streams have seen, added up. */
#pragma once

#include "capture/tracking/stream.h"

/* The totals of all streams, including those that are gone. */
void ag_stats_collect(struct ag_totals *totals);
/* Keeps the figures of a stream that is about to be freed in the totals. */
void ag_stats_retire_stream(const struct ag_stream *s);
