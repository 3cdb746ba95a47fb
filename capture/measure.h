/* measure.h - see measure.c. */
#ifndef AG_MEASURE_H
#define AG_MEASURE_H

#include "capture/stream.h"

/* Whether this call is an event record of a program that measures. */
bool ag_measures(enum ag_sym sym);
/* The stream's next ops lie behind such a record. Behind the boundary. */
void ag_measure_begins(struct ag_stream *s);

#endif
