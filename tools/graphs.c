/* graphs.c - `autograph graphs`: the graphs of a dump for Graphviz, as text or drawn by `dot`. */
#include "tools/names.h"
#include "tools/tools.h"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct settings {
    struct common common;
    uint32_t only;
    unsigned int top;
    bool top_given;
};

static const char *drawing(const struct settings *s);
static bool is_picture(const char *path);

static const struct argp_option options[] = {
    {"graph", 'g', "ID", 0, "only this graph", 0},
    {"top", 'n', "N", 0, "the N graphs that were launched most (10; 0: all)", 0},
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct settings *s = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &s->common;
        return 0;
    case 'g':
        s->only = option_number(state, arg);
        if (!s->only)
            argp_error(state, "graphs count from 1");
        return 0;
    case 'n':
        s->top = option_number(state, arg);
        s->top_given = true;
        return 0;
    case ARGP_KEY_SUCCESS:
        if (s->only && s->top_given)
            argp_error(state, "--graph and --top: one graph, or those launched most");
        if (is_picture(s->common.output) && s->common.format_given)
            argp_error(state, "%s is to be drawn: a table of --format does not go there",
                       s->common.output);
        if (is_picture(s->common.output) && !drawing(s))
            argp_error(state, "%s: drawn are .svg, .png and .pdf", s->common.output);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    options,
    parse,
    "DUMP",
    "The graphs of a dump in the language of Graphviz. With -o FILE.svg they "
    "are drawn, where `dot` is installed. Nodes whose arguments were updated "
    "between launches are marked. With --format they are listed in a table.",
    common_children,
    NULL,
    NULL};

/* A text within double quotes of the dot language. */
static void quote(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', out);
        fputc(*text, out);
    }
}

static void draw(const struct model *m, uint32_t id, FILE *out)
{
    const struct dump_graph *g = dump_graph(m->d, id);
    const struct model_graph *mine = &m->graphs[id];
    char text[1024];
    fprintf(out,
            "  subgraph cluster_%u {\n    label=\"graph %u: %u launches of stream %u from place %u "
            "of a "
            "sequence of %u\\nlaunched %llu times, %llu updates, %u variants\";\n",
            id, id, g->d.count, g->d.stream, g->d.first, g->d.sequence_length,
            (unsigned long long)mine->launches, (unsigned long long)mine->updates, mine->variants);
    for (uint32_t i = 0; i < g->d.count; i++) {
        const struct ag_dump_signature *s = dump_signature(m->d, g->signatures[i]);
        uint64_t updates = mine->op_updates ? mine->op_updates[i] : 0;
        names_of_signature(m->d, s, text, sizeof(text));
        uint32_t place = names_place(m->d, s->name);
        fprintf(out, "    n%u_%u [fillcolor=\"%.3f %.2f 1\", label=\"", id, i,
                (210 + place * 137) % 360 / 360.0, place % 2 ? 0.35 : 0.18);
        quote(out, text);
        if (s->kind == AG_DUMP_KERNEL)
            fprintf(out, "\\n%u arguments, %u bytes%s", s->num_params, s->arg_bytes,
                    s->dims[6] ? ", shared memory" : "");
        if (updates)
            fprintf(out, "\\nupdated %llu times\", color=\"#b3261e\", penwidth=3, class=\"updated",
                    (unsigned long long)updates);
        fputs("\"];\n", out);
        if (i)
            fprintf(out, "    n%u_%u -> n%u_%u;\n", id, i - 1, id, i);
    }
    fputs("  }\n", out);
}

static const struct model *sorting;

static int by_launches(const void *a, const void *b)
{
    uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
    uint64_t x = sorting->graphs[i].launches, y = sorting->graphs[k].launches;
    return x != y ? (x < y ? 1 : -1) : i < k ? -1 : 1;
}

/* Ids of the graphs that are wanted, by launches; NULL where there is nothing to be said of. */
static uint32_t *choose(const struct model *m, const struct settings *s, uint32_t *count)
{
    uint32_t *ids = malloc((m->d->num_graphs + 1) * sizeof(*ids)), n = 0;
    if (!ids)
        return NULL;
    for (uint32_t i = 1; i < m->d->num_graphs; i++)
        if (m->d->graphs[i].d.id && (!s->only || s->only == i))
            ids[n++] = i;
    if (!n && s->only) {
        fprintf(stderr, "autograph: there is no graph %u\n", s->only);
        free(ids);
        return NULL;
    }
    sorting = m;
    qsort(ids, n, sizeof(*ids), by_launches);
    *count = s->top && n > s->top ? s->top : n;
    return ids;
}

static void write_dot(const struct model *m, const uint32_t *ids, uint32_t n, FILE *out)
{
    fputs("digraph autograph {\n  rankdir=TB;\n  fontname=\"sans-serif\";\n"
          "  node [shape=box, style=\"rounded,filled\", "
          "fontname=\"sans-serif\"];\n",
          out);
    for (uint32_t i = 0; i < n; i++)
        draw(m, ids[i], out);
    fputs("}\n", out);
}

