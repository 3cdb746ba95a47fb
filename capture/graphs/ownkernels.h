/* ownkernels.h - see ownkernels.c. */
#ifndef AG_OWNKERNELS_H
#define AG_OWNKERNELS_H

#include "driver/entries.h"
#include <stdbool.h>

/* ownkernels.cu has them. */
enum ag_own_kernel { AG_OWN_FILL, AG_OWN_COPY, AG_OWN_KERNELS };

/* One of the library's own kernels in a context. NULL if they were not loaded or cannot be: there
 * are all of them or none. `_load` loads them into `ctx`, which must be current. */
CUfunction ag_own_kernel(CUcontext ctx, enum ag_own_kernel which);
bool ag_own_kernels_tried(CUcontext ctx);
void ag_own_kernels_load(CUcontext ctx);
void ag_own_kernels_invalidate(CUcontext ctx, bool unload);

#endif
