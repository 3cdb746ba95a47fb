/* html_picture.c - pictures of how sequences are cut into graphs, for the page of html.c. */
#include "tools/html.h"
#include "tools/names.h"
#include "tools/tools.h"
#include <stdlib.h>

enum { MOST_PICTURES = 8, MOST_BOXES = 400, MOST_GRAPHS = 12, MOST_KEYS = 24 };

void html_text(FILE *out, const char *t)
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

const char *html_grouped(uint64_t n)
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

/* A colour for each name of the dump, the same in every picture. Neighbours in the order of their
 * first launches are far apart: in hue by the golden angle, and in lightness. */
static const char *colour(const struct dump *d, uint32_t name)
{
    static const int lightness[] = {55, 72, 42};
    static char text[32];
    uint32_t place = names_place(d, name);
    snprintf(text, sizeof(text), "hsl(%u 60%% %d%%)", (210 + place * 137 + place / 3 * 2) % 360,
             lightness[place % 3]);
    return text;
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
            html_grouped(mine->launches), length * 10, id);
    for (uint32_t k = 0; k < g->d.count && k < length && g->d.first + k < length; k++) {
        const struct ag_dump_signature *signature = dump_signature(m->d, g->signatures[k]);
        uint64_t updates = mine->op_updates ? mine->op_updates[k] : 0;
        names_of_signature(m->d, signature, name, sizeof(name));
        fprintf(out,
                "<rect class=\"box\" x=\"%u\" y=\"0\" width=\"10\" height=\"10\" "
                "fill=\"%s\"><title>graph "
                "%u, launched %llu times: ",
                (g->d.first + k) * 10, colour(m->d, signature->name), id,
                (unsigned long long)mine->launches);
        html_text(out, name);
        if (updates)
            fprintf(out, ", updated %llu times", (unsigned long long)updates);
        fputs("</title></rect>\n", out);
        if (updates)
            fprintf(out, "<rect class=\"upd\" x=\"%u\" y=\"7\" width=\"10\" height=\"3\"/>\n",
                    (g->d.first + k) * 10);
    }
    fputs("</svg>\n", out);
}

/* Which colour is which kernel, of those in a row. */
static uint32_t add_to_key(const struct model *m, uint32_t id, uint32_t *names, uint32_t n)
{
    const struct dump_graph *g = dump_graph(m->d, id);
    for (uint32_t k = 0; k < g->d.count && n < MOST_KEYS; k++) {
        uint32_t name = dump_signature(m->d, g->signatures[k])->name, i = 0;
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
    html_text(out, title);
    if (s->length > length)
        fprintf(out, " <span class=\"soft\">(the first %u of %u launches)</span>", length,
                s->length);
    if (shown < rows)
        fprintf(out, " <span class=\"soft\">(%u of %u graphs)</span>", shown, rows);
    if (s->processes > 1)
        fprintf(out, " <span class=\"soft\">(the graphs of one of %u processes)</span>",
                s->processes);
    fputs("</figcaption>\n<div class=\"cut\">\n", out);
    for (uint32_t i = 0; i < shown; i++) {
        row(m, ids[i], length ? length : 1, out);
        num_names = add_to_key(m, ids[i], names, num_names);
    }
    fputs("</div>\n<div class=\"key\">", out);
    for (uint32_t i = 0; i < num_names; i++) {
        const char *name = dump_string(m->d, names[i]);
        fprintf(out, "<span><i style=\"background:%s\"></i>", colour(m->d, names[i]));
        html_text(out, names_kernel(name));
        fputs("</span>", out);
    }
    fputs("</div></figure>\n", out);
    free(ids);
}

void html_pictures(const struct model *m, FILE *out)
{
    uint32_t shown = 0;
    for (uint32_t i = 0; i < m->num_sequences && shown < MOST_PICTURES; i++) {
        if (!m->sequences[i].launches)
            continue;
        if (!shown++)
            fputs("<h2 id=\"graphs\">How sequences are cut into graphs</h2>\n<p class=\"soft\">A "
                  "row is a graph and how often it was launched, a box a launch of the program; a "
                  "bar under it says that its arguments were updated. Places without a box go by a "
                  "graph of "
                  "another sequence that begins alike, or one by one.</p>\n",
                  out);
        picture(m, &m->sequences[i], out);
    }
}
