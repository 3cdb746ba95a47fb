/* figures.c - see figures.h. */
#include "capture/report/figures.h"
#include "capture/graphs/budget.h"
#include "capture/system/clock.h"
#include "capture/tracking/count.h"
#include "capture/report/shortfall.h"
#include "capture/tracking/state.h"
#include "capture/report/stats.h"
#include "capture/tracking/stream.h"
#include "capture/trace/trace_format.h"
#include "capture/trace/trace_lines.h"
#include "driver/entries.h"
#include <stdio.h>

void ag_figures_fill(struct ag_live_page *page)
{
    struct ag_totals t;
    uint64_t sync_points = 0;
    ag_stats_collect(&t);
    page->streams = ag_streams_count();
    for (int i = 0; i <= AG_SYM_COUNT; i++)
        sync_points += atomic_load_explicit(&ag_sync_point_counts[i], memory_order_relaxed);
    page->now_ns = ag_clock_monotonic_ns();
    struct ag_shortfall f;
    ag_shortfall_find(&t, &f);
    snprintf(page->why, sizeof(page->why), "%s%s%s", f.why ? f.why : "",
             f.why ? ". What to do: " : "", f.why ? f.advice : "");
    page->ops = f.launched;
    page->replayed = t.replayed;
    page->covered = t.covered;
    page->flushed = t.flushed;
    page->eager = t.eager;
    page->dormant = t.dormant;
    page->graph_launches = t.graph_launches;
    page->handed = atomic_load(&ag_counts[AG_COUNT_SUBMITTED]);
    page->handed_ops = atomic_load(&ag_counts[AG_COUNT_HANDED_OPS]);
    page->handed_singly = atomic_load(&ag_counts[AG_COUNT_SUBMITTED_SINGLY]);
    page->handed_wait_ns = atomic_load(&ag_counts[AG_COUNT_HANDED_WAIT_NS]);
    page->submit_ns = atomic_load(&ag_counts[AG_COUNT_SUBMIT_NS]);
    page->node_updates = t.updates;
    page->mismatches = t.mismatches;
    page->sequences = t.sequences;
    page->graphs_built = atomic_load(&ag_counts[AG_COUNT_BUILT]);
    page->build_ns = atomic_load(&ag_counts[AG_COUNT_BUILD_NS]);
    page->memory = ag_budget_used();
    page->memory_budget = ag_budget();
    page->sync_points = sync_points;
    page->watchdog = atomic_load(&ag_counts[AG_COUNT_WATCHDOG]);
    page->observe_only = atomic_load(&ag_state.observe_only);
}

void ag_figures_list(struct ag_lines *l)
{
    struct ag_totals t;
    ag_stats_collect(&t);
#define TOTAL(name) ag_lines_add(l, #name, "%llu", (unsigned long long)t.name);
    TOTAL(ops)
    TOTAL(replayed)
    TOTAL(covered)
    TOTAL(flushed)
    TOTAL(eager)
    TOTAL(dormant)
    TOTAL(updates)
    TOTAL(graph_launches)
    TOTAL(mismatches)
    TOTAL(switches)
    TOTAL(resyncs)
    TOTAL(periods)
    TOTAL(sequences)
    TOTAL(evicted)
#undef TOTAL
    ag_lines_add(l, "memory", "%llu", (unsigned long long)ag_budget_used());
#define AG_COUNTER(name, text)                                                                     \
    ag_lines_add(l, #name, "%llu", (unsigned long long)atomic_load(&ag_counts[AG_COUNT_##name]));
#include "capture/tracking/count.def"
#undef AG_COUNTER
    struct ag_shortfall f;
    ag_shortfall_find(&t, &f);
    if (f.why) {
        ag_lines_add(l, "why not more", "%s", f.why);
        ag_lines_add(l, "what to do", "%s", f.advice);
    }
}
