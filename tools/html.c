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

enum { MOST_ROWS = 30, MOST_PICTURES = 8, MOST_BOXES = 400, MOST_GRAPHS = 12, MOST_KEYS = 24 };

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
    ".upd{stroke:var(--bad);stroke-width:2;vector-effect:non-scaling-stroke}.key{display:flex;"
    "flex-wrap:wrap;gap:.1rem 1rem;font-size:.85rem;margin-top:.4rem}.key "
    "i{display:inline-block;width:.8rem;height:.8rem;border-radius:.15rem;margin-right:.35rem}";

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

/* With commas between thousands. */
static const char *grouped(uint64_t n)
{
    static char texts[4][32];
    static unsigned int turn;
    char *at = texts[turn++ % 4] + 31;
    *at = 0;
    for (int digits = 0; n || !digits; n /= 10, digits++) {
        if (digits && digits % 3 == 0)
            *--at = ',';
        *--at = (char)('0' + n % 10);
    }
    return at;
}

static void number(FILE *out, uint64_t n)
{
    fprintf(out, "<td>%s</td>", grouped(n));
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
    text(out, dump_process(d, "command"));
    fputs("</code><br>process ", out);
    text(out, dump_process(d, "pid"));
    fputs(" on ", out);
    text(out, dump_process(d, "host"));
    fprintf(out, ", %s, %.2f s", when, (double)(m->last_ns - m->first_ns) / 1e9);
    if (driver > 0)
        fprintf(out, ", driver for CUDA %d.%d", driver / 1000, driver % 1000 / 10);
    if (strcmp(dump_process(d, "AUTOGRAPH"), "1")) {
        fputs(", AUTOGRAPH=", out);
        text(out, dump_process(d, "AUTOGRAPH"));
    }
    fputs("</p>\n", out);
    if (!d->end || d->cut || d->damaged || d->lost || !strcmp(d->end, "full"))
        fputs("<p><strong>This dump is not complete</strong>: figures are those of the part that "
              "there is.</p>\n",
              out);
}

static void head(const struct model *m, FILE *out)
{
    const char *program = file_of(dump_process(m->d, "program"));
    fputs("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta "
          "name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta "
          "name=\"color-scheme\" content=\"light dark\">\n<title>autograph: ",
          out);
    text(out, program);
    fprintf(out, "</title>\n<style>%s</style></head>\n<body>\n<h1>", style);
    text(out, program);
    fputs("</h1>\n", out);
    about(m, out);
}

static void cards(const struct model *m, FILE *out)
{
    fputs("<div class=\"cards\">\n", out);
    card(out, "of the launches went as graphs", "%.1f %%", model_coverage(m));
    card(out, "launches", "%s", grouped(m->ops));
    card(out, "graph launches", "%s", grouped(m->launches));
    card(out, "host time saved", "%.1f ms", m->saved_ns / 1e6);
    card(out, "graphs built", "%s", grouped(m->builds));
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
            "equal parts of the time, at most %s; green went as graphs.</p>\n<svg viewBox=\"0 0 %d "
            "120\" role=\"img\" aria-label=\"Coverage over time\">\n",
            MODEL_BUCKETS, grouped(most), MODEL_BUCKETS * 10);
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
        text(out, list[i]);
        fputs("</li>\n", out);
        free(list[i]);
    }
    fputs("</ul>\n", out);
}

