/*
 * free_ops.h - ops that cost nothing: under libautograph_free.so kernel launches, memsets and
 * copies on the device answer CUDA_SUCCESS and do nothing. What a program takes there is what it
 * would take if launching were free and the GPU infinitely fast: the bound of what graphs can give.
 * Its results are wrong.
 *
 * AG_FREE_FILE names a file of eight bytes, a little-endian count of ops that still run as usual.
 * The library counts it down; whoever runs the program may write it meanwhile. A program that
 * decides by what it reads back goes on as it did when it ran last. Without the file all ops are
 * free.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef AG_OPS_ARE_FREE

extern _Atomic uint64_t *ag_ops_to_run;
void ag_free_ops_start(void);

/* Whether this op is; one that is not is counted. */
static inline bool ag_op_is_free(void)
{
    uint64_t left = atomic_load_explicit(ag_ops_to_run, memory_order_relaxed);
    if (__builtin_expect(left == 0, 1))
        return true;
    /* Where the count is written just now, that wins. */
    atomic_compare_exchange_strong(ag_ops_to_run, &left, left - 1);
    return false;
}

#else

static inline void ag_free_ops_start(void)
{
}

static inline bool ag_op_is_free(void)
{
    return false;
}

#endif
