/* top.c - `autograph top`: the figures of running processes, again and again. */
#include "tools/tools.h"
#include "tools/top_tree.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct settings {
    enum table_format format;
    const char *table;
    bool headless;
    long pid;
    double seconds;
    unsigned long times;
};

static const struct argp_option options[] = {
    {"interval", 'd', "SECONDS", 0, "time between two looks (1)", 0},
    {"count", 'n', "N", 0, "end after N looks (0: when the process ends)", 0},
    {"format", 'f', "FORMAT", 0, "text, csv, json or jsonl (text)", 0},
    {"table", 't', "NAME", 0, "only this table: processes or live; csv has one only (live)", 0},
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct settings *s = state->input;
    char *end;
    switch (key) {
    case 'd':
        s->seconds = strtod(arg, &end);
        if (*end || end == arg || !(s->seconds >= 0.01 && s->seconds <= 3600))
            argp_error(state, "%s is not a time from 0.01 to 3600 seconds", arg);
        return 0;
    case 'n':
        s->times = option_number(state, arg);
        return 0;
    case 'f':
        s->format = option_format(state, arg);
        return 0;
    case 't':
        s->table = arg;
        return 0;
    case ARGP_KEY_ARG:
        s->pid = strtol(arg, &end, 10);
        if (*end || end == arg || s->pid <= 0 || state->arg_num)
            argp_error(state, "%s is not the number of a process", arg);
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "which process?");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    options,
    parse,
    "PID",
    "Live figures of a process that runs under libautograph, and of what it started, in the "
    "terminal: a row for each process, then all together.",
    NULL,
    NULL,
    NULL};

static void row(struct table_output *o, const char *what, uint64_t now, uint64_t before,
                double seconds)
{
    table_text(o, what);
    table_number(o, now);
    table_real(o, seconds > 0 && now >= before ? (double)(now - before) / seconds : 0, 0);
}

static void wait_row(struct table_output *o, const char *what, uint64_t ns)
{
    table_text(o, what);
    table_real(o, (double)ns / 1e3, 1);
    table_none(o);
}

/* How long what was handed over waited, if some of it was timed. */
static void waits(struct table_output *o, const struct ag_live_waits *w)
{
    if (!ag_live_waits_timed(w))
        return;
    wait_row(o, "wait for that thread, median (us)", ag_live_waits_median_ns(w));
    wait_row(o, "wait for that thread, longest (us)", w->longest_ns);
}

/* A row for each process; those that only started others have no figures. */
static void processes(struct table_output *o, const struct top_tree *t, enum table_format format)
{
    char name[200];
    table_begin(
        o, "processes", "Processes",
        "Pid|~Parent|<Program|<Rank|Launches|Each second|By graphs (%)|~Graph launches|~Memory "
        "(MiB)|<Why not more");
    for (size_t i = 0; i < t->count; i++) {
        const struct top_process *p = &t->list[i];
        const struct ag_live_page *now = &p->now;
        double seconds = (double)(now->now_ns - p->before.now_ns) / 1e9;
        if (!p->shown)
            continue;
        snprintf(name, sizeof(name), "%*s%s", format == TABLE_TEXT ? 2 * p->depth : 0, "",
                 p->page ? now->program : p->program);
        table_number(o, (uint64_t)p->pid);
        table_number(o, (uint64_t)p->parent);
        table_text(o, name);
        table_text(o, now->rank);
        if (!p->page) {
            for (int k = 0; k < 6; k++)
                table_none(o);
            continue;
        }
        table_number(o, now->ops);
        table_real(o, seconds > 0 ? (double)(now->ops - p->before.ops) / seconds : 0, 0);
        table_real(o, model_share(now->replayed + now->covered, now->ops), 1);
        table_number(o, now->graph_launches);
        table_real(o, (double)now->memory / 1048576, 1);
        table_text(o, now->why);
    }
    table_end(o);
}

static void add(struct ag_live_page *sum, const struct ag_live_page *p)
{
    sum->ops += p->ops;
    sum->replayed += p->replayed;
    sum->covered += p->covered;
    sum->flushed += p->flushed;
    sum->eager += p->eager;
    sum->dormant += p->dormant;
    sum->graph_launches += p->graph_launches;
    sum->handed += p->handed;
    sum->handed_ops += p->handed_ops;
    sum->submit_ns += p->submit_ns;
    for (uint32_t i = 0; i < AG_LIVE_WAITS; i++)
        sum->waits.counts[i] += p->waits.counts[i];
    if (p->waits.longest_ns > sum->waits.longest_ns)
        sum->waits.longest_ns = p->waits.longest_ns;
    sum->handed_singly += p->handed_singly;
    sum->node_updates += p->node_updates;
    sum->mismatches += p->mismatches;
    sum->sync_points += p->sync_points;
    sum->watchdog += p->watchdog;
    sum->sequences += p->sequences;
    sum->graphs_built += p->graphs_built;
    sum->streams += p->streams;
    sum->memory += p->memory;
    sum->memory_budget += p->memory_budget;
    sum->observe_only |= p->observe_only;
    if (!sum->start_ns || p->start_ns < sum->start_ns)
        sum->start_ns = p->start_ns;
    if (p->now_ns > sum->now_ns)
        sum->now_ns = p->now_ns;
}

