/* broken.h - see broken.c. */
#pragma once

#include "capture/tracking/stream.h"

/* This error is of deferred work of the stream, or of a call on it. If it ends the stream's
 * context, nothing is deferred until that is destroyed. The caller holds no lock. */
void ag_broken_stream(const struct ag_stream *s, CUresult error);

/* A context has been destroyed. If an error had ended it, that error no longer matters. */
void ag_broken_context_ended(struct ag_context *context);
