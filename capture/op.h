/*
 * op.h - what differs between the kinds of ops: kernel launches, device memsets, device-to-device
 * copies. Everything else treats ops alike.
 */
#ifndef AG_OP_H
#define AG_OP_H

#include "capture/graph.h"

/* An op as it came in. */
struct ag_incoming {
    enum ag_op_kind kind;
    union {
        const struct ag_launch *launch;
        const struct ag_memset *fill;
        const struct ag_copy *copy;
    };
};

/* The program's own call, made now. */
CUresult ag_op_call(const struct ag_incoming *in);
/* Copies the arguments to `staged`, which has room for shape->staged_bytes. */
void ag_op_stage(uint8_t *staged, const struct ag_shape *shape, const struct ag_incoming *in);

/* The same op again from its staged arguments, on the stream's handle. Under the stream's lock, in
 * its context. */
CUresult ag_op_submit(const struct ag_stream *s, const struct ag_shape *shape,
                      const uint8_t *staged);

/* Adds the op to a graph, behind `after` (NULL: first). */
CUresult ag_op_add_node(CUgraph graph, const struct ag_graphs *g, const struct ag_shape *shape,
                        const uint8_t *staged, const struct ag_node *after, struct ag_node *node);
/* Gives the op's node in an executable graph other arguments. */
CUresult ag_op_update_node(CUgraphExec exec, const struct ag_graphs *g, const struct ag_node *node,
                           const struct ag_shape *shape, const uint8_t *staged);

/* memory.c: how often memory was freed or unmapped. */
extern _Atomic uint64_t ag_memory_epoch;
/* Whether [address, address + bytes) is plain device memory of this context, so that an
 * op on it may become part of a graph. `cacheable` ranges are remembered until memory is freed. */
bool ag_memory_is_plain(struct ag_stream *s, CUdeviceptr address, size_t bytes);

/* fillkernel.c: the library's own fill kernel in a context; NULL where it was not or cannot be
 * loaded. It is loaded into the current context. */
CUfunction ag_fill_kernel(CUcontext ctx);
bool ag_fill_kernel_tried(CUcontext ctx);
void ag_fill_kernel_load(CUcontext ctx);
void ag_fill_kernel_forget(CUcontext ctx, bool unload);
struct ag_fill_params {
    CUdeviceptr dst;
    uint64_t pitch;   /* bytes from row to row */
    uint64_t width;   /* bytes in a row */
    uint64_t height;  /* rows */
    uint32_t pattern; /* four bytes, in which the element is repeated */
    uint32_t unused;
};
/* The launch that fills what a memset op says. */
void ag_fill_launch(const struct ag_shape *shape, const uint8_t *staged,
                    struct ag_fill_params *params, CUDA_KERNEL_NODE_PARAMS *launch);

#endif
