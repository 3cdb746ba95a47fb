/* lower.h - see lower.c. */
#pragma once

#include "capture/tracking/stream.h"

/* The launch of one of the library's own kernels (ownkernels.cu) that does what a fill or a copy
 * does. `params` points into the rest, so this must stay where it is. */
struct ag_lowered {
    CUDA_KERNEL_NODE_PARAMS launch;
    void *params[9];
    CUdeviceptr dst, src;
    uint64_t pitch;  /* bytes from row to row */
    uint64_t width;  /* bytes in a row */
    uint64_t height; /* rows */
    struct ag_rows rows;
    uint32_t pattern; /* four bytes, which repeat the element */
};

/* The kernel that stands in graphs for ops of this signature. NULL: none, they are nodes of their
 * own kind. */
CUfunction ag_lowering(const struct ag_context *context, const struct ag_signature *signature);
void ag_lower(const struct ag_signature *signature, const uint8_t *recorded, CUfunction kernel,
              struct ag_lowered *out);
