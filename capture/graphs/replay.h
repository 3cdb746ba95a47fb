/* replay.h - see replay.c. */
#pragma once

#include "capture/graphs/graph.h"

/* Launches the chunk's graph with the recorded arguments of `s`. If the graph was never launched
 * and must be changed, it is uploaded first. Returns false if this fails for a reason of the
 * library's own; nothing was submitted then. The caller holds the stream's lock. */
bool ag_graphs_launch(struct ag_stream *s, struct ag_graphs *g, const uint8_t *bytes);
