/* stats.c - the summary at exit. */
#include "capture/stats.h"
#include "capture/compare.h"
#include "capture/graph.h"
#include "capture/log.h"
#include <stdlib.h>

_Atomic uint64_t ag_counts[AG_NUM_COUNTS];
_Atomic uint64_t ag_boundary_counts[AG_SYM_COUNT + 1];

enum { MOST_BOUNDARIES = 10 }; /* the summary is to fit on a screen */

static struct ag_lock lock;
static struct ag_totals retired;

static const char *const texts[AG_NUM_COUNTS] = {
#define AG_COUNTER(name, text) text,
#include "capture/stats.def"
#undef AG_COUNTER
};

void ag_stats_add_stream(struct ag_totals *t, const struct ag_stream *s)
{
    const struct ag_policy_counts *c = &s->policy.counts;
    uint64_t napping = atomic_load(&s->nap.left);
    t->ops += c->ops + c->dormant - napping;
    t->dormant += c->dormant - napping;
    t->replayed += s->replayed_ops;
    t->covered += s->covered_ops;
    t->flushed += s->flushed_ops;
    t->eager += s->eager_ops;
    t->updates += s->updates;
    t->graph_launches += s->launches;
    t->mismatches += c->mismatches;
    t->switches += c->switches;
    t->resyncs += c->resyncs;
    t->periods += c->periods;
    t->blocks += c->blocks;
    t->evicted += c->evicted;
}

void ag_stats_retire_stream(const struct ag_stream *s)
{
    ag_lock(&lock);
    ag_stats_add_stream(&retired, s);
    ag_unlock(&lock);
}

static unsigned long long ull(uint64_t n)
{
    return (unsigned long long)n;
}

static int by_count(const void *a, const void *b)
{
    uint64_t x = atomic_load(&ag_boundary_counts[*(const int *)a]);
    uint64_t y = atomic_load(&ag_boundary_counts[*(const int *)b]);
    return x < y ? 1 : x > y ? -1 : *(const int *)a - *(const int *)b;
}

static void print_boundaries(void)
{
    int order[AG_SYM_COUNT + 1], n = 0;
    for (int i = 0; i <= AG_SYM_COUNT; i++)
        if (atomic_load(&ag_boundary_counts[i]))
            order[n++] = i;
    qsort(order, (size_t)n, sizeof(order[0]), by_count);
    int shown = n > MOST_BOUNDARIES ? MOST_BOUNDARIES : n;
    for (int i = 0; i < shown; i++)
        ag_say("  boundary %-36s %llu",
               order[i] == AG_SYM_COUNT ? "(unknown entry point, or the end)"
                                        : ag_sym_name((enum ag_sym)order[i]),
               ull(atomic_load(&ag_boundary_counts[order[i]])));
    if (n > shown)
        ag_say("  and %d more entry points", n - shown);
}

void ag_stats_collect(struct ag_totals *t)
{
    size_t n;
    ag_lock(&lock);
    *t = retired;
    ag_unlock(&lock);
    struct ag_stream **streams = ag_streams_snapshot(&n);
    for (size_t i = 0; i < n; i++) {
        /* live figures are asked for while others launch */
        bool locked = ag_stream_lock_if_prompt(streams[i]);
        ag_stats_add_stream(t, streams[i]);
        if (locked)
            ag_unlock(&streams[i]->lock);
    }
    ag_streams_release(streams, n);
}

void ag_stats_print(void)
{
    struct ag_totals t;
    ag_stats_collect(&t);
    double share = t.ops ? 100.0 * (double)(t.replayed + t.covered) / (double)t.ops : 0.0;
    ag_say("replayed %llu of %llu ops (%.1f%%) in %llu graph launches, %llu node updates",
           ull(t.replayed + t.covered), ull(t.ops), share, ull(t.graph_launches), ull(t.updates));
    ag_say("  eager %llu, flushed %llu, covered by shorter graphs %llu, not looked at %llu",
           ull(t.eager), ull(t.flushed), ull(t.covered), ull(t.dormant));
    ag_say("  mismatches %llu, switches %llu, resyncs %llu, sequences %llu (%llu periodic, %llu "
           "evicted)",
           ull(t.mismatches), ull(t.switches), ull(t.resyncs), ull(t.blocks), ull(t.periods),
           ull(t.evicted));
    ag_say("  graphs built %llu (%llu nodes, %.1f ms), memory %.1f MiB of %u",
           ull(atomic_load(&ag_counts[AG_COUNT_BUILT])),
           ull(atomic_load(&ag_counts[AG_COUNT_BUILT_NODES])),
           (double)atomic_load(&ag_counts[AG_COUNT_BUILD_NS]) / 1e6,
           (double)ag_budget_used() / 1048576.0, ag_options.memory_mb);
    ag_compare_print();
    for (int i = AG_COUNT_BUILD_NS + 1; i < AG_NUM_COUNTS; i++)
        if (atomic_load(&ag_counts[i]))
            ag_say("  %s: %llu", texts[i], ull(atomic_load(&ag_counts[i])));
    print_boundaries();
    if (!ag_options.trace)
        ag_say("  for more: AUTOGRAPH_TRACE=FILE writes a dump, autograph report FILE explains it");
}
