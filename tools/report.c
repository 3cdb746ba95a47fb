/* report.c - `autograph report`: what happened, why not more, and what to do about it. */
#include "tools/tools.h"
#include "tools/names.h"
#include "tools/ranks.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct settings {
    struct common common;
    unsigned int top;
};

static const struct argp_option options[] = {
    {"top", 'n', "N", 0, "at most N rows in each table (20; 0: all)", 0}, {0}};

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
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    options,
    parse,
    "DUMP...",
    "What a dump says: sequences by the time they saved, the reasons why "
    "launches did not go as graphs, and advice. Of several dumps (ranks, workers) first a row for "
    "each process, then all of them together.",
    common_children,
    NULL,
    NULL};

/* ---- names of a sequence ---------------------------------------------------------------- */

enum { MOST_NAMES = 4096, LONGEST_GROUP = 32 };

/* The kernels of a sequence in order; the same ops cut into graphs in another way count once. */
static uint32_t list_names(const struct model *m, const struct model_sequence *s, const char **list)
{
    uint32_t n = 0, covered = 0;
    for (uint32_t i = 0; i < s->num_graphs; i++) {
        const struct dump_graph *g = dump_graph(m->d, s->graphs[i]);
        if (i && g->d.first < covered)
            continue;
        covered = g->d.first + g->d.count;
        for (uint32_t k = 0; k < g->d.count && n < MOST_NAMES; k++)
            list[n++] =
                names_kernel(dump_string(m->d, dump_signature(m->d, g->signatures[k])->name));
    }
    return n;
}

/* How often the `period` names from `at` on come in a row. */
static uint32_t repeats(const char **list, uint32_t n, uint32_t at, uint32_t period)
{
    uint32_t k = at + period;
    while (k < n && !strcmp(list[k], list[k - period]))
        k++;
    return (k - at) / period;
}

void sequence_names(const struct model *m, const struct model_sequence *s, char *text, size_t size)
{
    static const char *list[MOST_NAMES];
    uint32_t n = list_names(m, s, list);
    size_t used = 0;
    *text = 0;
    for (uint32_t at = 0; at < n && used < size;) {
        uint32_t period = 1, times = 1;
        for (uint32_t p = 1; p <= LONGEST_GROUP && at + 2 * p <= n; p++) {
            uint32_t r = repeats(list, n, at, p);
            if (r > 1 && r * p > times * period) {
                period = p;
                times = r;
            }
        }
        bool group = period > 1 && times > 1;
        used +=
            (size_t)snprintf(text + used, size - used, "%s%s", at ? ", " : "", group ? "(" : "");
        for (uint32_t i = 0; i < period && used < size; i++)
            used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "", list[at + i]);
        if (times > 1 && used < size)
            used += (size_t)snprintf(text + used, size - used, "%s x%u", group ? ")" : "", times);
        at += period * times;
    }
    if (used >= size)
        memcpy(text + size - 4, "...", 4);
}

/* ---- tables ----------------------------------------------------------------------------- */

static void row(struct table_output *o, const char *what, uint64_t ops, uint64_t of)
{
    table_text(o, what);
    table_number(o, ops);
    table_real(o, model_share(ops, of), 1);
}

static void summary(const struct model *m, struct table_output *o)
{
    table_begin(o, "launches", "What became of the launches", "<Launches|Count|Share (%)");
    row(o, "all", m->ops, m->ops);
    row(o, "replayed by graphs", m->replayed, m->ops);
    row(o, "by shorter graphs, where a sequence was cut short", m->covered, m->ops);
    row(o, "held back, then submitted one by one", m->flushed, m->ops);
    row(o, "submitted at once", m->done[AG_DONE_EAGER], m->ops);
    row(o, "submitted at once, recorded for a graph", m->done[AG_DONE_RECORDED], m->ops);
    row(o, "let through without a look", m->done[AG_DONE_PASSED], m->ops);
    row(o, "cannot be recorded", m->done[AG_DONE_IMMEDIATE], m->ops);
    table_end(o);

    table_begin(o, "work", "What the library did", "<Work|Count|Host time (us)|Each (us)");
    table_text(o, "graph launches");
    table_number(o, m->launches);
    table_real(o, (double)m->graph_ns / 1e3, 1);
    table_real(o, m->launches ? (double)m->graph_ns / 1e3 / (double)m->launches : 0, 2);
    table_text(o, "graphs built");
    table_number(o, m->builds);
    table_real(o, (double)m->build_ns / 1e3, 1);
    table_real(o, m->builds ? (double)m->build_ns / 1e3 / (double)m->builds : 0, 2);
    table_text(o, m->eager_is_assumed ? "eager launch (assumed)" : "eager launch (median)");
    table_number(o, m->eager_calls);
    table_real(o, (double)m->eager_total_ns / 1e3, 1);
    table_real(o, m->eager_ns / 1e3, 2);
    table_text(o, "saved on the host");
    table_number(o, m->replayed + m->covered);
    table_real(o, m->saved_ns / 1e3, 1);
    table_real(
        o, m->replayed + m->covered ? m->saved_ns / 1e3 / (double)(m->replayed + m->covered) : 0,
        2);
    table_end(o);
}

