/* lower.h - see lower.c. */
#ifndef AG_LOWER_H
#define AG_LOWER_H

#include "capture/tracking/signature.h"
#include "driver/entries.h"

/* Copies of movable memory up to this many bytes become launches of the copy kernel. It takes a
 * tenth longer than a memcpy node there if both addresses are aligned, and twice as long if they
 * are off by one; above that it falls behind. (H200, tests/gpu/pace/run copies.) Copies of other
 * memory are memcpy nodes, which take 0.85 us in a graph where the kernel takes 1.0. */
enum { AG_MOST_COPIED = 1 << 20 };

/* The launch of one of the library's own kernels (ownkernels.cu) that does what a fill or a copy
 * does. `params` points into the rest, so this must stay where it is. */
struct ag_lowered {
    CUDA_KERNEL_NODE_PARAMS launch;
    void *params[5];
    CUdeviceptr dst, src;
    uint64_t pitch;   /* bytes from row to row */
    uint64_t width;   /* bytes in a row */
    uint64_t height;  /* rows */
    uint32_t pattern; /* four bytes, which repeat the element */
};

/* The kernel that stands in graphs for ops of this signature. NULL: none, they are nodes of their
 * own kind. */
CUfunction ag_lowering(CUcontext ctx, const struct ag_signature *signature);
void ag_lower(const struct ag_signature *signature, const uint8_t *recorded, CUfunction kernel,
              struct ag_lowered *out);

#endif
