/* request.h - see request.c. */
#ifndef AG_REQUEST_H
#define AG_REQUEST_H

#include "capture/graphs/graph.h"

/* What building needs and had better not be made behind the program's back, nor where the GPU may
 * be waiting for the program: in a call of the program's that may load kernels itself, and again
 * where that could not be. */
void ag_request_prepare(const struct ag_stream *s);
/* Hands the recorded ops of `s` to be built as `chunk`'s graphs. `may_hold_back`: somebody could
 * submit what is held back. Under the stream's lock. */
void ag_request_graphs(struct ag_stream *s, struct ag_chunk *chunk, bool may_hold_back);
/* Asks for one more variant with these arguments. Under the stream's lock. */
void ag_request_variant(struct ag_stream *s, struct ag_graphs *g, const uint8_t *bytes);

#endif