static void launcher(struct table_output *o, const char *who, uint64_t launches, uint64_t of,
                     uint64_t ops, uint64_t ns)
{
    table_text(o, who);
    table_number(o, launches);
    table_real(o, model_share(launches, of), 1);
    table_number(o, ops);
    table_real(o, (double)ns / 1e3, 1);
    table_real(o, launches ? (double)ns / 1e3 / (double)launches : 0, 2);
}

static void value(struct table_output *o, const char *what, double number, int decimals)
{
    table_text(o, what);
    table_real(o, number, decimals);
}

static void count(struct table_output *o, const char *what, uint64_t number)
{
    table_text(o, what);
    table_number(o, number);
}

/* Who launched the graphs, if that was not the program alone. */
static void handed_over(const struct model *m, struct table_output *o)
{
    const struct handed *h = &m->handed;
    if (!h->slots)
        return;
    table_begin(o, "launchers", "Who launched the graphs",
                "<Launched by|Graph launches|Share (%)|Launches in them|Time (us)|Each (us)");
    launcher(o, "the program's threads", m->launches - h->own_launches, m->launches,
             m->replayed + m->covered - h->own_ops, m->graph_ns);
    launcher(o, "the library's own thread", h->own_launches, m->launches, h->own_ops, h->own_ns);
    table_end(o);
    table_begin(o, "handed_over", "What was handed over to the library's own thread",
                "<Handed over|Value");
    count(o, "chunks", h->chunks);
    count(o, "launches in them", h->ops);
    count(o, "launches one by one", h->singles);
    value(o, "share of all launches (%)", model_share(h->ops + h->singles, m->ops), 1);
    count(o, "chunks that the program took back", h->taken_back);
    count(o, "single launches that the program took back", h->singles - h->own_singles);
    value(o, "wait, median (us)", (double)h->median_ns / 1e3, 1);
    value(o, "wait, 99 of 100 at most (us)", (double)h->p99_ns / 1e3, 1);
    value(o, "wait, longest (us)", (double)h->longest_ns / 1e3, 1);
    if (h->knows_submit_ns) {
        value(o, "processor time of that thread (ms)", (double)h->submit_ns / 1e6, 1);
        if (h->gained_ns && (h->own_launches || h->own_singles)) /* else the program did it all */
            value(o, "processor time for each second saved (s)",
                  (double)h->submit_ns / (double)h->gained_ns, 2);
    }
    if (h->percent)
        count(o, "speed with it when last compared (%)", h->percent);
    table_end(o);
}

static void sequences(const struct model *m, struct table_output *o, unsigned int top,
                      bool for_people)
{
    char names[2048];
    double all = 0; /* what was saved and what was lost do not make up for each other */
    for (uint32_t i = 0; i < m->num_sequences; i++)
        all += fabs(m->sequences[i].saved_ns);
    table_begin(o, "sequences", "Sequences, by the host time they saved",
                "Saved (%)|Saved (us)|Launches carried|~Of all (%)|Length|~Graphs|Graph "
                "launches|~Launches a "
                "graph|~Updates a graph launch|~Builds|~Stream|~Processes|<Kernels");
    for (uint32_t i = 0; i < m->num_sequences && i < top; i++) {
        const struct model_sequence *s = &m->sequences[i];
        double launches = s->launches ? (double)s->launches : 1;
        sequence_names(m, s, names, for_people ? 300 : sizeof(names));
        table_real(o, all > 0 ? 100 * s->saved_ns / all : 0, 1);
        table_real(o, s->saved_ns / 1e3, 1);
        table_number(o, s->carried);
        table_real(o, model_share(s->carried, m->ops), 1);
        table_number(o, s->length);
        table_number(o, s->num_graphs);
        table_number(o, s->launches);
        table_real(o, (double)s->carried / launches, 1);
        table_real(o, (double)s->updates / launches, 2);
        table_number(o, s->builds);
        table_number(o, s->stream);
        table_number(o, s->processes);
        table_text(o, names);
    }
    table_end(o);
}

