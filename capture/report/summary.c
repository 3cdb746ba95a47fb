/* summary.c - the figures of the process: in the summary at exit, the live page and the dump. */
#include "capture/report/summary.h"
#include "capture/graphs/budget.h"
#include "capture/report/compare.h"
#include "capture/system/clock.h"
#include "capture/tracking/state.h"
#include "capture/tracking/count.h"
#include "capture/trace/live.h"
#include "capture/settings/log.h"
#include "capture/settings/options.h"
#include "capture/report/shortfall.h"
#include "capture/report/stats.h"
#include "capture/tracking/streams.h"
#include <stdio.h>
#include <stdlib.h>

enum { MOST_SYNC_POINTS = 10 }; /* the summary must fit on a screen */

static unsigned long long ull(uint64_t n)
{
    return (unsigned long long)n;
}

static int by_count(const void *a, const void *b)
{
    uint64_t x = atomic_load(&ag_sync_point_counts[*(const int *)a]);
    uint64_t y = atomic_load(&ag_sync_point_counts[*(const int *)b]);
    return x < y ? 1 : x > y ? -1 : *(const int *)a - *(const int *)b;
}

static void print_sync_points(const char *process)
{
    int order[AG_SYM_COUNT + 1], n = 0;
    for (int i = 0; i <= AG_SYM_COUNT; i++)
        if (atomic_load(&ag_sync_point_counts[i]))
            order[n++] = i;
    qsort(order, (size_t)n, sizeof(order[0]), by_count);
    int shown = n > MOST_SYNC_POINTS ? MOST_SYNC_POINTS : n;
    for (int i = 0; i < shown; i++)
        ag_say("%s:   sync point %-36s %llu", process,
               order[i] == AG_SYM_COUNT ? "(unknown entry point, or the end)"
                                        : ag_sym_name((enum ag_sym)order[i]),
               ull(atomic_load(&ag_sync_point_counts[order[i]])));
    if (n > shown)
        ag_say("%s:   and %d more entry points", process, n - shown);
}

/* Prints how much less time launches took than eager ones, as measured by the streams that made
 * them. */
static void print_time(const char *process, const struct ag_totals *t)
{
    double ms = (double)t->gained_ns / 1e6;
    uint64_t ops = t->replayed + t->singles;
    if (!ops)
        ag_say("%s: it saved no time", process);
    else
        ag_say("%s: it %s %.2f ms of the host's time in launches (measured), %.2f us each", process,
               ms < 0 ? "lost" : "saved", ms < 0 ? -ms : ms,
               (ms < 0 ? -ms : ms) * 1e3 / (double)ops);
    ag_compare_print(process);
}

/* How long what was handed over waited. Nothing if none of it was timed. */
static void tell_waits(char *text, size_t size)
{
    struct ag_live_waits w;
    ag_waited_fill(&w);
    uint64_t timed = ag_live_waits_timed(&w);
    *text = 0;
    if (timed)
        snprintf(text, size,
                 "; what was handed over to it waited %.1f us in the median, %.1f us at most (of "
                 "%llu that were timed)",
                 (double)ag_live_waits_median_ns(&w) / 1e3, (double)w.longest_ns / 1e3, ull(timed));
}

/* Who made the launches, if that need not have been the program's own threads. */
static void tell_submitter(char *text, size_t size, const struct ag_totals *t)
{
    uint64_t ops = ag_counted(AG_COUNT_HANDED_OPS), all = t->replayed + t->covered;
    uint64_t singles = ag_counted(AG_COUNT_SUBMITTED_SINGLY), others = t->ops - all;
    double ms = (double)ag_counted(AG_COUNT_SUBMIT_NS) / 1e6;
    double gained_ms = (double)t->handed_gained_ns / 1e6;
    char compared[96] = "", each[64] = "", carried[48] = "", singly[48] = "", waits[160];
    *text = 0;
    if (ag_options.submit == AG_SUBMIT_INLINE || (!all && !singles))
        return;
    if (all)
        snprintf(carried, sizeof(carried), "%.1f%% of the replayed ops",
                 100.0 * (double)ops / (double)all);
    if (singles && others)
        snprintf(singly, sizeof(singly), "%s%.1f%% of the %s", all ? " and " : "",
                 100.0 * (double)singles / (double)others, all ? "others" : "ops");
    if (ag_counted(AG_COUNT_SUBMIT_TRIALS))
        snprintf(compared, sizeof(compared),
                 " (with it the program was %.2f times as fast when last compared)",
                 (double)ag_counted(AG_COUNT_SUBMIT_PERCENT) / 100);
    if (gained_ms > 0)
        snprintf(each, sizeof(each), ", %.2f s for each second that it saved", ms / gained_ms);
    tell_waits(waits, sizeof(waits));
    if (ops || singles)
        snprintf(
            text, size,
            "; the library's own thread launched %s%s%s and took %.1f ms of processor time%s%s",
            carried, singly, compared, ms, each, waits);
    else
        snprintf(text, size, "; the library's own thread launched none of the replayed ops%s%s",
                 compared, waits);
}

/* Prints the last of the four lines. It names the next step, in the words that the reader would
 * type. */
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
                                                  : "that is as good as all",
               more);
}

