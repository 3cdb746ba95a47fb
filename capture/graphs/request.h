/* request.h - see request.c. */
#pragma once

#include "capture/graphs/graph.h"

/* Makes what building needs but must not make behind the program's back, or while the GPU may be
 * waiting for the program. Call it in a call of the program's that may load kernels itself, and
 * again later if that was not possible. */
void ag_request_prepare(const struct ag_stream *s);
/* Requests that the recorded ops of `s` be built as `chunk`'s graphs. `may_hold_back`: some thread
 * could submit what is held back. The caller holds the stream's lock. */
void ag_request_graphs(struct ag_stream *s, struct ag_chunk *chunk, bool may_hold_back);
/* Requests one more variant with these arguments. The caller holds the stream's lock. */
void ag_request_variant(struct ag_stream *s, struct ag_graphs *g, const uint8_t *bytes);
/* The stream ends, and its graphs with it. Nothing is being built for it. */
void ag_request_stream_ends(struct ag_stream *s);
