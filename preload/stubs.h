/* stubs.h - the tables of the assembly stubs (stubs_*.S). */
#pragma once

#include "driver/entries.h"

/* What is handed out for a symbol instead of the driver's address: a hook in C or a stub. NULL if
 * the program gets the driver's own address. */
extern void *const ag_hook_address[AG_SYM_COUNT];

/* Stubs for entry points that are in no table, in the order in which they are given out. */
extern void *const ag_pool_address[AG_POOL_SIZE];
