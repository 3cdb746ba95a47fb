/*
 * diff.c - `autograph diff`: two dumps side by side, or those of two runs of several processes.
 * Handles and ids differ from run to run, so that sequences are matched by what they launch and
 * kernels by name and dimensions.
 */
#include "tools/names.h"
#include "tools/ranks.h"
#include "tools/tools.h"
#include "tools/need.h"
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

struct settings {
    struct common common;
    unsigned int top;
    bool fail;
    int before; /* how many of the dumps; 0: it was not said where those after begin */
};

enum { KEY_AFTER = 256 };

static const struct argp_option options[] = {
    {"top", 'n', "N", 0, "at most N rows in each table (20; 0: all)", 0},
    {"after", KEY_AFTER, NULL, 0, "stands between the dumps of two runs of several processes", 0},
    {"fail", 'x', NULL, 0, "exit with 1 where coverage fell by more than one percent point", 0},
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct settings *s = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &s->common;
        return 0;
    case 'n':
        s->top = option_number(state, arg);
        return 0;
    case 'x':
        s->fail = true;
        return 0;
    case KEY_AFTER:
        if (s->before || !s->common.num_dumps)
            argp_error(state, "--after stands once, between the dumps before and those after");
        s->before = s->common.num_dumps;
        return 0;
    case ARGP_KEY_SUCCESS:
        if (!s->before && s->common.num_dumps > 2)
            argp_error(state,
                       "which dumps are before, and which after? BEFORE... --after AFTER...");
        if (s->before == s->common.num_dumps)
            argp_error(state, "no dump follows --after");
        s->before = s->before ? s->before : 1;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {options,
                                 parse,
                                 "BEFORE AFTER\nBEFORE... --after AFTER...",
                                 "Two dumps compared: did coverage rise or fall, and where. Of two "
                                 "runs of several processes first rank by rank, then all together.",
                                 common_children,
                                 NULL,
                                 NULL};

/* Something that both dumps may have, under one name. */
struct entry {
    uint64_t ops[2], carried[2];
    double change; /* of the launches that did not go as graphs */
    UT_hash_handle hh;
    char name[];
};

static struct entry *entry_get(struct entry **all, const char *name)
{
    struct entry *e;
    size_t n = strlen(name);
    HASH_FIND(hh, *all, name, n, e);
    if (e)
        return e;
    e = need(calloc(1, sizeof(*e) + n + 1));
    memcpy(e->name, name, n + 1);
    HASH_ADD_KEYPTR(hh, *all, e->name, n, e);
    return e;
}

static void add_kernels(struct entry **all, const struct model *m, int side)
{
    char name[2048];
    const struct dump *d = m->d;
    for (uint32_t i = 1; i < d->num_signatures; i++) {
        if (!m->signature_ops[i])
            continue;
        names_of_signature(d, &d->signatures[i], name, sizeof(name));
        entry_get(all, name)->ops[side] += m->signature_ops[i];
    }
    for (uint32_t i = 1; i < d->num_graphs; i++)
        for (uint32_t k = 0; m->graphs[i].launches && k < d->graphs[i].d.count; k++) {
            names_of_signature(d, dump_signature(d, d->graphs[i].signatures[k]), name,
                               sizeof(name));
            entry_get(all, name)->carried[side] += m->graphs[i].launches;
        }
}

static void add_sequences(struct entry **all, const struct model *m, int side)
{
    char names[2048];
    for (uint32_t i = 0; i < m->num_sequences; i++) {
        const struct model_sequence *s = &m->sequences[i];
        if (!s->launches)
            continue;
        sequence_names(m, s, names, sizeof(names));
        struct entry *e = entry_get(all, names);
        e->ops[side] += s->carried;
        e->carried[side] += s->launches;
    }
}

static void add_reasons(struct entry **all, const struct model *m, int side)
{
    const struct model_reasons *lists[] = {&m->flushes, &m->immediate, &m->eager};
    for (size_t k = 0; k < 3; k++)
        for (uint32_t i = 0; i < lists[k]->count; i++) {
            const struct model_reason *r = &lists[k]->list[i];
            struct entry *e = entry_get(all, dump_string(m->d, r->text));
            e->ops[side] += r->ops;
            e->carried[side] += r->times;
        }
}

static int by_change(const struct entry *a, const struct entry *b)
{
    double x = a->change < 0 ? -a->change : a->change, y = b->change < 0 ? -b->change : b->change;
    return x != y ? (x < y ? 1 : -1) : strcmp(a->name, b->name);
}

static void number_row(struct table_output *o, const char *what, uint64_t a, uint64_t b)
{
    char text[64];
    table_text(o, what);
    table_number(o, a);
    table_number(o, b);
    snprintf(text, sizeof(text), "%+lld", (long long)(b - a));
    table_text(o, text);
}

static void real_row(struct table_output *o, const char *what, double a, double b)
{
    char text[64];
    table_text(o, what);
    table_real(o, a, 2);
    table_real(o, b, 2);
    snprintf(text, sizeof(text), "%+.2f", b - a);
    table_text(o, text);
}

static void totals(struct table_output *o, const struct model *a, const struct model *b)
{
    table_begin(o, "totals", "Totals", "<What|Before|After|Change");
    real_row(o, "coverage (%)", model_coverage(a), model_coverage(b));
    number_row(o, "launches", a->ops, b->ops);
    number_row(o, "by graphs", a->replayed + a->covered, b->replayed + b->covered);
    number_row(o, "held back, then one by one", a->flushed, b->flushed);
    number_row(o, "submitted at once", a->done[AG_DONE_EAGER] + a->done[AG_DONE_RECORDED],
               b->done[AG_DONE_EAGER] + b->done[AG_DONE_RECORDED]);
    number_row(o, "graph launches", a->launches, b->launches);
    if (a->handed.slots || b->handed.slots) {
        number_row(o, "of these by the library's own thread", a->handed.own_launches,
                   b->handed.own_launches);
        real_row(o, "launches handed over to it (%)",
                 model_share(a->handed.ops + a->handed.singles, a->ops),
                 model_share(b->handed.ops + b->handed.singles, b->ops));
        number_row(o, "of these one by one", a->handed.singles, b->handed.singles);
        real_row(o, "wait for it, median (us)", (double)a->handed.median_ns / 1e3,
                 (double)b->handed.median_ns / 1e3);
        real_row(o, "wait for it, longest (us)", (double)a->handed.longest_ns / 1e3,
                 (double)b->handed.longest_ns / 1e3);
        real_row(o, "its processor time (ms)", (double)a->handed.submit_ns / 1e6,
                 (double)b->handed.submit_ns / 1e6);
    }
    number_row(o, "updates of arguments", a->updates, b->updates);
    number_row(o, "graphs built", a->builds, b->builds);
    number_row(o, "sync points", a->sync_points, b->sync_points);
    real_row(o, "host time saved (ms)", a->saved_ns / 1e6, b->saved_ns / 1e6);
    real_row(o, "building (ms)", (double)a->build_ns / 1e6, (double)b->build_ns / 1e6);
    real_row(o, "seconds", (double)(a->last_ns - a->first_ns) / 1e9,
             (double)(b->last_ns - b->first_ns) / 1e9);
    table_end(o);
}

static void free_entries(struct entry *all)
{
    struct entry *e = all, *next;
    HASH_CLEAR(hh, all);
    for (; e; e = next) {
        next = e->hh.next;
        free(e);
    }
}

static void kernels(struct table_output *o, const struct model *a, const struct model *b,
                    unsigned int top)
{
    struct entry *all = NULL;
    add_kernels(&all, a, 0);
    add_kernels(&all, b, 1);
    for (struct entry *e = all; e; e = e->hh.next)
        e->change = model_share(e->carried[1], e->ops[1]) - model_share(e->carried[0], e->ops[0]);
    HASH_SORT(all, by_change);
    table_begin(o, "kernels", "Kernels, by the change of their share in graphs",
                "Launches before|Launches after|By graphs before (%)|By graphs after (%)|<Kernel");
    for (struct entry *e = all; e && top--; e = e->hh.next) {
        table_number(o, e->ops[0]);
        table_number(o, e->ops[1]);
        table_real(o, model_share(e->carried[0], e->ops[0]), 1);
        table_real(o, model_share(e->carried[1], e->ops[1]), 1);
        table_text(o, e->name);
    }
    table_end(o);
    free_entries(all);
}

/* Two columns for each dump: what `add` put in ops and in carried. */
static void pairs(struct table_output *o, const struct model *a, const struct model *b,
                  void (*add)(struct entry **all, const struct model *m, int side), const char *id,
                  const char *title, const char *columns, unsigned int top)
{
    struct entry *all = NULL;
    add(&all, a, 0);
    add(&all, b, 1);
    for (struct entry *e = all; e; e = e->hh.next)
        e->change = (double)e->ops[1] - (double)e->ops[0];
    HASH_SORT(all, by_change);
    table_begin(o, id, title, columns);
    for (struct entry *e = all; e && top--; e = e->hh.next) {
        table_number(o, e->ops[0]);
        table_number(o, e->ops[1]);
        table_number(o, e->carried[0]);
        table_number(o, e->carried[1]);
        table_text(o, e->name);
    }
    table_end(o);
    free_entries(all);
}

static void tell_why(struct table_output *o, const char *which, const struct model *m)
{
    if (model_falls_short(m) && *m->why)
        table_say(o, " Why not more %s: %s.%s%s%s\n", which, m->why,
                  *m->advice ? " What to do: " : "", m->advice, *m->advice ? "." : "");
}

static void rank_row(struct table_output *o, const struct ranks_row *a, const struct ranks_row *b)
{
    char name[32], change[32] = "";
    table_text(o, ranks_name(a ? a : b, name, sizeof(name)));
    for (int i = 0; i < 2; i++) {
        const struct ranks_row *row = i ? b : a;
        row ? table_number(o, row->ops) : table_text(o, "");
        row ? table_real(o, row->coverage, 1) : table_text(o, "");
        row ? table_real(o, row->saved_ns / 1e6, 1) : table_text(o, "");
    }
    if (a && b)
        snprintf(change, sizeof(change), "%+.1f", b->coverage - a->coverage);
    table_text(o, change);
}

static void ranks(struct table_output *o, const struct ranks *a, const struct ranks *b)
{
    if (a->count == 1 && b->count == 1)
        return;
    table_begin(o, "ranks", "Processes, rank by rank",
                "<Process|Launches before|By graphs before (%)|Saved before (ms)|"
                "Launches after|By graphs after (%)|Saved after (ms)|Change (%)");
    for (int i = 0; i < a->count; i++)
        rank_row(o, &a->rows[i], ranks_partner(a, i, b));
    for (int i = 0; i < b->count; i++)
        if (!ranks_partner(b, i, a))
            rank_row(o, NULL, &b->rows[i]);
    table_end(o);
}

static void compare(const struct ranks *before, const struct ranks *after, struct table_output *o,
                    unsigned int top)
{
    const struct model *a = before->m, *b = after->m;
    double change = model_coverage(b) - model_coverage(a);
    table_say(o, " Coverage %s: %.1f %% before, %.1f %% after.\n",
              change > 0.05    ? "rose"
              : change < -0.05 ? "fell"
                               : "is the same",
              model_coverage(a), model_coverage(b));
    tell_why(o, "before", a);
    tell_why(o, "after", b);
    ranks(o, before, after);
    totals(o, a, b);
    kernels(o, a, b, top);
    pairs(o, a, b, add_sequences, "sequences", "Sequences, by the change of what they carried",
          "Launches before|Launches after|Graph launches before|Graph launches after|<Kernels",
          top);
    pairs(o, a, b, add_reasons, "reasons", "Why launches did not go as graphs",
          "Launches before|Launches after|Times before|Times after|<Reason", top);
}

int verb_diff(int argc, char **argv)
{
    static struct settings s = {
        .common = {.wish.main = "totals", .min_dumps = 2, .max_dumps = DUMP_MOST_PROCESSES},
        .top = 20};
    int status = 1;
    argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &s);
    struct ranks *a = ranks_load(s.common.dumps, s.before);
    struct ranks *b =
        a ? ranks_load(s.common.dumps + s.before, s.common.num_dumps - s.before) : NULL;
    FILE *out = b ? common_open(&s.common) : NULL;
    if (out) {
        struct table_output *o = table_open(out, &s.common.wish);
        compare(a, b, o, s.top ? s.top : UINT32_MAX);
        bool found = table_close(o);
        bool fell = model_coverage(b->m) < model_coverage(a->m) - 1;
        bool sound = a->sound && b->sound;
        status = common_close(&s.common, out) && found && sound && !(s.fail && fell) ? 0 : 1;
    }
    ranks_free(a);
    ranks_free(b);
    return status;
}
