/* stats.c - the summary at exit. */
#include "capture/stats.h"
#include "capture/compare.h"
#include "capture/graph.h"
#include "capture/live.h"
#include "capture/log.h"
#include "capture/shortfall.h"
#include <stdlib.h>
#include <time.h>

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
    t->gained_ns += s->gained_ns;
    for (int i = 0; i < AG_NUM_WHYS; i++)
        t->whys[i] += s->whys[i];
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

static void print_boundaries(const char *process)
{
    int order[AG_SYM_COUNT + 1], n = 0;
    for (int i = 0; i <= AG_SYM_COUNT; i++)
        if (atomic_load(&ag_boundary_counts[i]))
            order[n++] = i;
    qsort(order, (size_t)n, sizeof(order[0]), by_count);
    int shown = n > MOST_BOUNDARIES ? MOST_BOUNDARIES : n;
    for (int i = 0; i < shown; i++)
        ag_say("%s:   boundary %-36s %llu", process,
               order[i] == AG_SYM_COUNT ? "(unknown entry point, or the end)"
                                        : ag_sym_name((enum ag_sym)order[i]),
               ull(atomic_load(&ag_boundary_counts[order[i]])));
    if (n > shown)
        ag_say("%s:   and %d more entry points", process, n - shown);
}

/* Live figures are asked for while others launch. Of a stream whose lock's holder stays in the
 * driver, they are those of the last time. */
static void add_figures(struct ag_totals *t, struct ag_stream *s)
{
    enum { TRIES = 20 };
    const struct timespec rest = {.tv_nsec = 50000};
    struct ag_totals now = {0};
    bool locked = ag_stream_lock_if_prompt(s);
    for (int i = 0; i < TRIES && !locked; i++) {
        nanosleep(&rest, NULL);
        locked = ag_stream_lock_if_prompt(s);
    }
    if (locked) {
        ag_stats_add_stream(&now, s);
        ag_unlock(&s->lock);
    }
    ag_lock(&lock);
    if (locked)
        s->counted = now;
    uint64_t *to = (uint64_t *)t;
    const uint64_t *from = (const uint64_t *)&s->counted;
    for (size_t i = 0; i < sizeof(*t) / sizeof(*to); i++)
        to[i] += from[i];
    ag_unlock(&lock);
}

void ag_stats_collect(struct ag_totals *t)
{
    size_t n;
    ag_lock(&lock);
    *t = retired;
    ag_unlock(&lock);
    struct ag_stream **streams = ag_streams_snapshot(&n);
    for (size_t i = 0; i < n; i++)
        add_figures(t, streams[i]);
    ag_streams_release(streams, n);
}

/* What a launch took less than an eager one, as measured by the stream that made it. */
static void print_time(const char *process, const struct ag_totals *t)
{
    double ms = (double)t->gained_ns / 1e6;
    if (!t->replayed)
        ag_say("%s: it saved no time", process);
    else
        ag_say("%s: it %s %.2f ms of the host's time in launches (measured), %.2f us each", process,
               ms < 0 ? "lost" : "saved", ms < 0 ? -ms : ms,
               (ms < 0 ? -ms : ms) * 1e3 / (double)t->replayed);
    ag_compare_print(process);
}

/* The last of the four lines names the next step, as whoever reads it would type it. */
static void print_shortfall(const char *process, const struct ag_totals *t)
{
    const char *more = ag_options.trace || ag_live_is_of_command()
                           ? ""
                           : "; for more: AUTOGRAPH_TRACE=FILE writes a dump, "
                             "autograph report FILE explains it";
    struct ag_shortfall f;
    ag_shortfall_find(t, &f);
    if (f.why)
        ag_say("%s: why not more: mostly because %s (about %llu ops). What to do: %s%s", process,
               f.why, ull(f.kept), f.advice, more);
    else
        ag_say("%s: why not more: %s%s", process,
               ag_options.mode == AG_MODE_OBSERVE ? "AUTOGRAPH=observe replays nothing"
               : f.launched                       ? "that is as good as all"
                                                  : "nothing was launched",
               more);
}

static void print_counters(const char *process, const struct ag_totals *t)
{
    ag_say("%s:   eager %llu, flushed %llu, covered by shorter graphs %llu, not looked at %llu",
           process, ull(t->eager), ull(t->flushed), ull(t->covered), ull(t->dormant));
    ag_say("%s:   mismatches %llu, switches %llu, resyncs %llu, sequences %llu (%llu periodic, "
           "%llu evicted)",
           process, ull(t->mismatches), ull(t->switches), ull(t->resyncs), ull(t->blocks),
           ull(t->periods), ull(t->evicted));
    ag_say("%s:   graphs built %llu (%llu nodes, %.1f ms), memory %.1f MiB of %llu", process,
           ull(atomic_load(&ag_counts[AG_COUNT_BUILT])),
           ull(atomic_load(&ag_counts[AG_COUNT_BUILT_NODES])),
           (double)atomic_load(&ag_counts[AG_COUNT_BUILD_NS]) / 1e6,
           (double)ag_budget_used() / 1048576.0, ull(ag_budget() >> 20));
    for (int i = AG_COUNT_BUILD_NS + 1; i < AG_NUM_COUNTS; i++)
        if (atomic_load(&ag_counts[i]))
            ag_say("%s:   %s: %llu", process, texts[i], ull(atomic_load(&ag_counts[i])));
    print_boundaries(process);
}

void ag_stats_print(void)
{
    struct ag_totals t;
    struct ag_shortfall f;
    char process[128];
    ag_process_name(process, sizeof(process));
    ag_stats_collect(&t);
    ag_shortfall_find(&t, &f);
    double share = f.launched ? 100.0 * (double)f.replayed / (double)f.launched : 0.0;
    ag_say("%s: replayed %llu of %llu ops (%.1f%%) in %llu graph launches, %llu node updates",
           process, ull(f.replayed), ull(f.launched), share, ull(t.graph_launches), ull(t.updates));
    print_time(process, &t);
    ag_say("%s: it cost %.1f ms of processor time to build graphs, and %.1f MiB for them (of "
           "AUTOGRAPH_MEMORY_MB, %u)",
           process, (double)atomic_load(&ag_counts[AG_COUNT_BUILD_NS]) / 1e6,
           (double)ag_budget_used() / 1048576.0, ag_options.memory_mb);
    print_shortfall(process, &t);
    if (ag_options.stats > 1)
        print_counters(process, &t);
}