static void sequences(const struct model *m, FILE *out)
{
    char names[600];
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
        cell(out, names);
        number(out, s->carried);
        fprintf(out, "<td>%u</td><td>%u</td><td>%.1f</td><td>%.2f</td><td>%u</td></tr>\n",
                s->length, s->num_graphs, (double)s->carried / launches,
                (double)s->updates / launches, s->stream);
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

/* A graph as a row of boxes, one for each launch in it, at its place in the sequence. */
static void row(const struct model *m, uint32_t id, uint32_t length, FILE *out)
{
    const struct dump_graph *g = dump_graph(m->d, id);
    const struct model_graph *mine = &m->graphs[id];
    char name[1024];
    fprintf(out,
            "<span>%s&times;</span><svg viewBox=\"0 0 %u 10\" preserveAspectRatio=\"none\" "
            "role=\"img\" aria-label=\"graph %u\">\n",
            grouped(mine->launches), length * 10, id);
    for (uint32_t k = 0; k < g->d.count && k < length && g->d.first + k < length; k++) {
        const struct ag_dump_shape *shape = dump_shape(m->d, g->shapes[k]);
        uint64_t updates = mine->op_updates ? mine->op_updates[k] : 0;
        names_of_shape(m->d, shape, name, sizeof(name));
        fprintf(out,
                "<rect class=\"%s\" x=\"%u\" y=\"0\" width=\"10\" height=\"10\" fill=\"hsl(%d "
                "55%% 55%%)\"><title>graph %u, launched %llu times: ",
                updates ? "upd" : "box", (g->d.first + k) * 10, hue(dump_string(m->d, shape->name)),
                id, (unsigned long long)mine->launches);
        text(out, name);
        if (updates)
            fprintf(out, ", updated %llu times", (unsigned long long)updates);
        fputs("</title></rect>\n", out);
    }
    fputs("</svg>\n", out);
}

/* Which colour is which kernel, of those in a row. */
static uint32_t add_to_key(const struct model *m, uint32_t id, uint32_t *names, uint32_t n)
{
    const struct dump_graph *g = dump_graph(m->d, id);
    for (uint32_t k = 0; k < g->d.count && n < MOST_KEYS; k++) {
        uint32_t name = dump_shape(m->d, g->shapes[k])->name, i = 0;
        while (i < n && names[i] != name)
            i++;
        if (i == n)
            names[n++] = name;
    }
    return n;
}

static const struct model *sorting;

static int by_launches(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    uint64_t i = sorting->graphs[x].launches, k = sorting->graphs[y].launches;
    return i != k ? (i < k ? 1 : -1) : x < y ? -1 : x > y;
}

static int by_place(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    uint32_t i = dump_graph(sorting->d, x)->d.first, k = dump_graph(sorting->d, y)->d.first;
    return i != k ? (i < k ? -1 : 1) : x < y ? -1 : x > y;
}

static void picture(const struct model *m, const struct model_sequence *s, FILE *out)
{
    uint32_t names[MOST_KEYS], num_names = 0, rows = 0;
    uint32_t length = s->length < MOST_BOXES ? s->length : MOST_BOXES;
    uint32_t *ids = malloc((s->num_graphs + 1) * sizeof(*ids));
    char title[200];
    if (!ids)
        return;
    for (uint32_t i = 0; i < s->num_graphs; i++)
        if (m->graphs[s->graphs[i]].launches && dump_graph(m->d, s->graphs[i])->d.first < length)
            ids[rows++] = s->graphs[i];
    sorting = m;
    qsort(ids, rows, sizeof(*ids), by_launches);
    uint32_t shown = rows < MOST_GRAPHS ? rows : MOST_GRAPHS;
    qsort(ids, shown, sizeof(*ids), by_place);
    sequence_names(m, s, title, sizeof(title));
    fputs("<figure><figcaption>", out);
    text(out, title);
    if (s->length > length)
        fprintf(out, " <span class=\"soft\">(the first %u of %u launches)</span>", length,
                s->length);
    if (shown < rows)
        fprintf(out, " <span class=\"soft\">(%u of %u graphs)</span>", shown, rows);
    fputs("</figcaption>\n<div class=\"cut\">\n", out);
    for (uint32_t i = 0; i < shown; i++) {
        row(m, ids[i], length ? length : 1, out);
        num_names = add_to_key(m, ids[i], names, num_names);
    }
    fputs("</div>\n<div class=\"key\">", out);
    for (uint32_t i = 0; i < num_names; i++) {
        const char *name = dump_string(m->d, names[i]);
        fprintf(out, "<span><i style=\"background:hsl(%d 55%% 55%%)\"></i>", hue(name));
        text(out, names_kernel(name));
        fputs("</span>", out);
    }
    fputs("</div></figure>\n", out);
    free(ids);
}

static void pictures(const struct model *m, FILE *out)
{
    uint32_t shown = 0;
    for (uint32_t i = 0; i < m->num_sequences && shown < MOST_PICTURES; i++) {
        if (!m->sequences[i].launches)
            continue;
        if (!shown++)
            fputs("<h2 id=\"graphs\">How sequences are cut into graphs</h2>\n<p class=\"soft\">A "
                  "row is a graph and how often it was launched, a box a launch of the program; a "
                  "red edge is one whose arguments were updated. Places without a box go by a "
                  "graph of "
                  "another sequence that begins alike, or one by one.</p>\n",
                  out);
        picture(m, &m->sequences[i], out);
    }
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
        fprintf(out, "<td>%.2f %%</td>", share(r->ops, m->ops));
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
                {AG_DONE_STAGED, "recorded for a graph to come"},
                {AG_DONE_PASSED, "let through without a look"}};
    begin_table(out, "reasons", "Why launches did not go as graphs",
                "Launches|Share|Times|<Reason|<Mostly made by");
    uint32_t n = reason_rows(m, &m->flushes, out) + reason_rows(m, &m->immediate, out);
    for (size_t i = 0; i < sizeof(rest) / sizeof(rest[0]); i++) {
        uint64_t ops = m->done[rest[i].done];
        if (!ops)
            continue;
        fputs("<tr>", out);
        number(out, ops);
        fprintf(out, "<td>%.2f %%</td><td></td>", share(ops, m->ops));
        cell(out, rest[i].what);
        fputs("<td></td></tr>\n", out);
        n++;
    }
    end_table(out, n, n);
}

static void boundaries(const struct model *m, FILE *out)
{
    begin_table(out, "boundaries", "Calls that end sequences",
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
