/* replay.h - see replay.c. */
#ifndef AG_REPLAY_H
#define AG_REPLAY_H

#include "capture/graphs/graph.h"

/* Launches the chunk's graph with the recorded arguments of `s`, and uploads it before where it was
 * never launched and has to be changed. Returns false where that cannot be done for a reason of
 * ours: nothing was submitted then. Under the stream's lock. */
bool ag_graphs_launch(struct ag_stream *s, struct ag_graphs *g, const uint8_t *bytes);

#endif
