/*
 * html.c - `autograph html`: a dump as one page that needs nothing else. No script, no network: the
 * pictures are inline SVG, the colours follow the reader's light or dark mode, and tables scroll by
 * themselves on a narrow screen.
 */
#include "ag_version.h"
#include "tools/html.h"
#include "tools/names.h"
#include "tools/ranks.h"
#include "tools/tools.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    FOLDED = 70,
    MOST_ROWS = 20,
    MOST_PICTURES = 8,
    MOST_BOXES = 400,
    MOST_GRAPHS = 12,
    MOST_KEYS = 24
};

static const char style[] =
    ":root{color-scheme:light "
    "dark;--fg:#1c2430;--bg:#fff;--soft:#5b6778;--line:#d8dee8;--panel:#f5f7fa;"
    "--good:#2f8f5b;--rest:#c9d2de;--bad:#c2562d}"
    "@media(prefers-color-scheme:dark){:root{--fg:#e4e9f0;--bg:#12161c;--soft:#9aa7b8;--line:#"
    "2c3541;"
    "--panel:#1a2029;--good:#4fbf83;--rest:#3a4553;--bad:#e58a63}}"
    "*{box-sizing:border-box}body{margin:0 auto;max-width:72rem;padding:1rem;font:16px/1.5 "
    "system-ui,"
    "sans-serif;color:var(--fg);background:var(--bg)}h1{font-size:1.5rem;margin:.5rem "
    "0}h2{font-size:"
    "1.15rem;margin:2rem 0 .5rem}p{margin:.4rem "
    "0}.soft{color:var(--soft)}.cards{display:grid;gap:.75rem;"
    "grid-template-columns:repeat(4,1fr);margin:1rem "
    "0}@media(max-width:40rem){.cards{grid-template-columns:1fr 1fr}}.card{background:var(--panel);"
    "border:1px solid var(--line);border-radius:.5rem;padding:.6rem .8rem}.card "
    "b{display:block;font-size:"
    "1.4rem}.scroll{overflow-x:auto;border:1px solid "
    "var(--line);border-radius:.5rem}table{border-collapse:"
    "collapse;width:100%;font-size:.9rem}th,td{padding:.35rem "
    ".6rem;text-align:right;border-bottom:1px "
    "solid "
    "var(--line);white-space:nowrap}th.l,td.l{text-align:left}td.wrap{white-space:normal;min-width:"
    "16rem;overflow-wrap:anywhere}th{color:var(--soft);font-weight:600}tr:last-child "
    "td{border-bottom:0}"
    "svg{display:block;width:100%;height:auto}ul{padding-left:1.2rem}code{overflow-wrap:anywhere}"
    ".ends{display:flex;justify-content:space-between}figure{margin:1rem 0 "
    "1.5rem}figcaption{margin-bottom:.3rem;overflow-wrap:anywhere}.cut{display:grid;"
    "grid-template-columns:max-content 1fr;gap:2px .6rem;align-items:center}.cut "
    "span{text-align:right;font-size:.8rem;color:var(--soft)}.cut "
    "svg{height:1.1rem}.box{stroke:var(--bg);stroke-width:1;vector-effect:non-scaling-stroke}"
    ".upd{fill:var(--fg);pointer-events:none}.key{display:flex;"
    "flex-wrap:wrap;gap:.1rem 1rem;font-size:.85rem;margin-top:.4rem;overflow-wrap:anywhere}.key "
    "i{display:inline-block;width:.8rem;height:.8rem;border-radius:.15rem;margin-right:.35rem}";

static void number(FILE *out, uint64_t n)
{
    fprintf(out, "<td>%s</td>", html_grouped(n));
}