static void print_counters(const char *process, const struct ag_totals *t)
{
    ag_say("%s:   eager %llu, flushed %llu, covered by shorter graphs %llu, not looked at %llu",
           process, ull(t->eager), ull(t->flushed), ull(t->covered), ull(t->dormant));
    ag_say("%s:   mismatches %llu, switches %llu, resyncs %llu, sequences %llu (%llu periodic, "
           "%llu evicted)",
           process, ull(t->mismatches), ull(t->switches), ull(t->resyncs), ull(t->sequences),
           ull(t->periods), ull(t->evicted));
    ag_say("%s:   graphs built %llu (%llu nodes, %.1f ms), memory %.1f MiB of %llu", process,
           ull(ag_counted(AG_COUNT_BUILT)), ull(ag_counted(AG_COUNT_BUILT_NODES)),
           (double)ag_counted(AG_COUNT_BUILD_NS) / 1e6, (double)ag_budget_used() / 1048576.0,
           ull(ag_budget() >> 20));
    for (int i = AG_COUNT_BUILD_NS + 1; i < AG_NUM_COUNTS; i++)
        if (ag_counted((enum ag_count)i))
            ag_say("%s:   %s: %llu", process, ag_count_text((enum ag_count)i),
                   ull(ag_counted((enum ag_count)i)));
    print_sync_points(process);
}

/* The four lines: how much was replayed, what that saved, what it cost, and why not more. */
static void print_answers(const char *process, const struct ag_totals *t,
                          const struct ag_shortfall *f)
{
    char submitter[544];
    double share = 100.0 * (double)f->replayed / (double)f->launched;
    ag_say("%s: replayed %llu of %llu ops (%.1f%%) in %llu graph launches, %llu node updates",
           process, ull(f->replayed), ull(f->launched), share, ull(t->graph_launches),
           ull(t->updates));
    print_time(process, t);
    tell_submitter(submitter, sizeof(submitter), t);
    ag_say("%s: it cost %.1f ms to build graphs, with waits for the driver, %.1f ms of processor "
           "time to watch over what it holds back, and %.1f MiB for graphs (of "
           "AUTOGRAPH_MEMORY_MB, %u)%s",
           process, (double)ag_counted(AG_COUNT_BUILD_NS) / 1e6,
           (double)ag_counted(AG_COUNT_WATCH_NS) / 1e6, (double)ag_budget_used() / 1048576.0,
           ag_options.memory_mb, submitter);
    print_shortfall(process, t);
}

/* Brings the counters up to date that streams count, too. */
static void collect(struct ag_totals *t)
{
    ag_stats_collect(t);
    atomic_store(&ag_counts[AG_COUNT_AHEAD], t->waits);
    atomic_store(&ag_counts[AG_COUNT_HANDED], t->handed_chunks);
    atomic_store(&ag_counts[AG_COUNT_HANDED_SINGLY], t->singles);
    atomic_store(&ag_counts[AG_COUNT_WEIGHED], ag_shortfall_weighed(t));
}

void ag_summary_print(void)
{
    struct ag_totals t;
    struct ag_shortfall f;
    char process[128];
    ag_process_name(process, sizeof(process));
    collect(&t);
    ag_shortfall_find(&t, &f);
    if (f.launched)
        print_answers(process, &t, &f);
    else /* torchrun, for one, looks how many GPUs there are */
        ag_say("%s: launched nothing", process);
    if (ag_options.stats > 1)
        print_counters(process, &t);
}

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
    page->handed = ag_counted(AG_COUNT_SUBMITTED);
    page->handed_ops = ag_counted(AG_COUNT_HANDED_OPS);
    page->handed_singly = ag_counted(AG_COUNT_SUBMITTED_SINGLY);
    ag_waited_fill(&page->waits);
    page->submit_ns = ag_counted(AG_COUNT_SUBMIT_NS);
    page->node_updates = t.updates;
    page->mismatches = t.mismatches;
    page->sequences = t.sequences;
    page->graphs_built = ag_counted(AG_COUNT_BUILT);
    page->build_ns = ag_counted(AG_COUNT_BUILD_NS);
    page->memory = ag_budget_used();
    page->memory_budget = ag_budget();
    page->sync_points = sync_points;
    page->watchdog = ag_counted(AG_COUNT_WATCHDOG);
    page->observe_only = atomic_load(&ag_state.observe_only);
}

void ag_figures_list(struct ag_lines *l)
{
    struct ag_totals t;
    collect(&t);
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
    if (t.handed_gained_ns > 0)
        ag_lines_add(l, "handed_gained_ns", "%lld", (long long)t.handed_gained_ns);
#define AG_COUNTER(name, text)                                                                     \
    ag_lines_add(l, #name, "%llu", (unsigned long long)ag_counted(AG_COUNT_##name));
#include "capture/tracking/count.def"
#undef AG_COUNTER
    struct ag_shortfall f;
    ag_shortfall_find(&t, &f);
    if (f.why) {
        ag_lines_add(l, "why not more", "%s", f.why);
        ag_lines_add(l, "what to do", "%s", f.advice);
    }
}
