/* generate_loop.h - what loops are made of: ops that are the same or change by a rule. */
#pragma once

#include "tests/fuzz/generate.h"

/* How an op's arguments go from iteration to iteration. */
enum fz_rule {
    FZ_SAME,
    FZ_COUNTS,
    FZ_ALTERNATES,
    FZ_STEPS,
    FZ_MOVES,
    FZ_SWAPS,
    FZ_RESHAPES,
    FZ_RULES,
    FZ_CYCLES,
    FZ_GROWS
};

/* An op of a body. */
struct fz_item {
    struct fz_op op;
    enum fz_rule rule;
    int sets;  /* of FZ_CYCLES */
    int first; /* grid of FZ_GROWS */
    int inner; /* > 0: this many times an inner loop of the next `inner_length` items */
    int inner_length;
};

/* generate_loop.c. A loop makes about `budget` ops. */
void fz_run_item(struct fz_gen *g, struct fz_item *item, int i, int mutations);
void fz_end_of_iteration(struct fz_gen *g, int way, int stream, int buf, int i);
void fz_renew(struct fz_gen *g, int stream);
void fz_body_loop(struct fz_gen *g, unsigned int budget);

/* generate_fork.c */
void fz_fork_loop(struct fz_gen *g, unsigned int budget);
void fz_ahead_loop(struct fz_gen *g, unsigned int budget);
