/* generate.h - what the files that make a seed's program share: generate*.c. */
#pragma once

#include "tests/fuzz/model.h"

/* A program that is being made. */
struct fz_gen {
    struct fz_program *p;
    struct fz_model m;
    uint64_t random;
    unsigned int target;
    unsigned int thread;
    bool threads;
    /* what the current thread may pick from */
    int streams[FZ_STREAMS], num_streams;
    int bufs[FZ_BUFS], num_bufs;
    int events[FZ_EVENTS], num_events;
    int32_t counter;
    unsigned int odd_calls; /* of 100 ops, how many are of the rarer kinds */
    int sets;               /* of arguments that a loop takes in turn, more than graphs; 0: none */
    bool grows;             /* launches of loops have ever other grids */
    bool renews;            /* streams are destroyed and made anew in the iterations of loops */
};

/* How an event is recorded; the first three are ways to wait for it as well. */
enum { FZ_BY_STREAM, FZ_BY_CONTEXT, FZ_BY_GRAPH, FZ_BY_LAUNCH, FZ_BY_CAPTURE, FZ_RECORDS };

static inline uint64_t next(struct fz_gen *g)
{
    uint64_t z = g->random += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static inline int below(struct fz_gen *g, int n)
{
    return n > 0 ? (int)(next(g) % (unsigned int)n) : 0;
}

static inline bool chance(struct fz_gen *g, int percent)
{
    return below(g, 100) < percent;
}

static inline int between(struct fz_gen *g, int low, int high)
{
    return low + below(g, high - low + 1);
}

/* generate_emit.c */
int fz_pick_stream(struct fz_gen *g);
int fz_pick_second(struct fz_gen *g, int stream);
int fz_pick_event(struct fz_gen *g);
int fz_pick_buf(struct fz_gen *g);
int fz_words_of(const struct fz_gen *g, int buf);
int fz_words_to_read(struct fz_gen *g, int buf);
int fz_pick_module(struct fz_gen *g);
int fz_first_module(const struct fz_gen *g);
bool fz_simple(struct fz_gen *g, enum fz_kind kind, int a, int b, int c);
bool fz_emit(struct fz_gen *g, const struct fz_op *op);
void fz_reads(struct fz_gen *g, int stream, int into, int from);
void fz_writes(struct fz_gen *g, int stream, int buf);

/* generate_op.c */
void fz_make_launch(struct fz_gen *g, struct fz_op *op, int stream);
void fz_make_jam(struct fz_gen *g, struct fz_op *op, int stream);
void fz_make_leave(struct fz_gen *g, struct fz_op *op, int slot);
void fz_make_fire(struct fz_gen *g, struct fz_op *op, int stream, int buf, int event);
void fz_make_op(struct fz_gen *g, struct fz_op *op, int stream);

/* generate_graph.c */
bool fz_graph_of_events(struct fz_gen *g, int graph, int buf, int waits, int records);
void fz_launch_graph(struct fz_gen *g, int graph, int stream);
bool fz_captured_record(struct fz_gen *g, int graph, int stream, int event);
void fz_own_graph(struct fz_gen *g, int graph);
void fz_repeated_capture(struct fz_gen *g, int graph);

/* generate_change.c */
void fz_fresh_buf(struct fz_gen *g, int slot);
void fz_upheaval(struct fz_gen *g);
