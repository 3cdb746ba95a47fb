/*
 * resolve.h - what the library is to do in this process.
 *
 * Nothing here happens before a driver is loaded: a process without CUDA is not touched. The mode
 * then becomes FOUND: ag_real[], ag_target[] and the address
 * table are complete, and hooks are handed out. It becomes ON with the first call that has work for
 * a hook while the driver is initialised: only then anything is begun that a fork would tear apart
 * (threads, files, the live page). A child of fork is OFF where its parent had begun, for the
 * driver refuses to work there; else it goes on as the parent would have.
 */
#ifndef AG_RESOLVE_H
#define AG_RESOLVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "driver/table.h"
#include "preload/stubs.h"

enum ag_hooks {
    AG_HOOKS_UNKNOWN, /* no driver seen yet, or AUTOGRAPH=0 */
    AG_HOOKS_OFF,     /* hooks pass everything through: a fork of a process that was ON */
    AG_HOOKS_FOUND,   /* hooks are handed out and pass everything through */
    AG_HOOKS_ON
};
extern _Atomic uint32_t ag_hooks;

/* AUTOGRAPH=0: hand out no hook. Read once. */
bool ag_is_off(void);

/* The driver has been found and everything is in its place, or not everything. Without a lock. */
void ag_resolve_found(const char *path, bool complete);

/* Whether hooks are handed out. */
static inline bool ag_hands_out(void)
{
    return atomic_load_explicit(&ag_hooks, memory_order_acquire) >= AG_HOOKS_FOUND;
}

/* For a call that has work for a hook while the mode is not ON: whether it is now. */
bool ag_resolve_start(void);

/* At the end of the process: a summary or dump that was asked for is made though nothing began. */
void ag_resolve_finish(void);

/* In the child of a fork: no lock is held by a thread that is gone. True: what the parent has begun
 * is to be given up. */
bool ag_resolve_after_fork(void);

#endif
