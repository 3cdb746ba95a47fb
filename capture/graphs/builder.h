/* builder.h - the thread that builds graphs. */
#pragma once

#include "capture/graphs/graph.h"

/* A request carries copies of everything that it needs. */
struct ag_request {
    struct ag_stream *stream; /* lives as long as the request, see ag_builder_pause() */
    struct ag_graphs *graphs;
    struct ag_chunk *chunk; /* of a first build, else NULL */
    uint8_t *bytes;
    uint64_t memory_epoch; /* at which its addresses were good */
    uint64_t apart_ns;     /* since its sequence was last seen; 0: a loop that has just begun */
    struct ag_request *next, *prev;
};

/* Queues the request, or builds it at once in inline mode. False: declined, and the caller keeps
 * the request. */
bool ag_builder_submit(struct ag_request *r);
void ag_request_free(struct ag_request *r);

/* Stops building and requests until ag_pause_resume(), and waits for a build under way. The caller
 * holds no stream's lock. */
void ag_builder_pause(void);
/* The same, but pauses only if nothing is in flight that waits for the program, so that graphs can
 * be destroyed without waiting for the program. If something may be, it pauses nothing and returns
 * false. */
bool ag_builder_pause_at_rest(void);
void ag_builder_stop(void);
