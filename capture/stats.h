/* stats.h - what happened, under a name each. AUTOGRAPH_STATS=1 prints the summary, 2 the counters
 * too. */
#ifndef AG_STATS_H
#define AG_STATS_H

#include "capture/stream.h"

enum ag_count {
#define AG_COUNTER(name, text) AG_COUNT_##name,
#include "capture/stats.def"
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

/* A boundary that found something to end, by entry point. */
extern _Atomic uint64_t ag_boundary_counts[AG_SYM_COUNT + 1];
static inline void ag_count_boundary(enum ag_sym sym)
{
    atomic_fetch_add_explicit(&ag_boundary_counts[sym <= AG_SYM_COUNT ? sym : AG_SYM_COUNT], 1,
                              memory_order_relaxed);
}

/* Adds what a stream has seen to the totals: before it is freed, and for the report. */
void ag_stats_add_stream(struct ag_totals *totals, const struct ag_stream *s);
/* Of all streams, those that are gone included. */
void ag_stats_collect(struct ag_totals *totals);
/* The stream is about to be freed: its figures stay in the totals. */
void ag_stats_retire_stream(const struct ag_stream *s);
void ag_stats_print(void);

#endif
