/* budget.h - see budget.c. */
#pragma once

#include "capture/graphs/graph.h"

/* The hooks of every stream's policy. */
extern const struct ag_policy_hooks ag_graphs_policy_hooks;
/* Drops a chunk's graphs, which could not be launched or updated. They are built anew after a
 * while. The caller holds the stream's lock and has the chunk in hand. */
void ag_graphs_discard(struct ag_chunk *chunk);
/* Destroys at most `most` of the dropped graphs; returns how many. Those that the submitter still
 * has to launch stay. Call it in the builder's thread, while that is paused, or in inline mode. */
uint32_t ag_graphs_collect(uint32_t most);
uint32_t ag_graphs_dropped(void); /* how many wait to be destroyed */
/* The first marks that a variant is being built, the second that the build has ended, with a
 * variant for the next launch or NULL. In between the graphs are not destroyed. False: they were
 * dropped, which may happen while the submitter still has to launch them, and may be destroyed at
 * any time after that launch. */
bool ag_graphs_requested(struct ag_graphs *g);
void ag_graphs_answered(struct ag_graphs *g, struct ag_variant *v);
/* Whether the budget has room for one more variant. With `evict` it makes room by destroying graphs
 * that have gone unused for more than `apart_ns`; the caller then holds no lock. */
bool ag_budget_room(const struct ag_graphs *g, bool evict, uint64_t apart_ns);
void ag_budget_take(const struct ag_graphs *g); /* after the build */
/* Memory for the graphs' latest sets of arguments, NULL if the budget or the process has no room
 * for it. */
uint8_t *ag_budget_new_history(const struct ag_graphs *g);
/* Whether the driver has memory for these graphs without taking more. */
bool ag_budget_driver_has_room(const struct ag_graphs *g);
uint64_t ag_budget_used(void); /* bytes of graphs at present */
uint64_t ag_budget(void);      /* the most that they may take */
void ag_budget_halve(void);    /* from now on; 1 MiB always stays, so that there can be graphs */