/* False: there is no table of the name that is wanted. */
static bool show(const struct settings *s, const struct top_tree *t, bool terminal)
{
    struct ag_live_page sums[2] = {{.ops = 0}, {.ops = 0}}, *before = &sums[0], *now = &sums[1];
    const struct top_process *one = NULL;
    char who[128];
    int count = 0;
    for (size_t i = 0; i < t->count; i++)
        if (t->list[i].page) {
            one = &t->list[i];
            add(before, &one->before);
            add(now, &one->now);
            count++;
        }
    if (count == 1)
        snprintf(who, sizeof(who), "%s (pid %ld)", one->now.program, one->pid);
    else
        snprintf(who, sizeof(who), "%d processes", count);
    double seconds = (double)(now->now_ns - before->now_ns) / 1e9;
    uint64_t carried = now->replayed + now->covered;
    struct table_wish wish = {
        .format = s->format, .table = s->table, .main = "live", .headless = s->headless};
    struct table_output *o = table_open(stdout, &wish);
    if (terminal)
        fputs("\033[H\033[J", stdout);
    table_say(o, " %s%s: %.1f %% of %llu launches as graphs, %.1f of %.0f MiB in use, %.0f s\n",
              who, count == 1 && now->observe_only ? ", observing only" : "",
              model_share(carried, now->ops), (unsigned long long)now->ops,
              (double)now->memory / 1048576, (double)now->memory_budget / 1048576,
              (double)(now->now_ns - now->start_ns) / 1e9);
    if (count == 1 && *one->now.why)
        table_say(o, " Why not more: %s.\n", one->now.why);
    processes(o, t, s->format);
    table_begin(o, "live", "Figures", "<What|Total|Each second");
    row(o, "launches", now->ops, before->ops, seconds);
    row(o, "replayed by graphs", now->replayed, before->replayed, seconds);
    row(o, "by shorter graphs", now->covered, before->covered, seconds);
    row(o, "held back, then one by one", now->flushed, before->flushed, seconds);
    row(o, "submitted at once", now->eager, before->eager, seconds);
    row(o, "let through without a look", now->dormant, before->dormant, seconds);
    row(o, "graph launches", now->graph_launches, before->graph_launches, seconds);
    row(o, "of these by the library's own thread", now->handed, before->handed, seconds);
    row(o, "launches in those", now->handed_ops, before->handed_ops, seconds);
    row(o, "launches one by one by that thread", now->handed_singly, before->handed_singly,
        seconds);
    row(o, "processor time of that thread (us)", now->submit_ns / 1000, before->submit_ns / 1000,
        seconds);
    waits(o, &now->waits);
    row(o, "updates of arguments", now->node_updates, before->node_updates, seconds);
    row(o, "departures from a sequence", now->mismatches, before->mismatches, seconds);
    row(o, "sync points", now->sync_points, before->sync_points, seconds);
    row(o, "flushes by the watchdog", now->watchdog, before->watchdog, seconds);
    row(o, "sequences", now->sequences, before->sequences, seconds);
    row(o, "graphs built", now->graphs_built, before->graphs_built, seconds);
    row(o, "streams", now->streams, before->streams, seconds);
    table_end(o);
    bool found = table_close(o);
    fflush(stdout);
    return found;
}

static void pause_for(double seconds)
{
    struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&t, NULL);
}

int verb_top(int argc, char **argv)
{
    struct settings s = {.seconds = 1};
    argp_parse(&argp, argc, argv, 0, NULL, &s);
    struct top_tree t = {NULL, 0};
    bool terminal = s.format == TABLE_TEXT && table_knows_codes(stdout);
    for (unsigned long i = 0; !s.times || i < s.times; i++) {
        bool there = top_tree_find(&t, s.pid), any = false;
        int why = errno;
        for (size_t k = 0; k < t.count; k++)
            any |= t.list[k].page != NULL;
        if (i && (!there || !any)) {
            fprintf(stderr, "autograph: process %ld has ended%s\n", s.pid,
                    there ? " what it ran" : "");
            break;
        }
        if (!there || !any) {
            fprintf(stderr, "autograph: process %ld: %s\n", s.pid,
                    there ? "it does not run under libautograph, nor does a child of it, or none "
                            "has come to CUDA yet"
                          : strerror(why));
            top_tree_free(&t);
            return 1;
        }
        top_tree_ask(&t);
        pause_for(s.seconds);
        top_tree_read(&t);
        if (!show(&s, &t, terminal)) {
            top_tree_free(&t);
            return 1;
        }
        s.headless = true;
    }
    top_tree_free(&t);
    return 0;
}
