/* node.h - see node.c. */
#pragma once

#include "capture/graphs/graph.h"

/* Adds the op to a graph, behind `n` others. `waited`: between it and its stream's last op there is
 * a wait for an event. */
CUresult ag_node_add(CUgraph graph, const struct ag_graphs *g, const struct ag_signature *signature,
                     const uint8_t *recorded, const struct ag_node *const *after, uint32_t n,
                     bool waited, struct ag_node *node);
/* Adds a kernel behind `n` others that makes what they wrote visible to the host and other devices
 * before anything that comes behind it writes. */
CUresult ag_node_add_fence(CUgraph graph, const struct ag_graphs *g,
                           const struct ag_node *const *after, uint32_t n, struct ag_node *node);
/* Gives the op's node in an executable graph new arguments. */
CUresult ag_node_update(CUgraphExec exec, const struct ag_graphs *g, const struct ag_node *node,
                        const struct ag_signature *signature, const uint8_t *recorded);
