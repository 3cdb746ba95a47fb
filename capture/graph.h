/*
 * graph.h - the executable graphs of a chunk.
 *
 * A chunk has up to AG_MAX_VARIANTS graphs of the same ops with different arguments (ping-pong
 * buffers, layers of equal shape). A launch takes the one whose arguments are all right, else the
 * one with the fewest nodes to update. (An update costs 0.35-0.5 us a node, an eager launch 2.5-3.9
 * us: measured, docs/performance.md.)
 */
#ifndef AG_GRAPH_H
#define AG_GRAPH_H

#include "capture/stream.h"

enum {
    AG_MAX_VARIANTS = 16,
    AG_HISTORY = 4,
    AG_DIGESTS = 16,
    AG_MOST_NODES = 1088, /* more than a chunk has: AUTOGRAPH_MAX_CHUNK ends at 1024, and a crumb of
                             four at the end of a block joins the chunk before it (plan.c) */
    /* misses without use until nobody looks for other graphs but in so many of so many: more in a
     * row than there are digests, so that what comes in turns is met again */
    AG_PATIENCE = 64,
    AG_LOOK_FOR = 24,
    AG_LOOK_EVERY = 128,
};

/* Host and device memory of one node of an executable graph (measured: 2.8 KB device, 7.7 KB host).
 */
enum { AG_NODE_BYTES = 10752 };

struct ag_node {
    CUgraphNode node;
    CUfunction fill; /* a memset that became a launch of this */
    bool is_kernel;
};

struct ag_variant {
    CUgraph graph; /* names the nodes of exec: lives as long */
    CUgraphExec exec;
    struct ag_node *nodes;
    uint8_t *bytes; /* the arguments that exec holds */
    uint64_t used;  /* launch number of the last use */
};

struct ag_graphs {
    /* constant after the build */
    struct ag_context *context;
    int priority;
    uint32_t count, num_bytes;
    uint32_t trace_id; /* in the dump */
    struct ag_staged *ops;

    /* under the stream's lock */
    struct ag_variant *variants[AG_MAX_VARIANTS];
    uint32_t num_variants, last;
    uint8_t successor[AG_MAX_VARIANTS]; /* variant that came after this one last time */
    uint64_t launches, look_at;         /* launch after which ag_graphs_cycle() is asked next */
    uint64_t digests[AG_DIGESTS];       /* of argument sets that needed updates */
    uint32_t num_digests;
    uint8_t *history; /* the last AG_HISTORY argument sets that needed updates */
    uint32_t num_history, repeats;
    uint32_t misses, fruitless; /* launches that needed updates; looks of no use since the last */
    uint64_t last_used_ns;

    /* shared with the builder, under the lock of budget.c */
    uint32_t chunks;                       /* that use these graphs */
    _Atomic bool requested;                /* a variant is being built; read without the lock */
    bool orphan;                           /* the chunk is gone: the builder frees this */
    _Atomic(struct ag_variant *) incoming; /* built, not taken in yet */
};

/* Launches the chunk's graph with the staged arguments of `s`, and uploads it before where it was
 * never launched and has to be changed. Returns false where that cannot be done for a reason of
 * ours: nothing was submitted then. Under the stream's lock. */
bool ag_graphs_launch(struct ag_stream *s, struct ag_graphs *g, const uint8_t *bytes);

/* A hash of `n` bytes, going on from `hash`. */
uint64_t ag_digest(uint64_t hash, const void *data, uint32_t n);

/* cycle.c: ops after which the arguments come again in a loop that needs several of these graphs;
 * 0: not known, or more than are in one graph. */
uint32_t ag_graphs_cycle(const struct ag_graphs *g);

/* build.c: makes a graph of the ops with these arguments, in the current context; NULL on failure.
 * It is not uploaded: its first launch does that, in 1.2 us a node (H100, driver 580), which is
 * less than launching its kernels one by one takes, and without waiting for the GPU
 * (tests/gpu/pace/first.cu). cuGraphUpload well ahead of it would leave graphs on the device that
 * are never launched, and those slow all others down (docs/performance.md). */
struct ag_variant *ag_variant_build(const struct ag_graphs *g, const uint8_t *bytes);

void ag_variant_destroy(struct ag_variant *v);
void ag_graphs_destroy(struct ag_graphs *g); /* and its variants */

/* waits.c */
/* Something that waits for more than the GPU has been launched on `s`: nothing is built until it
 * has ended. Behind the launch, without any lock. */
void ag_waits_launched(struct ag_stream *s);
bool ag_waits_pending(void);
/* None can be in flight. Where the builder is busy: what it asks the driver for is not to be
 * destroyed meanwhile. */
bool ag_waits_at_rest(void);
/* The stream is about to be destroyed, the context has been. The builder is paused; the first under
 * the stream's lock. */
void ag_waits_stream_goes(struct ag_stream *s);
void ag_waits_context_goes(CUcontext ctx);

/* hostfunction.c: whether host functions of the program's have not returned; those of a context
 * that has been destroyed never will. */
bool ag_host_functions_pending(void);
void ag_host_functions_forget(struct ag_context *context);

/* memory.c: the driver looks at the memory of a copy while its graph is instantiated, and crashes
 * where that is freed meanwhile (580, on an H100, with the fuzzer). So a free waits for what is
 * held, and nothing can be held whose addresses were good before a free. */
bool ag_memory_hold(uint64_t epoch);
void ag_memory_release(void);

/* budget.c */
/* A chunk's graphs could not be launched or updated: they go, and are built anew after a while.
 * Under the stream's lock, the chunk being in the caller's hands. */
void ag_graphs_discard(struct ag_chunk *chunk);
/* Destroys what was dropped, at most so many. In the builder's thread, while that is paused, or in
 * inline mode. */
void ag_graphs_collect(uint32_t most);
uint32_t ag_graphs_dropped(void); /* how many there are to destroy */
/* A variant is being built, and is no more: in between they are not destroyed. */
void ag_graphs_requested(struct ag_graphs *g);
void ag_graphs_answered(struct ag_graphs *g);
/* Whether one more variant fits in the budget. `evict`: graphs that nobody has used for more than
 * `apart_ns` are destroyed to make room; without any lock then. */
bool ag_budget_room(const struct ag_graphs *g, bool evict, uint64_t apart_ns);
void ag_budget_take(const struct ag_graphs *g); /* it has been built */
uint64_t ag_budget_used(void);                  /* bytes of graphs at present */
uint64_t ag_budget(void);                       /* and at most */
void ag_budget_halve(void); /* from now on; a MiB stays, so that there can be graphs at all */

/* builder.c */
/* Hands the staged ops of `s` to be built as `chunk`'s graphs. Under the stream's lock. */
void ag_builder_request(struct ag_stream *s, struct ag_chunk *chunk);
/* Asks for one more variant with these arguments. Under the stream's lock. */
void ag_builder_request_variant(struct ag_stream *s, struct ag_graphs *g, const uint8_t *bytes);
/* Nothing is built or requested until the matching resume; waits for what is being built. Without
 * any stream's lock. */
void ag_builder_pause(void);
void ag_builder_resume(void);
/* The same where nothing is in flight that waits for the program, so that graphs can be destroyed
 * without waiting for that. False, and nothing is paused, where something may be. */
bool ag_builder_pause_at_rest(void);
/* No build is under way, and none begins until the matching release. What is queued stays. */
void ag_builder_hold(void);
void ag_builder_release(void);
void ag_builder_stop(void);

#endif
