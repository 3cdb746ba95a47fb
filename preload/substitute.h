/* substitute.h - maps the driver's addresses to those that are handed out in their place. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include "driver/entries.h"

/* Where a stub's fast path jumps to. The entries from AG_SYM_COUNT on belong to the pool. A stub
 * is handed out only if the driver has the function. */
extern void *ag_target[AG_SYM_COUNT + AG_POOL_SIZE];

/* Fills ag_target[] and the address table from ag_real[], for a driver that is loaded there. Called
 * once, under the loader's lock. */
struct ag_object;
void ag_substitute_learn(const struct ag_object *driver);

/* The number of the symbol at one of the driver's addresses, or -1. */
int ag_symbol_at(const void *address);

/* Whether an address lies in the driver's image. */
bool ag_in_driver(const void *address);

/* Whether an address lies in the driver's code. */
bool ag_in_driver_code(const void *address);

/* Whether an address lies in this library: the loader resolves the driver's names to hooks. */
bool ag_is_ours(const void *address);

/* What is handed out for the driver's function `name`: a hook, the function itself if it needs
 * none, or a stub of the pool. Any other address is returned unchanged. */
void *ag_hook_of(void *address, const char *name);

/* The same for the result of a look-up, which may be a hook already. Logs functions that nobody
 * knows. The mode must be FOUND or ON. */
void *ag_substitute(void *address, const char *name);

/* The driver's function that a hook stands for. */
void *ag_driver_function(void *hook);

/* What an unknown entry point's name says about it, by the number of its stub in the pool. */
enum ag_unknown {
    AG_UNKNOWN_CALL,
    AG_UNKNOWN_BEGINS_CAPTURE,
    AG_UNKNOWN_ENDS_CAPTURE,
    AG_UNKNOWN_CAPTURE_CALL, /* it is about stream captures, in an unknown way */
    AG_UNKNOWN_CHANGES       /* it is another version of a call that takes more than a barrier */
};
enum ag_unknown ag_unknown_kind(uint32_t slot);

/* In the child of a fork: frees locks whose holders may be gone. */
void ag_substitute_after_fork(void);
