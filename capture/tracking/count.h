/* count.h - counters of what happened, each with a name. */
#pragma once

#include "driver/entries.h"
#include <stdatomic.h>
#include <stdint.h>

enum ag_count {
#define AG_COUNTER(name, text) AG_COUNT_##name,
#include "capture/tracking/count.def"
#undef AG_COUNTER
    AG_NUM_COUNTS
};

extern _Atomic uint64_t ag_counts[AG_NUM_COUNTS];
static inline void ag_count_by(enum ag_count which, uint64_t n)
{
    atomic_fetch_add_explicit(&ag_counts[which], n, memory_order_relaxed);
}
static inline void ag_count(enum ag_count which)
{
    ag_count_by(which, 1);
}
static inline uint64_t ag_counted(enum ag_count which)
{
    return atomic_load(&ag_counts[which]);
}

/* Sync points that found something to end, counted by entry point. */
extern _Atomic uint64_t ag_sync_point_counts[AG_SYM_COUNT + 1];
static inline void ag_count_sync_point(enum ag_sym sym)
{
    atomic_fetch_add_explicit(&ag_sync_point_counts[sym <= AG_SYM_COUNT ? sym : AG_SYM_COUNT], 1,
                              memory_order_relaxed);
}

/* The counter's text in the report. */
const char *ag_count_text(enum ag_count which);