/* Several calls in one function are one place here. */
struct place {
    char text[512];
    uint64_t times;
};
enum { MOST_PLACES = 16 };

static int by_place_times(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    return x->times < y->times ? 1 : x->times > y->times ? -1 : strcmp(x->text, y->text);
}

static int places_of(const struct model *m, const struct model_tally *t, struct place *places)
{
    int n = 0, k;
    for (uint32_t i = 0; i < t->count; i++) {
        struct place p = {.times = t->list[i].times};
        names_of_site(m->d, t->list[i].id, p.text, sizeof(p.text));
        for (k = 0; k < n && strcmp(places[k].text, p.text); k++) {
        }
        if (k < n)
            places[k].times += p.times;
        else if (n < MOST_PLACES)
            places[n++] = p;
    }
    qsort(places, (size_t)n, sizeof(*places), by_place_times);
    return n;
}

/* Who did it for the most part: "step in solver, 80 %", or nothing. */
static void main_place(const struct model *m, const struct model_tally *t, struct table_output *o)
{
    static struct place places[MOST_PLACES];
    char text[600];
    int n = places_of(m, t, places);
    if (n)
        snprintf(text, sizeof(text), "%s, %.0f %%", places[0].text,
                 model_share(places[0].times, t->met));
    table_text(o, n ? text : "");
}

static void reasons(const struct model *m, struct table_output *o, unsigned int top)
{
    table_begin(o, "flushes", "Why launches that were held back went one by one",
                "Launches|Share (%)|Times|By shorter graphs|Host time (us)|<Reason|<Made by");
    for (uint32_t i = 0; i < m->flushes.count && i < top; i++) {
        const struct model_reason *r = &m->flushes.list[i];
        table_number(o, r->ops);
        table_real(o, model_share(r->ops, m->ops), 2);
        table_number(o, r->times);
        table_number(o, r->covered);
        table_real(o, (double)r->ns / 1e3, 1);
        table_text(o, dump_string(m->d, r->text));
        main_place(m, &r->sites, o);
    }
    table_end(o);
    if (m->eager.count) {
        table_begin(o, "eager", "Why launches were submitted at once",
                    "Launches|Share (%)|<Reason");
        for (uint32_t i = 0; i < m->eager.count && i < top; i++) {
            table_number(o, m->eager.list[i].ops);
            table_real(o, model_share(m->eager.list[i].ops, m->ops), 2);
            table_text(o, dump_string(m->d, m->eager.list[i].text));
        }
        table_end(o);
    }
    if (m->immediate.count) {
        table_begin(o, "unrecordable", "Why launches could not be recorded",
                    "Launches|Share (%)|<Reason|<Made by");
        for (uint32_t i = 0; i < m->immediate.count && i < top; i++) {
            const struct model_reason *r = &m->immediate.list[i];
            table_number(o, r->ops);
            table_real(o, model_share(r->ops, m->ops), 2);
            table_text(o, dump_string(m->d, r->text));
            main_place(m, &r->sites, o);
        }
        table_end(o);
    }
}

/* Where sequences did not go on as before. */
static void departures(const struct model *m, struct table_output *o, unsigned int top)
{
    for (uint32_t i = 0; i < m->flushes.count; i++) {
        const struct model_tally *names = &m->flushes.list[i].names;
        if (!names->count)
            continue;
        table_begin(o, "departures", "What came instead of what a sequence held before",
                    "Times|Share (%)|<Launch");
        for (uint32_t k = 0; k < names->count && k < top; k++) {
            table_number(o, names->list[k].times);
            table_real(o, model_share(names->list[k].times, names->met), 1);
            table_text(o, names_kernel(dump_string(m->d, names->list[k].id)));
        }
        table_end(o);
    }
}

static void sync_points(const struct model *m, struct table_output *o, unsigned int top)
{
    static struct place places[MOST_PLACES];
    table_begin(o, "sync_points", "Calls that end sequences, and who makes them",
                "Times|Launches between|Of the call (%)|<Call|<Made by");
    for (uint32_t i = 0, rows = 0; i < m->cuts.count && rows < top; i++) {
        const struct model_reason *r = &m->cuts.list[i];
        int n = places_of(m, &r->sites, places);
        for (int k = 0; k < MODEL_MOST_SITES && (k < n || !k); k++, rows++) {
            table_number(o, r->times);
            table_real(o, r->times ? (double)r->ops_before / (double)r->times : 0, 1);
            table_real(o, n ? model_share(places[k].times, r->sites.met) : 0, 1);
            table_text(o, dump_string(m->d, r->text));
            table_text(o, n ? places[k].text : "");
        }
    }
    table_end(o);
}

