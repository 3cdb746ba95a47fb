/*
 * html.c - `autograph html`: a dump as one page that needs nothing else. No script, no network: the
 * pictures are inline SVG, the colours follow the reader's light or dark mode, and tables scroll by
 * themselves on a narrow screen.
 */
#include "tools/names.h"
#include "tools/tools.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_ROWS = 40, MOST_PICTURES = 8, MOST_BOXES = 400 };

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
    "grid-template-columns:repeat(auto-fit,minmax(9.5rem,1fr));margin:1rem "
    "0}.card{background:var(--panel);"
    "border:1px solid var(--line);border-radius:.5rem;padding:.6rem .8rem}.card "
    "b{display:block;font-size:"
    "1.4rem}.scroll{overflow-x:auto;border:1px solid "
    "var(--line);border-radius:.5rem}table{border-collapse:"
    "collapse;width:100%;font-size:.9rem}th,td{padding:.35rem "
    ".6rem;text-align:right;border-bottom:1px "
    "solid "
    "var(--line);white-space:nowrap}th.l,td.l{text-align:left}td.wrap{white-space:normal;min-width:"
    "14rem;overflow-wrap:anywhere}th{color:var(--soft);font-weight:600}tr:last-child "
    "td{border-bottom:0}"
    "svg{display:block;width:100%;height:auto}ul{padding-left:1.2rem}code{overflow-wrap:anywhere}"
    ".box{stroke:var(--bg);stroke-width:1}.upd{stroke:var(--bad);stroke-width:2}";

static void text(FILE *out, const char *t)
{
    for (; *t; t++)
        switch (*t) {
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '&':
            fputs("&amp;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        default:
            fputc(*t, out);
        }
}

static double share(uint64_t part, uint64_t whole)
{
    return whole ? 100.0 * (double)part / (double)whole : 0;
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
        fputs("<p class=\"soft\">Nothing to show.</p>\n", out);
}

static void cell(FILE *out, const char *t)
{
    fputs("<td class=\"l wrap\">", out);
    text(out, t);
    fputs("</td>", out);
}

/* ---- parts ------------------------------------------------------------------------------ */

static void head(const struct model *m, FILE *out)
{
    const struct dump *d = m->d;
    char when[64] = "";
    time_t seconds = (time_t)(d->header.wall_ns / 1000000000u);
    struct tm tm;
    if (gmtime_r(&seconds, &tm))
        strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S UTC", &tm);
    fputs("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta "
          "name=\"viewport\" "
          "content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" "
          "content=\"light "
          "dark\">\n<title>autograph: ",
          out);
    text(out, dump_process(d, "program"));
    fprintf(out, "</title>\n<style>%s</style></head>\n<body>\n<h1>", style);
    text(out, dump_process(d, "program"));
    fputs("</h1>\n<p class=\"soft\"><code>", out);
    text(out, dump_process(d, "command"));
    fputs("</code><br>process ", out);
    text(out, dump_process(d, "pid"));
    fputs(" on ", out);
    text(out, dump_process(d, "host"));
    fprintf(out, ", %s, driver ", when);
    text(out, dump_process(d, "driver"));
    fputs(", AUTOGRAPH=", out);
    text(out, dump_process(d, "AUTOGRAPH"));
    fputs("</p>\n", out);
    if (!d->end || d->cut || d->damaged || d->lost || !strcmp(d->end, "full"))
        fputs("<p><strong>This dump is not complete</strong>: figures are those of the part that "
              "there "
              "is.</p>\n",
              out);
}

static void cards(const struct model *m, FILE *out)
{
    fputs("<div class=\"cards\">\n", out);
    card(out, "of the launches went as graphs", "%.1f %%", model_coverage(m));
    card(out, "launches", "%llu", (unsigned long long)m->ops);
    card(out, "graph launches", "%llu", (unsigned long long)m->launches);
    card(out, "host time saved", "%.1f ms", m->saved_ns / 1e6);
    card(out, "graphs built", "%llu", (unsigned long long)m->builds);
    card(out, "launches flushed", "%.2f %%", share(m->flushed, m->ops));
    card(out, "an eager launch", "%.2f &micro;s", m->eager_ns / 1e3);
    card(out, "a graph launch", "%.2f &micro;s",
         m->launches ? (double)m->graph_ns / 1e3 / (double)m->launches : 0.0);
    fputs("</div>\n", out);
}

static void coverage(const struct model *m, FILE *out)
{
    uint64_t most = 1;
    for (int i = 0; i < MODEL_BUCKETS; i++)
        if (m->buckets[i].ops > most)
            most = m->buckets[i].ops;
    fprintf(out,
            "<h2 id=\"coverage\">Coverage over time</h2>\n<p class=\"soft\">Launches in each of %d "
            "parts "
            "of %.3f s; green went as graphs.</p>\n<svg viewBox=\"0 0 %d 120\" role=\"img\" "
            "aria-label=\"Coverage over time\">\n",
            MODEL_BUCKETS, (double)(m->last_ns - m->first_ns) / 1e9, MODEL_BUCKETS * 10);
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
    fputs("</svg>\n", out);
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
        text(out, list[i]);
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
        fprintf(out, "<tr><td>%.2f</td>", s->saved_ns / 1e6);
        cell(out, names);
        fprintf(out,
                "<td>%llu</td><td>%u</td><td>%u</td><td>%.1f</td><td>%.2f</td><td>%u</td></tr>\n",
                (unsigned long long)s->carried, s->length, s->num_graphs,
                (double)s->carried / launches, (double)s->updates / launches, s->stream);
    }
    end_table(out, n, m->num_sequences);
}

