/* trace_ring.h - see trace_ring.c. */
#pragma once

#include "capture/trace/trace_format.h"

void ag_trace_push(const struct ag_dump_event *event);
/* Ends the writer's thread and writes what is left. */
void ag_trace_drain(void);
