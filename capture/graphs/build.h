/* build.h - see build.c. */
#pragma once

#include "capture/graphs/graph.h"

/* Makes a graph of the ops with these arguments, in the current context. Returns NULL on failure.
 * The graph is not uploaded: its first launch does that, without waiting for the GPU, in 1.2 us a
 * node (H100, driver 580; tests/gpu/pace/first.cu). That is less than launching its kernels one by
 * one takes. Calling cuGraphUpload well ahead would leave graphs on the device that are never
 * launched, and those slow all others down (docs/performance.md). */
struct ag_variant *ag_variant_build(const struct ag_graphs *g, const uint8_t *bytes);

/* As ag_policy_hooks.ends wants it. */
enum ag_ends ag_graphs_ends(void *context, const ag_key *keys, uint32_t n, uint8_t *ends);

void ag_graphs_destroy(struct ag_graphs *g); /* and their variants */
