/* budget.h - see budget.c. */
#ifndef AG_BUDGET_H
#define AG_BUDGET_H

#include "capture/graphs/graph.h"

/* Of every stream's policy. */
extern const struct ag_policy_hooks ag_graphs_policy_hooks;
/* Lets `to`, which has none, use the graphs of `from`. */
void ag_graphs_share(struct ag_chunk *from, struct ag_chunk *to);
/* A chunk's graphs could not be launched or updated: they go, and are built anew after a while.
 * Under the stream's lock, the chunk being in the caller's hands. */
void ag_graphs_discard(struct ag_chunk *chunk);
/* Destroys what was dropped, at most so many. In the builder's thread, while that is paused, or in
 * inline mode. */
void ag_graphs_collect(uint32_t most);
uint32_t ag_graphs_dropped(void); /* how many there are to destroy */
/* A variant is being built, and is no more: in between they are not destroyed. */
void ag_graphs_requested(struct ag_graphs *g);
void ag_graphs_answered(struct ag_graphs *g);
/* Whether one more variant fits in the budget. `evict`: graphs that nobody has used for more than
 * `apart_ns` are destroyed to make room; without any lock then. */
bool ag_budget_room(const struct ag_graphs *g, bool evict, uint64_t apart_ns);
void ag_budget_take(const struct ag_graphs *g); /* it has been built */
uint64_t ag_budget_used(void);                  /* bytes of graphs at present */
uint64_t ag_budget(void);                       /* and at most */
void ag_budget_halve(void); /* from now on; a MiB stays, so that there can be graphs at all */

#endif
