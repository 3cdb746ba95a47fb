/*
 * work.h - makes the launches of what is in a stream's ring: graphs of chunks, and single ops.
 */
#pragma once

#include "capture/tracking/stream.h"

/* Submits what is in the ring; nothing if the submitter cannot enter the stream's context. The
 * caller has the role; `submitter`: it is the library's own thread, and not the program's. */
void ag_work_in(struct ag_ring *ring, bool submitter);
