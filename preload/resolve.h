/*
 * resolve.h - decides what the library does in this process.
 *
 * Nothing here happens before a driver is loaded: the library does not touch a process without
 * CUDA. Then the mode becomes FOUND: ag_real[], ag_target[] and the address table are complete,
 * and hooks are handed out. It becomes ON at the first call that has work for a hook while the
 * driver is initialised. Only then does the library start anything that a fork would break
 * (threads, files, the live page). The child of a fork is OFF if its parent was ON, because the
 * driver refuses to work there; otherwise it continues as the parent would have.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "driver/table.h"
#include "preload/stubs.h"

enum ag_hooks {
    AG_HOOKS_UNKNOWN, /* no driver seen yet, or AUTOGRAPH=0 */
    AG_HOOKS_OFF,     /* hooks pass everything through: the child of a process that was ON */
    AG_HOOKS_FOUND,   /* hooks are handed out and pass everything through */
    AG_HOOKS_ON
};
extern _Atomic uint32_t ag_hooks;

/* AUTOGRAPH=0: hand out no hook. Reads the setting once. */
bool ag_is_off(void);

/* The driver has been found. `complete`: everything is in its place. Call it without a lock. */
void ag_resolve_found(const char *path, bool complete);

/* Whether hooks are handed out. */
static inline bool ag_hands_out(void)
{
    return atomic_load_explicit(&ag_hooks, memory_order_acquire) >= AG_HOOKS_FOUND;
}

/* Called if a call has work for a hook and the mode is not ON. Returns whether the mode is ON now.
 */
bool ag_resolve_start(void);

/* Whether a hook has work to do. The first such call starts the library. */
static inline bool ag_hooked(void)
{
    return __builtin_expect(atomic_load_explicit(&ag_hooks, memory_order_acquire) == AG_HOOKS_ON,
                            1) ||
           ag_resolve_start();
}
