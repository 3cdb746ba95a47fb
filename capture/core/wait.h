/* wait.h - see wait.c. */
#pragma once

#include "capture/tracking/stream.h"

/* Around the launch of a kernel that waits for its peers on `s`: the library builds nothing until
 * that has ended. The launch comes after any build under way, because that may wait for the GPU and
 * keep the peers' launches waiting. Call `_ends` only if `_begins` returned true. Without any lock.
 */
bool ag_wait_of_peers_begins(void);
void ag_wait_of_peers_ends(struct ag_stream *s);
/* A launch while the program captures: its graph may wait for peers. */
void ag_wait_captures(CUfunction func);
