/* cycle.h - see cycle.c. */
#ifndef AG_CYCLE_H
#define AG_CYCLE_H

#include "capture/graphs/graph.h"

/* Number of ops after which the arguments repeat, in a loop that needs several of these graphs. 0:
 * not known, or more ops than one graph has. */
uint32_t ag_graphs_cycle(const struct ag_graphs *g);

#endif
