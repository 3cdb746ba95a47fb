/*
 * twin.h - lets chunks of a stream with the same ops and arguments share their graphs. A loop that
 * is cut into pieces of its period then needs only one graph, which also stays in the processor's
 * caches.
 */
#ifndef AG_TWIN_H
#define AG_TWIN_H

#include "policy/policy.h"

struct ag_stream;

/* The chunks for which graphs were requested, found by their content. Each stream has one table,
 * under its lock and freed with it: one piece of memory. */
struct ag_twins;

enum ag_twin { AG_TWIN_NONE, AG_TWIN_COMING, AG_TWIN_SHARED };

/* Looks for a chunk with the same ops and arguments as `chunk`, whose ops are recorded. SHARED:
 * `chunk` now uses the graphs of that chunk. COMING: such graphs are being built. NONE: the table
 * now remembers `chunk`, to be built now. */
enum ag_twin ag_twin_find(struct ag_stream *stream, struct ag_chunk *chunk);

#endif