/* A colour for each name, the same in every picture. */
static int hue(const char *name)
{
    uint32_t h = 2166136261u;
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 16777619u;
    return (int)(h % 360);
}

/* Each graph is a row of boxes, one for each launch in it, at its place in the sequence. */
static void picture(const struct model *m, const struct model_sequence *s, FILE *out)
{
    uint32_t length = 1, boxes = 0, rows = 0;
    char name[1024];
    for (uint32_t i = 0; i < s->num_graphs; i++) {
        const struct dump_graph *g = dump_graph(m->d, s->graphs[i]);
        if (g->d.first < MOST_BOXES && g->d.first + g->d.count > length)
            length = g->d.first + g->d.count;
    }
    if (length > MOST_BOXES)
        length = MOST_BOXES;
    for (uint32_t i = 0; i < s->num_graphs; i++)
        rows += m->graphs[s->graphs[i]].launches > 0;
    rows = rows < 1 ? 1 : rows > 12 ? 12 : rows;
    double w = 600.0 / (double)length;
    sequence_names(m, s, name, 200);
    fputs("<p class=\"soft\">", out);
    text(out, name);
    fprintf(out,
            "</p>\n<svg viewBox=\"0 0 600 %u\" role=\"img\" aria-label=\"Graphs of a sequence\">\n",
            rows * 20);
    for (uint32_t i = 0, row = 0; i < s->num_graphs && row < rows; i++) {
        const struct dump_graph *g = dump_graph(m->d, s->graphs[i]);
        const struct model_graph *mine = &m->graphs[s->graphs[i]];
        if (!mine->launches)
            continue;
        for (uint32_t k = 0; k < g->d.count && g->d.first < length && boxes < 4 * MOST_BOXES;
             k++, boxes++) {
            const struct ag_dump_shape *shape = dump_shape(m->d, g->shapes[k]);
            uint64_t updates = mine->op_updates ? mine->op_updates[k] : 0;
            if (g->d.first + k >= length)
                break;
            names_of_shape(m->d, shape, name, sizeof(name));
            fprintf(out,
                    "<rect class=\"%s\" x=\"%.2f\" y=\"%u\" width=\"%.2f\" height=\"17\" rx=\"2\" "
                    "fill=\"hsl(%d 55%% 55%%)\"><title>graph %u, launched %llu times: ",
                    updates ? "upd" : "box", w * (g->d.first + k), row * 20 + 1, w,
                    hue(dump_string(m->d, shape->name)), g->d.id,
                    (unsigned long long)mine->launches);
            text(out, name);
            if (updates)
                fprintf(out, ", updated %llu times", (unsigned long long)updates);
            fputs("</title></rect>\n", out);
        }
        row++;
    }
    fputs("</svg>\n", out);
}

