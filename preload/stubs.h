/* stubs.h - the tables of the assembly stubs (stubs_*.S), and where each stub jumps to. */
#ifndef AG_STUBS_H
#define AG_STUBS_H

#include "driver/entries.h"

/* What is handed out for a symbol instead of the driver's address: a hook in C or a stub. NULL if
 * the program gets the driver's own address. */
extern void *const ag_hook_address[AG_SYM_COUNT];

/* Where a stub's fast path jumps to. The entries from AG_SYM_COUNT on belong to the pool. A stub
 * is handed out only if the driver has the function. */
extern void *ag_target[AG_SYM_COUNT + AG_POOL_SIZE];

/* Stubs for entry points that are in no table, in the order in which they are given out. */
extern void *const ag_pool_address[AG_POOL_SIZE];

#endif
