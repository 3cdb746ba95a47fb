/* measure.h - see measure.c. */
#pragma once

#include "capture/tracking/stream.h"

/* Whether the program measures. */
bool ag_measures(void);
/* Number of ops behind a sync point that the program may be measuring. */
uint32_t ag_measured_ops(void);
/* The program may be measuring the stream's next ops. Call it after a sync point. */
void ag_measure_begins(struct ag_stream *s);
