/* substitute.h - the driver's addresses and what is handed out in their place. */
#ifndef AG_SUBSTITUTE_H
#define AG_SUBSTITUTE_H

#include <stdbool.h>

/* Builds the address table from ag_real[]. Before the mode becomes FOUND; a child of
 * fork may come here again. */
void ag_substitute_learn(void);

/* The number of the symbol at one of the driver's addresses, or -1. */
int ag_symbol_at(const void *address);

/* Whether an address lies in the driver's image. */
bool ag_in_driver(const void *address);

/* Whether it lies in this library: a driver that is not bound to its own symbols answers the names
 * that this library exports, and they are hooks already. */
bool ag_is_ours(const void *address);

/* What to answer for an address that the driver gave for `name`: the hook, the same address, or a
 * stub of the pool. The mode must be FOUND or ON. */
void *ag_substitute(void *address, const char *name);

/* In the child of a fork: no lock is held by a thread that is gone. */
void ag_substitute_after_fork(void);

#endif
