/* builder.h - the thread that builds graphs. */
#ifndef AG_BUILDER_H
#define AG_BUILDER_H

#include "capture/graphs/graph.h"

/* It carries copies of everything that it needs. */
struct ag_request {
    struct ag_stream *stream; /* lives as long as the request, see ag_builder_pause() */
    struct ag_graphs *graphs;
    struct ag_chunk *chunk; /* of a first build, else NULL */
    uint8_t *bytes;
    uint64_t memory_epoch; /* then its addresses were good */
    uint64_t apart_ns; /* since the chunk's block was seen before; 0: a loop that has just begun */
    struct ag_request *next;
};

/* Queues, or builds at once in inline mode. False: declined, and the request stays the caller's. */
bool ag_builder_submit(struct ag_request *r);
void ag_request_free(struct ag_request *r);

/* Nothing is built or requested until ag_pause_resume(); waits for what is being built. Without any
 * stream's lock. */
void ag_builder_pause(void);
/* The same where nothing is in flight that waits for the program, so that graphs can be destroyed
 * without waiting for that. False, and nothing is paused, where something may be. */
bool ag_builder_pause_at_rest(void);
void ag_builder_stop(void);

#endif
