/* cycle.h - see cycle.c. */
#ifndef AG_CYCLE_H
#define AG_CYCLE_H

#include "capture/graphs/graph.h"

/* Ops after which the arguments come again in a loop that needs several of these graphs;
 * 0: not known, or more than are in one graph. */
uint32_t ag_graphs_cycle(const struct ag_graphs *g);

#endif
