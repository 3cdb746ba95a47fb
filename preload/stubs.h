/* stubs.h - the tables of the assembly stubs (stubs_*.S), and where each stub jumps to. */
#ifndef AG_STUBS_H
#define AG_STUBS_H

#include "driver/entries.h"

/* What is handed out for a symbol in place of the driver's address: a hook in C or a stub. NULL
 * where the driver's own address is. */
extern void *const ag_hook_address[AG_SYM_COUNT];

/* Where the fast path of a stub jumps to; the entries after AG_SYM_COUNT belong to the pool. A stub
 * is handed out only where the driver has the function. */
extern void *ag_target[AG_SYM_COUNT + AG_POOL_SIZE];

/* Stubs for entry points that no table knows, in the order in which they are given out. */
extern void *const ag_pool_address[AG_POOL_SIZE];

#endif