static void pictures(const struct model *m, FILE *out)
{
    uint32_t shown = 0;
    for (uint32_t i = 0; i < m->num_sequences && shown < MOST_PICTURES; i++) {
        if (!m->sequences[i].launches)
            continue;
        if (!shown++)
            fputs("<h2 id=\"graphs\">How sequences are cut into graphs</h2>\n<p class=\"soft\">A "
                  "row is a "
                  "graph, a box a launch; the same colour is the same kernel, a red edge one whose "
                  "arguments were updated.</p>\n",
                  out);
        picture(m, &m->sequences[i], out);
    }
}

static void reasons(const struct model *m, FILE *out)
{
    begin_table(out, "reasons", "Why launches did not go as graphs",
                "Launches|Share|Times|<Reason");
    uint32_t n = m->flushes.count < MOST_ROWS ? m->flushes.count : MOST_ROWS;
    for (uint32_t i = 0; i < n; i++) {
        const struct model_reason *r = &m->flushes.list[i];
        fprintf(out, "<tr><td>%llu</td><td>%.2f %%</td><td>%llu</td>", (unsigned long long)r->ops,
                share(r->ops, m->ops), (unsigned long long)r->times);
        cell(out, dump_string(m->d, r->text));
        fputs("</tr>\n", out);
    }
    for (uint32_t i = 0; i < m->immediate.count && i < MOST_ROWS; i++) {
        const struct model_reason *r = &m->immediate.list[i];
        fprintf(out, "<tr><td>%llu</td><td>%.2f %%</td><td></td>", (unsigned long long)r->ops,
                share(r->ops, m->ops));
        cell(out, dump_string(m->d, r->text));
        fputs("</tr>\n", out);
    }
    static const struct {
        int done;
        const char *what;
    } rest[] = {{AG_DONE_EAGER, "not known to repeat, or not yet"},
                {AG_DONE_STAGED, "recorded for a graph to come"},
                {AG_DONE_PASSED, "let through without a look"}};
    for (size_t i = 0; i < sizeof(rest) / sizeof(rest[0]); i++)
        fprintf(out,
                "<tr><td>%llu</td><td>%.2f %%</td><td></td><td class=\"l wrap\">%s</td></tr>\n",
                (unsigned long long)m->done[rest[i].done], share(m->done[rest[i].done], m->ops),
                rest[i].what);
    end_table(out, n + 3, n + 3);
}

static void boundaries(const struct model *m, FILE *out)
{
    char place[512];
    begin_table(out, "boundaries", "Calls that end sequences",
                "Times|Launches between|<Call|<Mostly made by");
    uint32_t n = m->cuts.count < MOST_ROWS ? m->cuts.count : MOST_ROWS;
    for (uint32_t i = 0; i < n; i++) {
        const struct model_reason *r = &m->cuts.list[i];
        *place = 0;
        if (r->sites.count)
            names_of_site(m->d, r->sites.list[0].id, place, sizeof(place));
        fprintf(out, "<tr><td>%llu</td><td>%.1f</td>", (unsigned long long)r->times,
                r->times ? (double)r->ops_before / (double)r->times : 0.0);
        cell(out, dump_string(m->d, r->text));
        cell(out, place);
        fputs("</tr>\n", out);
    }
    end_table(out, n, m->cuts.count);
}

/* ---- the verb --------------------------------------------------------------------------- */

static const struct argp_child children[] = {{&page_argp, 0, NULL, 0}, {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    (void)arg;
    if (key == ARGP_KEY_INIT)
        state->child_inputs[0] = state->input;
    return key == ARGP_KEY_INIT ? 0 : ARGP_ERR_UNKNOWN;
}

static const struct argp argp = {
    NULL, parse, "DUMP -o report.html", "A dump as one self-contained page.", children, NULL, NULL};

int verb_html(int argc, char **argv)
{
    struct common c = {.min_dumps = 1, .max_dumps = 1};
    argp_parse(&argp, argc, argv, 0, NULL, &c);
    struct dump *d = dump_load(c.dumps[0]);
    FILE *out = d ? common_open(&c) : NULL;
    if (!out) {
        dump_free(d);
        return 1;
    }
    dump_complain(d);
    struct model *m = model_make(d);
    head(m, out);
    cards(m, out);
    advice(m, out);
    coverage(m, out);
    sequences(m, out);
    pictures(m, out);
    reasons(m, out);
    boundaries(m, out);
    fputs("<p class=\"soft\">Made by libautograph " AG_VERSION ".</p>\n</body></html>\n", out);
    model_free(m);
    dump_free(d);
    return common_close(&c, out) ? 0 : 1;
}
