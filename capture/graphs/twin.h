/*
 * twin.h - chunks of a stream with the same ops and arguments use the same graphs: a loop that is
 * cut in pieces of its period then needs one graph, which also stays in the processor's caches.
 */
#ifndef AG_TWIN_H
#define AG_TWIN_H

#include "policy/policy.h"

struct ag_stream;

/* Chunks whose graphs were asked for, by what they hold. Of one stream, under its lock, and freed
 * with it: one piece of memory. */
struct ag_twins;

enum ag_twin { AG_TWIN_NONE, AG_TWIN_COMING, AG_TWIN_SHARED };

/* Gives `chunk`, whose ops are recorded, the graphs of one with the same ops and arguments: SHARED.
 * COMING: such graphs are being built. NONE: the chunk is remembered, to be built now. */
enum ag_twin ag_twin_find(struct ag_stream *stream, struct ag_chunk *chunk);

#endif
