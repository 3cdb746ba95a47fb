/*
 * execute.h - runs a fuzz program on the driver and writes what was seen.
 *
 * The transcript has a line for every op that observed something or failed, the final content of
 * memory, and the work of every stream in the order in which the driver did it. Two runs of one
 * program must give the same transcript, whatever submits the work.
 */
#pragma once

#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL
#endif
#include <cuda.h>
#include <cudaProfiler.h>
#include "tests/fuzz/program.h"

/* Once, before the first program. */
void fz_execute_start(void);
/* Runs it, cleans up behind it and prints the transcript. `legal` tells which ops to run. False
 * where the context is no good any more. */
bool fz_execute(const struct fz_program *p, const bool *legal, FILE *out);
/* How long a value that the device writes may take to be seen, before that counts as never. */
extern double fz_patience_s;
/* For each thread the place in the program of the op that it does; -1: none. */
extern _Atomic int64_t fz_at[FZ_THREADS];

/* ---- between execute.c and execute_*.c -------------------------------------------------- */

struct fz_result {
    CUresult error;
    bool seen;
    uint64_t value;
};

struct fz_handles {
    CUcontext ctx;
    CUstream stream[FZ_STREAMS];
    uint64_t stream_id[FZ_STREAMS];
    CUevent event[FZ_EVENTS];
    struct {
        CUdeviceptr device;
        void *host;
        uint32_t words;
        int kind;
    } buf[FZ_BUFS];
    struct {
        CUmodule module;
        CUlibrary library;
        CUfunction function[FZ_ALL_KERNELS];
    } module[FZ_MODULES];
    struct {
        CUgraph graph;
        CUgraphExec exec;
        CUgraphNode node[FZ_MAX_NODES];
        unsigned int nodes;
        int buf;
        int waits, records; /* event slots + 1; 0: none */
    } graph[FZ_GRAPHS];
    bool managed;      /* the host may touch managed memory while the device works */
    uint64_t *scratch; /* mapped: a word that nobody looks at */
    uint32_t *flags;   /* mapped: one a thread for `flag`, one a thread for `gate` */
    struct {
        CUcontext ctx;
        CUmodule module;
        CUfunction mix;
        CUstream stream;
        CUdeviceptr x;
    } away;
    /* Streams in the order of their creation, for the order of the work. */
    struct fz_stream_seen {
        uint64_t id;
        int slot, thread;
    } * seen;
    size_t num_seen;
};

/* Runs one op as the calling thread. */
void fz_run_op(struct fz_handles *h, const struct fz_op *op, struct fz_result *result);
void fz_note_stream(struct fz_handles *h, uint64_t id, int slot, int thread);
