/*
 * waited.h - how long chunks and single ops waited in the rings of their streams: one in
 * AG_TIMED_ONE_IN, all of them while a dump is written, and more at first (policy/ring.h).
 */
#pragma once

#include "capture/trace/trace_format.h"

/* Counts one that waited for so long. Any thread may call it. */
void ag_waited(uint64_t ns);
void ag_waited_fill(struct ag_live_waits *w);
