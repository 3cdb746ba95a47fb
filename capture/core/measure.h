/* measure.h - see measure.c. */
#ifndef AG_MEASURE_H
#define AG_MEASURE_H

#include "capture/tracking/stream.h"

/* Whether the program measures. */
bool ag_measures(void);
/* Ops behind a sync point that it may be measuring. */
uint32_t ag_measured_ops(void);
/* It may be measuring the stream's next ops. Behind a sync point. */
void ag_measure_begins(struct ag_stream *s);

#endif