static void card(FILE *out, const char *label, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void card(FILE *out, const char *label, const char *format, ...)
{
    va_list args;
    fputs("<div class=\"card\"><b>", out);
    va_start(args, format);
    vfprintf(out, format, args);
    va_end(args);
    fprintf(out, "</b><span class=\"soft\">%s</span></div>\n", label);
}

static void begin_table(FILE *out, const char *id, const char *title, const char *columns)
{
    char copy[512], *rest;
    snprintf(copy, sizeof(copy), "%s", columns);
    fprintf(out, "<h2 id=\"%s\">%s</h2>\n<div class=\"scroll\"><table><thead><tr>", id, title);
    for (char *name = strtok_r(copy, "|", &rest); name; name = strtok_r(NULL, "|", &rest))
        fprintf(out, *name == '<' ? "<th class=\"l\">%s</th>" : "<th>%s</th>",
                name + (*name == '<'));
    fputs("</tr></thead><tbody>\n", out);
}

static void end_table(FILE *out, uint32_t shown, uint32_t all)
{
    fputs("</tbody></table></div>\n", out);
    if (all > shown)
        fprintf(out, "<p class=\"soft\">%u more in <code>autograph report</code>.</p>\n",
                all - shown);
    if (!all)
        fputs("<p class=\"soft\">None.</p>\n", out);
}

static void cell(FILE *out, const char *t)
{
    fputs("<td class=\"l wrap\">", out);
    html_text(out, t);
    fputs("</td>", out);
}

/* A long text is folded: its beginning, and all of it where the reader opens it. */
static void long_cell(FILE *out, char *t)
{
    size_t cut = FOLDED;
    if (strlen(t) < 2 * (size_t)FOLDED) {
        cell(out, t);
        return;
    }
    while (cut > 1 && strncmp(t + cut, ", ", 2)) /* between two names; one that is longer is cut */
        cut--;
    if (cut == 1)
        for (cut = FOLDED; (t[cut] & 0xc0) == 0x80;)
            cut++;
    char kept = t[cut];
    fputs("<td class=\"l wrap\"><details><summary>", out);
    t[cut] = 0;
    html_text(out, t);
    t[cut] = kept;
    fputs(" ...</summary>", out);
    html_text(out, t);
    fputs("</details></td>", out);
}

/* ---- parts ------------------------------------------------------------------------------ */

static const char *file_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

static void about(const struct model *m, FILE *out)
{
    const struct dump *d = m->d;
    char when[64] = "";
    time_t seconds = (time_t)(d->header.wall_ns / 1000000000u);
    int driver = atoi(dump_process(d, "driver"));
    struct tm tm;
    if (gmtime_r(&seconds, &tm))
        strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S UTC", &tm);
    fputs("<p class=\"soft\"><code>", out);
    html_text(out, dump_process(d, "command"));
    fputs(d->num_processes > 1 ? "</code><br>processes " : "</code><br>process ", out);
    html_text(out, dump_process(d, "pid"));
    fputs(*dump_process(d, "host") ? " on " : "", out);
    html_text(out, dump_process(d, "host"));
    fprintf(out, ", %s, %.2f s", when, (double)(m->last_ns - m->first_ns) / 1e9);
    if (driver > 0)
        fprintf(out, ", driver for CUDA %d.%d", driver / 1000, driver % 1000 / 10);
    if (!strcmp(dump_process(d, "AUTOGRAPH"), "observe")) {
        fputs(", AUTOGRAPH=", out);
        html_text(out, dump_process(d, "AUTOGRAPH"));
    }
    fputs("</p>\n", out);
    if (!d->end || d->cut || d->damaged || d->lost || !strcmp(d->end, "full"))
        fputs("<p><strong>This dump is not complete</strong>: figures are those of the part that "
              "there is.</p>\n",
              out);
}

static void head(const struct model *m, FILE *out)
{
    char count[32];
    const char *program = file_of(dump_process(m->d, "program"));
    if (m->d->num_processes > 1) {
        snprintf(count, sizeof(count), "%u processes", m->d->num_processes);
        program = count;
    }
    fputs("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta "
          "name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta "
          "name=\"color-scheme\" content=\"light dark\">\n<title>autograph: ",
          out);
    html_text(out, program);
    fprintf(out, "</title>\n<style>%s</style></head>\n<body>\n<h1>", style);
    html_text(out, program);
    fputs("</h1>\n", out);
    about(m, out);
}

static void cards(const struct model *m, FILE *out)
{
    fputs("<div class=\"cards\">\n", out);
    card(out, "of the launches went as graphs", "%.1f %%", model_coverage(m));
    card(out, "launches", "%s", html_grouped(m->ops));
    card(out, "graph launches", "%s", html_grouped(m->launches));
    bool lost = m->saved_ns < -50000;
    card(out, lost ? "host time lost" : "host time saved", "%.1f ms",
         (lost ? -m->saved_ns : m->saved_ns) / 1e6);
    card(out, "graphs built", "%s", html_grouped(m->builds));
    card(out, "launches flushed", "%.2f %%", model_share(m->flushed, m->ops));
    card(out, "an eager launch", "%.2f &micro;s", m->eager_ns / 1e3);
    card(out, "a graph launch", "%.2f &micro;s",
         m->launches ? (double)m->graph_ns / 1e3 / (double)m->launches : 0.0);
    if (m->handed.slots) {
        card(out, "of the launches handed over", "%.1f %%",
             model_share(m->handed.ops + m->handed.singles, m->ops));
        card(out, "graph launches by the library's own thread", "%s",
             html_grouped(m->handed.own_launches));
        card(out, "wait for it: median, longest", "%.1f, %.1f &micro;s",
             (double)m->handed.median_ns / 1e3, (double)m->handed.longest_ns / 1e3);
        if (m->handed.knows_submit_ns)
            card(out, "its processor time", "%.1f ms", (double)m->handed.submit_ns / 1e6);
    }
    fputs("</div>\n", out);
}

static void word(FILE *out, const char *t)
{
    fputs("<td class=\"l\">", out);
    html_text(out, t);
    fputs("</td>", out);
}

static void processes(const struct ranks *r, FILE *out)
{
    if (r->count == 1)
        return;
    begin_table(
        out, "processes", "Processes",
        "<Rank|<Pid|<Host|<Program|Launches|By graphs|Graph launches|Saved ms|<Why not more");
    for (int i = 0; i < r->count; i++) {
        const struct ranks_row *row = &r->rows[i];
        fputs("<tr>", out);
        word(out, row->rank);
        word(out, row->pid);
        word(out, row->host);
        word(out, row->program);
        number(out, row->ops);
        fprintf(out, "<td>%.1f %%</td>", row->coverage);
        number(out, row->launches);
        fprintf(out, "<td>%.1f</td>", row->saved_ns / 1e6);
        cell(out, row->why);
        fputs("</tr>\n", out);
    }
    end_table(out, (uint32_t)r->count, (uint32_t)r->count);
}

static void why_not_more(const struct model *m, FILE *out)
{
    if (!model_falls_short(m) || !*m->why)
        return;
    fputs("<p id=\"why\"><strong>Why not more:</strong> ", out);
    html_text(out, m->why);
    fputs(*m->advice ? ". <strong>What to do:</strong> " : "", out);
    html_text(out, m->advice);
    fputs(".</p>\n", out);
}

static void coverage(const struct model *m, FILE *out)
{
    uint64_t most = 1;
    for (int i = 0; i < MODEL_BUCKETS; i++)
        if (m->buckets[i].ops > most)
            most = m->buckets[i].ops;
    fprintf(out,
            "<h2 id=\"coverage\">Coverage over time</h2>\n<p class=\"soft\">Launches in each of %d "
            "equal parts of the time, at most %s; green went as graphs.</p>\n<svg viewBox=\"0 0 %d "
            "120\" role=\"img\" aria-label=\"Coverage over time\">\n",
            MODEL_BUCKETS, html_grouped(most), MODEL_BUCKETS * 10);
    for (int i = 0; i < MODEL_BUCKETS; i++) {
        uint64_t ops = m->buckets[i].ops, carried = m->buckets[i].carried;
        if (carried > ops)
            carried = ops; /* a graph's launches may have arrived in the part before */
        double h = 116.0 * (double)ops / (double)most, g = 116.0 * (double)carried / (double)most;
        fprintf(out,
                "<rect x=\"%d\" y=\"%.1f\" width=\"8\" height=\"%.1f\" fill=\"var(--rest)\"/><rect "
                "x=\"%d\" y=\"%.1f\" width=\"8\" height=\"%.1f\" fill=\"var(--good)\"><title>%llu "
                "of %llu "
                "launches</title></rect>\n",
                i * 10 + 1, 118 - h, h, i * 10 + 1, 118 - g, g, (unsigned long long)carried,
                (unsigned long long)ops);
    }
    fprintf(out, "</svg>\n<p class=\"soft ends\"><span>0 s</span><span>%.3f s</span></p>\n",
            (double)(m->last_ns - m->first_ns) / 1e9);
}

static void advice(const struct model *m, FILE *out)
{
    char *list[MODEL_MOST_ADVICE];
    int n = model_advice(m, list);
    if (!n)
        return;
    fputs("<h2 id=\"advice\">Advice</h2>\n<ul>\n", out);
    for (int i = 0; i < n; i++) {
        fputs("<li>", out);
        html_text(out, list[i]);
        fputs("</li>\n", out);
        free(list[i]);
    }
    fputs("</ul>\n", out);
}

static void sequences(const struct model *m, FILE *out)
{
    char names[2048];
    begin_table(
        out, "sequences", "Sequences, by the host time they saved",
        "Saved ms|<Kernels|Launches|Length|Graphs|Launches a graph|Updates a launch|Stream");
    uint32_t n = m->num_sequences < MOST_ROWS ? m->num_sequences : MOST_ROWS;
    for (uint32_t i = 0; i < n; i++) {
        const struct model_sequence *s = &m->sequences[i];
        double launches = s->launches ? (double)s->launches : 1;
        sequence_names(m, s, names, sizeof(names));
        double saved = s->saved_ns / 1e6;
        fprintf(out, "<tr><td>%.2f</td>", saved > -0.005 && saved < 0 ? 0.0 : saved);
        long_cell(out, names);
        number(out, s->carried);
        fprintf(out, "<td>%u</td><td>%u</td><td>%.1f</td><td>%.2f</td><td>%u</td></tr>\n",
                s->length, s->num_graphs, (double)s->carried / launches,
                (double)s->updates / launches, s->stream);
    }
    end_table(out, n, m->num_sequences);
}

/* Who did it for the most part. */
static void place_cell(const struct model *m, const struct model_tally *t, FILE *out)
{
    char place[512] = "";
    if (t->count)
        names_of_site(m->d, t->list[0].id, place, sizeof(place));
    cell(out, place);
}

static uint32_t reason_rows(const struct model *m, const struct model_reasons *list, FILE *out)
{
    uint32_t n = list->count < MOST_ROWS ? list->count : MOST_ROWS;
    for (uint32_t i = 0; i < n; i++) {
        const struct model_reason *r = &list->list[i];
        char reason[700];
        snprintf(reason, sizeof(reason), "%s%s%s", dump_string(m->d, r->text),
                 r->names.count ? ", most often at " : "",
                 r->names.count ? names_kernel(dump_string(m->d, r->names.list[0].id)) : "");
        fputs("<tr>", out);
        number(out, r->ops);
        fprintf(out, "<td>%.2f %%</td>", model_share(r->ops, m->ops));
        number(out, r->times);
        cell(out, reason);
        place_cell(m, &r->sites, out);
        fputs("</tr>\n", out);
    }
    return n;
}

static void reasons(const struct model *m, FILE *out)
{
    static const struct {
        int done;
        const char *what;
    } rest[] = {{AG_DONE_EAGER, "not known to repeat, or not yet"},
                {AG_DONE_RECORDED, "recorded for a graph to come"},
                {AG_DONE_PASSED, "let through without a look"}};
    begin_table(out, "reasons", "Why launches did not go as graphs",
                "Launches|Share|Times|<Reason|<Mostly made by");
    uint32_t n = reason_rows(m, &m->flushes, out) + reason_rows(m, &m->immediate, out) +
                 reason_rows(m, &m->eager, out);
    for (size_t i = 0; i < sizeof(rest) / sizeof(rest[0]); i++) {
        uint64_t ops = m->done[rest[i].done];
        if (!ops || (rest[i].done == AG_DONE_EAGER && m->eager.count))
            continue; /* told above */
        fputs("<tr>", out);
        number(out, ops);
        fprintf(out, "<td>%.2f %%</td><td></td>", model_share(ops, m->ops));
        cell(out, rest[i].what);
        fputs("<td></td></tr>\n", out);
        n++;
    }
    end_table(out, n, n);
}

static void sync_points(const struct model *m, FILE *out)
{
    begin_table(out, "sync_points", "Calls that end sequences",
                "Times|Launches between|<Call|<Mostly made by");
    uint32_t n = m->cuts.count < MOST_ROWS ? m->cuts.count : MOST_ROWS;
    for (uint32_t i = 0; i < n; i++) {
        const struct model_reason *r = &m->cuts.list[i];
        fputs("<tr>", out);
        number(out, r->times);
        fprintf(out, "<td>%.1f</td>", r->times ? (double)r->ops_before / (double)r->times : 0.0);
        cell(out, dump_string(m->d, r->text));
        place_cell(m, &r->sites, out);
        fputs("</tr>\n", out);
    }
    end_table(out, n, m->cuts.count);
}

/* ---- the verb --------------------------------------------------------------------------- */

static const struct argp argp = {
    NULL,
    NULL,
    "DUMP... -o report.html",
    "A dump as one self-contained page. Of several dumps (ranks, workers) a row for each process, "
    "and the rest of all of them together.",
    page_children,
    NULL,
    NULL};

int verb_html(int argc, char **argv)
{
    static struct common c = {.is_page = true, .min_dumps = 1, .max_dumps = DUMP_MOST_PROCESSES};
    argp_parse(&argp, argc, argv, 0, NULL, &c);
    struct ranks *r = ranks_load(c.dumps, c.num_dumps);
    FILE *out = r ? common_open(&c) : NULL;
    if (!out) {
        ranks_free(r);
        return 1;
    }
    const struct model *m = r->m;
    head(m, out);
    cards(m, out);
    why_not_more(m, out);
    processes(r, out);
    advice(m, out);
    coverage(m, out);
    sequences(m, out);
    html_pictures(m, out);
    reasons(m, out);
    sync_points(m, out);
    fputs("<p class=\"soft\">Made by libautograph " AG_VERSION ".</p>\n</body></html>\n", out);
    bool sound = r->sound;
    ranks_free(r);
    return common_close(&c, out) && sound ? 0 : 1;
}
