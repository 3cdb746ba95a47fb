/*
 * program.h - a fuzz program: a plain list of ops, so that every part of it can be deleted.
 *
 * Ops of one thread run in list order; ops of different threads are ordered by `barrier` only.
 * model.h tells which ops are legal where; what is not is skipped, so any sub-list is a program.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum fz_kind {
#define FZ_OP(name, args) FZ_##name,
#include "tests/fuzz/ops.def"
#undef FZ_OP
    FZ_KINDS
};

enum { FZ_ARGS = 10 };
struct fz_op {
    uint8_t kind;
    uint8_t thread;
    int32_t a[FZ_ARGS];
};

/* How many of everything there can be. */
enum {
    FZ_STREAMS = 16, /* slots, the four default ones included */
    FZ_FIRST_STREAM = 4,
    FZ_EVENTS = 8,
    FZ_BUFS = 16,
    FZ_MAX_WORDS = 512,
    FZ_MODULES = 4,
    FZ_GRAPHS = 4,
    FZ_MAX_NODES = 16,
    FZ_THREADS = 4,
    FZ_KERNELS = 6, /* those that `launch` chooses from */
    FZ_SHAPES = 6,
    FZ_GRIDS = 96, /* further shapes: grids of two kinds of blocks */
    FZ_HOWS = 9,
    FZ_BADS = 8,
    FZ_MISCS = 12,
    FZ_COPIES = 8,
    FZ_TRAPS = 5,
    FZ_CONTEXTS = 4,
    FZ_FIRES = 3,
};
enum { FZ_DEVICE, FZ_PINNED, FZ_MANAGED };
enum {
    FZ_MIX,
    FZ_JOIN,
    FZ_SPAN,
    FZ_NONE,
    FZ_BIG,
    FZ_ODD,
    FZ_PUBLISH,
    FZ_AWAIT,
    FZ_SLOW,
    FZ_ALL_KERNELS
};
/* how a launch is made */
enum {
    FZ_PARAMS,
    FZ_EXTRA,
    FZ_EX,
    FZ_EX_PRIORITY,
    FZ_EX_OVERLAP,
    FZ_EX_COOP,
    FZ_EX_CLUSTER,
    FZ_COOP,
    FZ_EX_DOMAIN
};
/* how a copy is made */
enum { FZ_DTOD, FZ_ANY, FZ_2D, FZ_HTOD, FZ_DTOH, FZ_DTOD_SYNC, FZ_3D, FZ_PEER };
enum { FZ_SYNC_STREAM, FZ_SYNC_CTX, FZ_SYNC_EVENT, FZ_POLL_STREAM, FZ_POLL_EVENT };

struct fz_program {
    struct fz_op *ops;
    size_t count, capacity;
    unsigned int threads;
};

void fz_program_add(struct fz_program *p, const struct fz_op *op);
void fz_program_free(struct fz_program *p);
/* The stream that the op puts work into, or that its record or wait is in; -1: none is known. */
int fz_op_stream(const struct fz_op *op);
/* The text form: one line an op, "THREAD NAME ARGS...", '#' begins a comment. What stands between
 * "repeat N" and "again" is read N times. */
void fz_op_print(FILE *out, const struct fz_op *op);
/* False with a message on stderr where the text is not a program. */
bool fz_program_read(FILE *in, const char *name, struct fz_program *p);
const char *fz_kind_name(unsigned int kind);

/* generate.c: the program of a seed, about `ops` long. */
struct fz_shape_of_program {
    uint64_t seed;
    unsigned int ops;
    bool threads; /* several host threads */
};
void fz_generate(struct fz_program *p, const struct fz_shape_of_program *how);
