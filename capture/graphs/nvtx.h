/*
 * nvtx.h - NVTX ranges around graph launches, for a profiler that listens.
 *
 * If no profiler has announced itself at the start (NVTX_INJECTION64_PATH), nothing of NVTX is
 * called or loaded, and a replay pays one branch that is never taken. NVTX itself is only a header.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

extern _Atomic bool ag_nvtx; /* set once, at the start */

void ag_nvtx_start(void);
void ag_nvtx_push(uint32_t launches);
void ag_nvtx_pop(void);

/* Call these around the driver call that submits `launches` of the program's launches as one graph.
 * The second takes what the first returned, since a range that was not begun must not end: the tool
 * may be loaded between the two, by another thread. */
static inline bool ag_nvtx_begin(uint32_t launches)
{
    bool on = atomic_load_explicit(&ag_nvtx, memory_order_acquire);
    if (__builtin_expect(on, 0))
        ag_nvtx_push(launches);
    return on;
}

static inline void ag_nvtx_end(bool begun)
{
    if (__builtin_expect(begun, 0))
        ag_nvtx_pop();
}
