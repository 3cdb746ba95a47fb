/*
 * model.h - which ops are legal, and whether what they do is decided by the program alone.
 *
 * The model follows a program op by op without a driver. It knows which slots hold something, and
 * with a vector clock per stream which work is ordered before which, so that it can refuse an op
 * that would race: with these gone, every value that a program observes has one right answer,
 * however the work is timed. It must never rely on an order that CUDA does not promise.
 */
#pragma once

#include "tests/fuzz/program.h"

enum { FZ_CLOCKS = 64 };
typedef uint32_t fz_clock[FZ_CLOCKS];

struct fz_access {
    uint8_t buf;
    bool write;
};
enum { FZ_MAX_ACCESSES = 64 };

struct fz_model {
    fz_clock clock[FZ_CLOCKS]; /* per stream: what is ordered before its next op */
    fz_clock host[FZ_THREADS]; /* per thread: what it knows to be done */
    bool blocking[FZ_CLOCKS];  /* ordered with the legacy stream */
    unsigned int clocks;       /* in use; 0 is the legacy stream, 1 to FZ_THREADS per-thread ones */
    bool solo;                 /* this phase belongs to one thread */
    unsigned int actors;       /* threads that have acted in this phase, as bits ... */
    unsigned int capturers;    /* those that captured beside others ... */
    unsigned int waiters;      /* and those that waited for the context */
    uint8_t toucher[FZ_CLOCKS]; /* thread + 1 that used the stream in this phase */
    fz_clock everyone;          /* what every stream's next op is ordered behind */
    struct {
        bool live, capturing;
        uint8_t kind, clock;
        uint8_t toucher; /* thread + 1 that made or ended it in this phase */
    } stream[FZ_STREAMS];
    struct {
        bool live, recorded, timed;
        uint8_t toucher;
        fz_clock clock;
        fz_clock used; /* by launches of graphs */
    } event[FZ_EVENTS];
    struct {
        bool live;
        uint8_t kind, toucher, writer; /* writer: stream clock of the last write */
        uint32_t words, write;
        uint32_t generation;
        fz_clock reads;
    } buf[FZ_BUFS];
    struct {
        bool live;
        uint32_t generation;
    } module[FZ_MODULES];
    struct {
        bool live, inst;
        uint8_t nodes;          /* of an explicit graph, else 0 */
        uint8_t waits, records; /* event slots + 1; 0: none */
        unsigned int count;
        struct fz_access access[FZ_MAX_ACCESSES];
        uint32_t buf_generation[FZ_BUFS], module_generation[FZ_MODULES];
        bool uses_module[FZ_MODULES];
        fz_clock clock; /* of its last launch */
        uint8_t toucher;
    } graph[FZ_GRAPHS], capture[FZ_THREADS];
    int capturing[FZ_THREADS]; /* stream slot + 1 */
    struct {
        int second;                   /* the other stream of a thread's capture, slot + 1 */
        uint32_t reads[2], writes[2]; /* buffers that each has used since, as bits */
    } fork[FZ_THREADS];
    bool trapped; /* the context is lost */
    struct {
        bool made;
        uint8_t toucher;
    } away; /* the second device */
};

/* What the programs of a run have to do without; set before the first one. */
struct fz_limits {
    bool real;        /* only what a real GPU decides as well: see tests/gpu/fuzz/README.md */
    bool queues;      /* queues fill */
    bool forks;       /* many loops fork and join; on which stream work ran is not told */
    uint64_t without; /* kinds of ops, a bit each */
};
extern struct fz_limits fz_limits;
/* Whether the buffer's device memory comes from a pool. On a real GPU it then goes by
 * cuMemFreeAsync, and other memory by cuMemFree. */
static inline bool fz_pooled(int buf)
{
    return buf % 4 == 1;
}

enum fz_legal { FZ_OK, FZ_ILLEGAL, FZ_RACE };

void fz_model_start(struct fz_model *m);
/* Judges the op and, if it is FZ_OK, does it. With FZ_RACE *clock is a stream whose work the op's
 * stream (or the host) would have to wait for first. */
enum fz_legal fz_model_step(struct fz_model *m, const struct fz_op *op, unsigned int *clock);