static void streams(const struct model *m, struct table_output *o)
{
    table_begin(o, "streams", "Streams",
                "Stream|<Kind|Priority|Launches|By graphs (%)|Flushed (%)|Graph launches");
    for (uint32_t i = 1; i < m->num_streams; i++) {
        const struct ag_dump_stream *s = &m->d->streams[i];
        if (!s->id)
            continue;
        table_number(o, i);
        table_text(o, s->flags & AG_DUMP_STREAM_LEGACY     ? "legacy default"
                      : s->flags & AG_DUMP_STREAM_BLOCKING ? "blocking"
                                                           : "non-blocking");
        table_real(o, s->priority, 0);
        table_number(o, m->streams[i].ops);
        table_real(o, model_share(m->streams[i].carried, m->streams[i].ops), 1);
        table_real(o, model_share(m->streams[i].flushed, m->streams[i].ops), 1);
        table_number(o, m->streams[i].launches);
    }
    table_end(o);
}

static void advise(const struct model *m, struct table_output *o)
{
    char *list[MODEL_MOST_ADVICE];
    int n = model_advice(m, list);
    table_begin(o, "advice", "Advice", "<Advice");
    for (int i = 0; i < n; i++)
        table_text(o, list[i]);
    table_end(o);
    for (int i = 0; i < n; i++)
        free(list[i]);
}

/* 13000: for CUDA 13.0; what several processes say is left as it is where they differ. */
static void about_driver(struct table_output *o, const char *value)
{
    char text[64];
    int version = strspn(value, "0123456789") == strlen(value) ? atoi(value) : 0;
    snprintf(text, sizeof(text), "for CUDA %d.%d", version / 1000, version % 1000 / 10);
    table_text(o, version ? text : value);
}

static void about(const struct model *m, struct table_output *o)
{
    static const char *const names[] = {"program", "command", "rank",   "pid",
                                        "host",    "library", "driver", "AUTOGRAPH"};
    table_begin(o, "process", "Process", "<Name|<Value");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *value = dump_process(m->d, names[i]);
        if (!*value && !strcmp(names[i], "rank"))
            continue;
        table_text(o, names[i]);
        if (!strcmp(names[i], "driver"))
            about_driver(o, value);
        else
            table_text(o, value);
    }
    if (model_falls_short(m)) {
        table_text(o, "why not more");
        table_text(o, m->why);
        table_text(o, "what to do");
        table_text(o, m->advice);
    }
    table_text(o, "seconds");
    table_real(o, (double)(m->last_ns - m->first_ns) / 1e9, 3);
    table_end(o);
}

int verb_report(int argc, char **argv)
{
    static struct settings s = {
        .common = {.wish.main = "sequences", .min_dumps = 1, .max_dumps = DUMP_MOST_PROCESSES},
        .top = 20};
    argp_parse(&argp, argc, argv, 0, NULL, &s);
    unsigned int top = s.top ? s.top : UINT32_MAX;
    struct ranks *r = ranks_load(s.common.dumps, s.common.num_dumps);
    FILE *out = r ? common_open(&s.common) : NULL;
    if (!out) {
        ranks_free(r);
        return 1;
    }
    const struct model *m = r->m;
    struct table_output *o = table_open(out, &s.common.wish);
    table_say(o,
              " %.1f %% of %llu launches went as graphs: %llu graph launch%s, %.1f ms of host "
              "time %s.\n",
              model_coverage(m), (unsigned long long)m->ops, (unsigned long long)m->launches,
              m->launches == 1 ? "" : "es", fabs(m->saved_ns) / 1e6,
              m->saved_ns < -50000 ? "lost" : "saved");
    if (model_falls_short(m) && *m->why)
        table_say(o, " Why not more: %s.%s%s%s\n", m->why, *m->advice ? " What to do: " : "",
                  m->advice, *m->advice ? "." : "");
    ranks_table(r, o);
    about(m, o);
    summary(m, o);
    handed_over(m, o);
    sequences(m, o, top, s.common.wish.format == TABLE_TEXT);
    reasons(m, o, top);
    departures(m, o, top);
    sync_points(m, o, top);
    streams(m, o);
    advise(m, o);
    bool sound = table_close(o) && r->sound;
    ranks_free(r);
    return common_close(&s.common, out) && sound ? 0 : 1;
}
