/* sync_point.h - see sync_point.c; capture.h has the rest. */
#pragma once

#include "capture/tracking/stream.h"

/* The calling thread is about to wait for the GPU in an op of this stream: what it has deferred on
 * others is submitted. */
void ag_core_thread_will_wait(const struct ag_stream *s);
