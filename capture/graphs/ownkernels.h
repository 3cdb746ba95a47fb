/* ownkernels.h - see ownkernels.c. */
#pragma once

#include "capture/tracking/stream.h"

/* Pinned memory for copies to the host (core/read_back.c), which comes and goes with the kernels.
 */
enum { AG_STAGING_PLACES = 64 };

/* One of the library's own kernels in a context. NULL if they were not loaded or cannot be: there
 * are all of them or none. It waits while another thread loads them, so launches ask
 * ag_own_kernels_are_loaded() instead. `_load` loads them into the context, which must be current.
 */
CUfunction ag_own_kernel(const struct ag_context *context, enum ag_own_kernel which);
bool ag_own_kernels_tried(const struct ag_context *context);
void ag_own_kernels_load(struct ag_context *context);
void ag_own_kernels_unload(struct ag_context *context);
static inline bool ag_own_kernels_are_loaded(const struct ag_context *context)
{
    return atomic_load_explicit(&context->own_kernels, memory_order_relaxed);
}
