/*
 * graph.h - the executable graphs of a chunk.
 *
 * A chunk has up to AG_MAX_VARIANTS graphs of the same ops with different arguments (ping-pong
 * buffers, layers with equal signatures). A launch takes the graph whose arguments are all right,
 * or else the one with the fewest nodes to update. (An update costs 0.35-0.5 us a node, an eager
 * launch 2.5-4.3 us: measured, docs/performance.md.)
 */
#pragma once

#include "capture/tracking/stream.h"

/* More than a chunk has: AUTOGRAPH_TEST_MAX_CHUNK ends at 1024, and a crumb of four at the end of a
 * sequence joins the chunk before it (plan.c). */
enum { AG_MOST_NODES = 1088 };

struct ag_node {
    CUgraphNode node;
    CUfunction own; /* the library's kernel that stands for a memset or a copy, or NULL */
    bool is_kernel;
    bool names_outside; /* its arguments do (tracking/hostmemory.h) */
};

struct ag_variant {
    CUdevice device; /* of the context */
    CUgraph graph;   /* names the nodes of exec, so lives as long */
    CUgraphExec exec;
    struct ag_node *nodes;
    uint8_t *bytes;             /* the arguments that exec holds */
    uint64_t used;              /* launch number of the last use */
    uint32_t host_memory_epoch; /* in which fences were looked for (tracking/hostmemory.h) */
};

struct ag_graphs {
    /* constant after the build */
    struct ag_context *context;
    int priority;
    uint32_t branches; /* bits: on which streams of a fork its ops are (capture/tracking/fork.h) */
    uint32_t events;   /* so many of its ops are records or waits: no node stands for these */
    bool waits;        /* some are waits */
    uint32_t trace_id; /* in the dump */
    struct ag_recorded *ops;

    /* Under the stream's lock. The program's thread reads and writes these at each end of a chunk,
     * so they share no line with what the submitter writes at each launch. */
    _Alignas(64) uint64_t last_used_ns;
    uint64_t given, look_at; /* chunks until now; at which world.c looks for a cycle */
    _Atomic uint32_t handed; /* times that they were put into the ring of a stream (submitter.h) */
    uint32_t count, num_bytes; /* constant after the build */
    _Atomic bool failed;       /* the submitter could not launch them */

    /* under the stream's lock with its ring at rest, or with the ring's role */
    _Alignas(64) struct ag_variant *variants[AG_MAX_VARIANTS];
    uint32_t num_variants, last;
    uint8_t successor[AG_MAX_VARIANTS]; /* variant that followed this one last time */
    uint64_t launches;
    uint64_t digests[AG_DIGESTS]; /* of argument sets that needed updates */
    uint32_t num_digests;
    uint8_t *history; /* the last AG_HISTORY argument sets that needed updates */
    uint32_t num_history, repeats;
    uint32_t misses, fruitless; /* launches that needed updates; searches since a useful one */

    _Atomic uint32_t done; /* times that they were handed, and that is over */

    /* shared with the builder, under the lock of budget.c */
    uint32_t chunks;                /* number that use these graphs */
    bool orphan;                    /* the chunk is gone: the builder frees this */
    struct ag_graphs *next_dropped; /* in the list of budget.c */
    /* NULL, AG_REQUESTED, or a variant that is built but not yet among the others. This is one word
     * because both say that no further variant may be requested. It is read without the lock. */
    _Atomic(struct ag_variant *) incoming;
};

#define AG_REQUESTED ((struct ag_variant *)1)
