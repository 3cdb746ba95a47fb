/* fillkernel.h - see fillkernel.c. */
#ifndef AG_FILLKERNEL_H
#define AG_FILLKERNEL_H

#include "driver/entries.h"
#include <stdbool.h>
#include <stdint.h>

/* The library's own fill kernel in a context. NULL if it was not loaded or cannot be. `_load` loads
 * it into `ctx`, which must be current. */
CUfunction ag_fill_kernel(CUcontext ctx);
bool ag_fill_kernel_tried(CUcontext ctx);
void ag_fill_kernel_load(CUcontext ctx);
void ag_fill_kernel_invalidate(CUcontext ctx, bool unload);
struct ag_fill_params {
    CUdeviceptr dst;
    uint64_t pitch;   /* bytes from row to row */
    uint64_t width;   /* bytes in a row */
    uint64_t height;  /* rows */
    uint32_t pattern; /* four bytes, which repeat the element */
    uint32_t unused;
};

#endif
