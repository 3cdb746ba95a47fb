/*
 * dormancy.h - a stream goes dormant and wakes again. What its launches then do is in dormant.h,
 * which the hooks know; this side knows the stream.
 */
#pragma once

#include "capture/tracking/stream.h"

/* Call this once, before there are any streams. `settle`: launches all that is in the stream's
 * ring. */
void ag_dormancy_start(void (*settle)(struct ag_stream *stream));

/* The stream's engine is dormant: from now on launches pass unseen, as many as the policy wishes.
 * The second function wakes both. They are called under the stream's lock. */
void ag_stream_goes_dormant(struct ag_stream *stream);
void ag_stream_leaves_dormant(struct ag_stream *stream);
/* Lets this thread's next launches on a dormant stream pass by ag_dormant_passes(), if they may.
 * `handle`: the program's; for a per-thread default stream CU_STREAM_PER_THREAD. */
void ag_stream_remember_dormant(struct ag_stream *stream, CUstream handle);