static bool write_table(const struct model *m, const struct settings *s, const uint32_t *ids,
                        uint32_t n, FILE *out)
{
    char first[1024];
    struct table_output *o = table_open(out, &s->common.wish);
    table_begin(o, "graphs", "Graphs, by launches",
                "Graph|Launched|Launches in it|~From place|~Of a sequence of|~Stream|~Variants|"
                "Updates|~Host time (us)|Each (us)|~Built|~Building (us)|<Its first launch");
    for (uint32_t i = 0; i < n; i++) {
        const struct dump_graph *g = dump_graph(m->d, ids[i]);
        const struct model_graph *mine = &m->graphs[ids[i]];
        *first = 0;
        if (g->d.count)
            names_of_signature(m->d, dump_signature(m->d, g->signatures[0]), first, sizeof(first));
        table_number(o, ids[i]);
        table_number(o, mine->launches);
        table_number(o, g->d.count);
        table_number(o, g->d.first);
        table_number(o, g->d.sequence_length);
        table_number(o, g->d.stream);
        table_number(o, mine->variants);
        table_number(o, mine->updates);
        table_real(o, (double)mine->host_ns / 1e3, 1);
        table_real(o, mine->launches ? (double)mine->host_ns / 1e3 / (double)mine->launches : 0, 2);
        table_number(o, mine->builds);
        table_real(o, (double)mine->build_ns / 1e3, 1);
        table_text(o, first);
    }
    table_end(o);
    return table_close(o);
}

/* `dot` draws what is written to the file answered; -1 in *pid where it is not there. */
static FILE *open_dot(const char *path, const char *format, pid_t *pid)
{
    int ends[2];
    if (pipe(ends))
        return NULL;
    fflush(NULL);
    *pid = fork();
    if (*pid == 0) {
        dup2(ends[0], STDIN_FILENO);
        close(ends[0]);
        close(ends[1]);
        execlp("dot", "dot", format, "-o", path, (char *)NULL);
        fprintf(stderr,
                "autograph: a drawing needs Graphviz's `dot`: %s (-o FILE.dot writes the text)\n",
                strerror(errno));
        _exit(127);
    }
    close(ends[0]);
    FILE *f = *pid > 0 ? fdopen(ends[1], "w") : NULL;
    if (!f)
        close(ends[1]);
    return f;
}

/* The option of `dot` for the kind of picture that the file's name asks for; NULL: none. */
static const char *drawing(const struct settings *s)
{
    static const char *const formats[] = {"-Tsvg", "-Tpng", "-Tpdf"};
    const char *dot = s->common.output ? strrchr(s->common.output, '.') : NULL;
    for (size_t i = 0; dot && !s->common.format_given && i < 3; i++)
        if (!strcmp(dot + 1, formats[i] + 2))
            return formats[i];
    return NULL;
}

/* Whether the file's name ends in one of these. */
static bool ends_in(const char *path, const char *const *ends)
{
    const char *dot = path ? strrchr(path, '.') : NULL;
    for (size_t i = 0; dot && ends[i]; i++)
        if (!strcasecmp(dot + 1, ends[i]))
            return true;
    return false;
}

static bool is_picture(const char *path)
{
    static const char *const ends[] = {"svg",  "png",  "pdf", "jpg", "jpeg", "gif",  "bmp",
                                       "webp", "tiff", "tif", "ps",  "eps",  "svgz", NULL};
    return ends_in(path, ends);
}

static bool write_drawing(const struct model *m, const struct settings *s, const uint32_t *ids,
                          uint32_t n)
{
    pid_t pid = -1;
    int status = 1;
    FILE *out = open_dot(s->common.output, drawing(s), &pid);
    if (!out)
        return false;
    signal(SIGPIPE, SIG_IGN);
    write_dot(m, ids, n, out);
    bool good = !fclose(out);
    waitpid(pid, &status, 0);
    good = good && status == 0;
    if (!good &&
        !(WIFEXITED(status) && WEXITSTATUS(status) == 127)) { /* `dot` was there, and began */
        fprintf(stderr, "autograph: `dot` could not draw %s\n", s->common.output);
        common_discard(&s->common);
    }
    return good;
}

int verb_graphs(int argc, char **argv)
{
    struct settings s = {.common = {.wish.main = "graphs", .min_dumps = 1, .max_dumps = 1},
                         .top = 10};
    argp_parse(&argp, argc, argv, 0, NULL, &s);
    struct dump *d = dump_load(s.common.dumps[0]);
    if (!d)
        return 1;
    dump_complain(d);
    struct model *m = model_make(d);
    uint32_t n = 0, *ids = choose(m, &s, &n);
    bool good = ids != NULL;
    if (good && drawing(&s)) {
        good = write_drawing(m, &s, ids, n);
    } else if (good) {
        FILE *out = common_open(&s.common);
        if (out && s.common.format_given)
            good = write_table(m, &s, ids, n, out);
        else if (out)
            write_dot(m, ids, n, out);
        good = out && common_close(&s.common, out) && good;
    }
    good = model_is_sound(m) && good;
    free(ids);
    model_free(m);
    dump_free(d);
    return good ? 0 : 1;
}
