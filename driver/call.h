/*
 * call.h - the program's calls, as the hooks describe them.
 */
#pragma once

#include "driver/entries.h"
#include <stdbool.h>
#include <stddef.h>

/* A launch's grid, block, and bytes of dynamic shared memory. */
enum { AG_DIM_SHARED = 6, AG_DIMS = 7 };

/* A kernel launch as the driver's entry points describe it. `params` and `extra` are as in
 * cuLaunchKernel; `attrs` and `num_attrs` are as in CUlaunchConfig. `sym` is the entry point that
 * the program called: if the launch is not deferred, the library calls that same entry point with
 * the same arguments. */
struct ag_launch {
    enum ag_sym sym; /* cuLaunchKernel, cuLaunchKernelEx, cuLaunchCooperativeKernel, or a _ptsz
                        variant */
    bool ptsz;
    CUfunction func; /* a CUfunction, or a CUkernel cast to one (cudart 13 does that) */
    unsigned int dims[AG_DIMS];
    CUstream stream;
    void **params;
    void **extra;
    const CUlaunchAttribute *attrs;
    unsigned int num_attrs;
};

/* cuMemsetD8/D16/D32(2D)Async: `elem_size` 1, 2 or 4 bytes, `width` in elements, `height` rows (1
 * for the 1-D forms), `pitch` in bytes. Also those of no stream, cuMemsetD8_v2 and the like
 * (`is_sync`), which do not wait for device memory either (CUDA Driver API, "API synchronization
 * behavior"). */
struct ag_memset {
    enum ag_sym sym;
    bool ptsz;
    bool is_2d;
    bool is_sync;
    CUdeviceptr dst;
    size_t pitch;
    unsigned int value;
    unsigned int elem_size;
    size_t width;
    size_t height;
    CUstream stream;
};

/* How the rows of a copy lie in memory, in bytes: `height` rows one pitch apart, and `depth` times
 * these, one slice apart. */
struct ag_rows {
    size_t height, depth;
    size_t dst_pitch, src_pitch;
    size_t dst_slice, src_slice;
};

/* cuMemcpyDtoDAsync_v2 and cuMemcpyAsync, of `bytes` bytes. The library looks up what kinds of
 * memory they are. Also cuMemcpyDtoD_v2, which has no stream (`is_sync`), as fills. Also
 * cuMemcpy2D_v2, cuMemcpy3D_v2 and the like (`params` is what the program passes), with `bytes`
 * bytes in each of the `rows`; of one row, these are not set. Also cuMemcpyDtoHAsync_v2, and
 * cuMemcpyDtoH_v2, which has no stream: `dst` is then the program's pointer. If it does not point
 * to pinned memory, `read` is not NULL. */
struct ag_copy {
    enum ag_sym sym;
    bool ptsz;
    bool is_sync;
    CUdeviceptr dst;
    CUdeviceptr src;
    size_t bytes;
    CUstream stream;
    struct ag_read *read;
    const void *params; /* a CUDA_MEMCPY2D or CUDA_MEMCPY3D */
    struct ag_rows rows;
};

/* What stands for the program's memory in a copy to the host (capture/core/read_back.c). */
struct ag_read {
    CUdeviceptr staging; /* the GPU copies there ... */
    bool called;         /* ... unless the program's own call has been made */
};

/* cuEventRecord, cuEventRecordWithFlags and cuStreamWaitEvent. */
struct ag_event_call {
    enum ag_sym sym;
    bool ptsz;
    CUevent event;
    CUstream stream;
    unsigned int flags;
};

enum ag_op_kind { AG_OP_LAUNCH, AG_OP_MEMSET, AG_OP_COPY, AG_OP_RECORD, AG_OP_WAIT };

/* An op as the program submitted it. */
struct ag_incoming {
    enum ag_op_kind kind;
    bool movable;      /* a fill or copy of memory that no graph node may name
                          (capture/tracking/memory.h) */
    bool reads;        /* a copy to the host */
    uint8_t branch;    /* which stream of a fork it goes to (capture/tracking/fork.h); 0: the stream
                          whose engine has it */
    uint16_t distance; /* a wait: records of that fork since the one that it waits for */
    union {
        const struct ag_launch *launch;
        const struct ag_memset *fill;
        const struct ag_copy *copy;
        const struct ag_event_call *event;
    };
};

static inline CUstream ag_incoming_stream(const struct ag_incoming *in)
{
    return in->kind == AG_OP_LAUNCH   ? in->launch->stream
           : in->kind == AG_OP_MEMSET ? in->fill->stream
           : in->kind == AG_OP_COPY   ? in->copy->stream
                                      : in->event->stream;
}

/* A fill or copy by a call that takes no stream. */
static inline bool ag_incoming_is_sync(const struct ag_incoming *in)
{
    return in->kind == AG_OP_MEMSET ? in->fill->is_sync
                                    : in->kind == AG_OP_COPY && in->copy->is_sync;
}

static inline struct ag_read *ag_incoming_read(const struct ag_incoming *in)
{
    return in->kind == AG_OP_COPY ? in->copy->read : NULL;
}

/* Makes the real call. */
CUresult ag_call_make(const struct ag_incoming *in);
CUresult ag_call_launch(const struct ag_launch *launch);
CUresult ag_call_fill(const struct ag_memset *fill);

/* Stands for the device of a function's setting. cuKernel* calls name a device; the library does
 * not ask for the device of a CUfunction. */
enum { AG_ANY_DEVICE = -1 };
enum ag_change {
    AG_CHANGES_NOTHING, /* nothing recorded depends on it */
    AG_CHANGES_LIMIT,   /* deferred launches of this function would be refused now */
    AG_CHANGES_GRAPHS,  /* graphs with the kernel hold the old setting */
};
