/*
 * resolve.h - finding the driver, and what the library is to do in this process.
 *
 * Nothing here happens before the first driver function is looked up or called: a process without
 * CUDA is not touched. The mode then changes once, from UNKNOWN to OFF or ON, and to OFF in the
 * child of a fork; ag_real[], ag_target[] and the address table are complete before it does.
 */
#ifndef AG_RESOLVE_H
#define AG_RESOLVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "preload/table.h"

enum ag_hooks {
    AG_HOOKS_UNKNOWN, /* no driver seen yet */
    AG_HOOKS_OFF,     /* hooks pass everything through: AUTOGRAPH=0, or the child of a fork */
    AG_HOOKS_ON
};
extern _Atomic uint32_t ag_hooks;

/* AUTOGRAPH=0: hand out no hook. Read once. */
bool ag_is_off(void);

/* Makes the driver known. `path`: the file it was loaded from, or NULL for the libcuda.so.1 that is
 * loaded. False where there is none, or where this thread is in the middle of doing just that (the
 * driver looks up symbols of its own). */
bool ag_resolve_driver(const char *path);

/* The driver's function for `sym`, NULL where there is none; makes the driver known first. */
void *ag_resolve_symbol(enum ag_sym sym);

/* In the child of a fork: hooks pass through from now on, and no lock is held by a thread that is
 * gone. */
void ag_resolve_after_fork(void);

#endif
