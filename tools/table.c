/* table.c - see table.h. */
#include "tools/table.h"
#include "tools/need.h"
#include <ctype.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { MOST_COLUMNS = 24, DIGITS = 15, LONGEST_KEY = 48 };

struct cell {
    char *text;    /* as printed */
    json_t *value; /* as programs read it */
    const char *colour;
};

struct table_output {
    FILE *out;
    enum table_format format;
    json_t *document; /* JSON: all tables */
    char *id, *title, *columns;
    const char *names[MOST_COLUMNS];
    char keys[MOST_COLUMNS][LONGEST_KEY]; /* of the columns, for programs */
    bool left[MOST_COLUMNS], spare[MOST_COLUMNS];
    size_t num_columns, num_cells, room;
    struct cell *cells;
    bool any, colour, headless;
    size_t page;      /* columns of the terminal */
    const char *only; /* the table that is wanted; NULL: all */
    bool found;
    char ids[512]; /* of all tables */
};

int table_format(const char *name)
{
    static const char *const names[] = {"text", "csv", "json", "jsonl"};
    for (int i = 0; i < 4; i++)
        if (!strcmp(name, names[i]))
            return i;
    return -1;
}

static size_t page_width(FILE *out);
static bool wants_colour(FILE *out);

struct table_output *table_open(FILE *out, const struct table_wish *wish)
{
    struct table_output *o = need(calloc(1, sizeof(*o)));
    o->out = out;
    o->format = wish->format;
    o->only = wish->table ? wish->table : wish->format == TABLE_CSV ? wish->main : NULL;
    o->headless = wish->headless;
    o->page = page_width(out);
    o->colour = wish->format == TABLE_TEXT && wants_colour(out);
    o->document = need(json_object());
    return o;
}

bool table_close(struct table_output *o)
{
    bool found = !o->only || o->found;
    if (!found)
        fprintf(stderr, "autograph: there is no table %s here; there are%s\n", o->only, o->ids);
    if (o->format == TABLE_JSON) {
        json_dumpf(o->document, o->out, JSON_INDENT(2) | JSON_REAL_PRECISION(DIGITS));
        fputc('\n', o->out);
    }
    json_decref(o->document);
    free(o);
    return found;
}

/* "Host time (us)" is host_time_us, "Share (%)" share_percent. */
static void make_key(char *key, const char *name)
{
    size_t n = 0;
    for (; *name && n < LONGEST_KEY - 9; name++)
        if (*name == '%')
            n += (size_t)snprintf(key + n, LONGEST_KEY - n, "percent");
        else if (isalnum((unsigned char)*name))
            key[n++] = (char)tolower((unsigned char)*name);
        else if (n && key[n - 1] != '_')
            key[n++] = '_';
    while (n && key[n - 1] == '_')
        n--;
    key[n] = 0;
}

void table_begin(struct table_output *o, const char *id, const char *title, const char *columns)
{
    char *rest;
    o->id = need(strdup(id));
    o->title = need(strdup(title));
    o->columns = need(strdup(columns));
    o->num_columns = o->num_cells = 0;
    for (char *name = strtok_r(o->columns, "|", &rest); name && o->num_columns < MOST_COLUMNS;
         name = strtok_r(NULL, "|", &rest)) {
        o->spare[o->num_columns] = *name == '~';
        name += *name == '~';
        o->left[o->num_columns] = *name == '<';
        name += *name == '<';
        make_key(o->keys[o->num_columns], name);
        o->names[o->num_columns++] = name;
    }
}

static void add(struct table_output *o, const char *text, json_t *value)
{
    if (o->num_cells == o->room) {
        o->room = o->room ? o->room * 2 : 64;
        o->cells = need(realloc(o->cells, o->room * sizeof(*o->cells)));
    }
    o->cells[o->num_cells++] = (struct cell){need(strdup(text)), need(value), ""};
}

void table_text(struct table_output *o, const char *text)
{
    json_t *value = json_string(text);
    add(o, text, value ? value : json_string("?"));
}

void table_none(struct table_output *o)
{
    add(o, "", json_null());
}

void table_state(struct table_output *o, const char *text, const char *colour)
{
    table_text(o, text);
    o->cells[o->num_cells - 1].colour = colour;
}

void table_number(struct table_output *o, uint64_t number)
{
    char text[32];
    snprintf(text, sizeof(text), "%" PRIu64, number);
    add(o, text, json_integer((json_int_t)(number <= INT64_MAX ? number : INT64_MAX)));
}

void table_real(struct table_output *o, double number, int decimals)
{
    char text[64];
    snprintf(text, sizeof(text), "%.*f", decimals, number);
    add(o, text, json_real(strtod(text, NULL)));
}

/* Columns on a terminal that a text takes: characters, near enough. */
static size_t width_of(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += (*text & 0xc0) != 0x80;
    return n;
}

static void pad(FILE *out, size_t n, char with)
{
    while (n--)
        fputc(with, out);
}

/* ---- text ------------------------------------------------------------------------------- */

/* Of the terminal; elsewhere COLUMNS, or 80. */
static size_t page_width(FILE *out)
{
    struct winsize size;
    const char *columns = getenv("COLUMNS");
    long n = isatty(fileno(out)) && !ioctl(fileno(out), TIOCGWINSZ, &size) ? size.ws_col : 0;
    if (n <= 0)
        n = columns ? strtol(columns, NULL, 10) : 0;
    return n <= 0 ? 80 : n < 40 ? 40 : (size_t)n;
}

bool table_knows_codes(FILE *out)
{
    const char *terminal = getenv("TERM");
    return isatty(fileno(out)) && terminal && strcmp(terminal, "dumb");
}

static bool wants_colour(FILE *out)
{
    const char *no = getenv("NO_COLOR");
    return table_knows_codes(out) && !(no && *no);
}

static void paint(const struct table_output *o, const char *code)
{
    if (o->colour)
        fprintf(o->out, "\033[%sm", code);
}

static const char *next_character(const char *at)
{
    do
        at++;
    while ((*at & 0xc0) == 0x80);
    return at;
}

/* What of a text goes in a line: up to a blank, or up to the edge where a word is longer. `rest`
 * is what follows. */
static size_t line_of(const char *text, size_t width, const char **rest)
{
    const char *at = text, *blank = NULL;
    size_t n = 0;
    for (; *at && n <= width; n++) {
        if (*at == ' ' && at > text + strspn(text, " "))
            blank = at;
        at = next_character(at);
    }
    if (n <= width) {
        *rest = at;
        return (size_t)(at - text);
    }
    if (!blank)
        for (at = text, n = 0; n < width; n++)
            at = next_character(at);
    *rest = blank ? blank + strspn(blank, " ") : at;
    return (size_t)((blank ? blank : at) - text);
}

static size_t longest_word(const char *text)
{
    size_t longest = 0;
    for (size_t n; *text; text += n + strspn(text + n, " ")) {
        n = strcspn(text, " ");
        longest = n > longest ? n : longest;
    }
    return longest;
}

enum { INDENT = 4, LEAST_TEXT = 12, LEAST_LAST = 30, MOST_FIRST = 24 };

struct layout {
    size_t widths[MOST_COLUMNS];
    bool hidden[MOST_COLUMNS];
    bool below; /* the last column has lines of its own */
    size_t page;
};

static bool is_last(const struct table_output *o, size_t c)
{
    return c + 1 == o->num_columns;
}

static size_t total(const struct table_output *o, const struct layout *l)
{
    size_t sum = 1;
    for (size_t c = 0; c < o->num_columns; c++)
        if (!l->hidden[c] && !(l->below && is_last(o, c)))
            sum += (sum > 1 ? 2 : 0) + l->widths[c];
    return sum;
}

/* The room that each column wants; `tight`: heads of numbers are broken at each blank. */
static void measure(const struct table_output *o, struct layout *l, bool tight)
{
    for (size_t c = 0; c < o->num_columns; c++) {
        bool broken = tight && !o->left[c];
        l->widths[c] = broken ? longest_word(o->names[c]) : width_of(o->names[c]);
        for (size_t i = c; i < o->num_cells; i += o->num_columns)
            if (width_of(o->cells[i].text) > l->widths[c])
                l->widths[c] = width_of(o->cells[i].text);
    }
}

/* Texts other than the last take less room; the first, a name, not much less. */
static void break_texts(const struct table_output *o, struct layout *l)
{
    for (size_t c = o->num_columns - 1; c-- && total(o, l) > l->page;) {
        size_t least = c ? LEAST_TEXT : MOST_FIRST, over = total(o, l) - l->page;
        if (o->left[c] && l->widths[c] > least)
            l->widths[c] = l->widths[c] > least + over ? l->widths[c] - over : least;
    }
}

/* Where there is no room heads are broken, then the last column's texts, then the others'; then the
 * last has lines of its own, then columns are left out that can be. */
static void lay_out(const struct table_output *o, struct layout *l)
{
    size_t last = o->num_columns - 1;
    measure(o, l, false);
    if (total(o, l) > l->page)
        measure(o, l, true);
    if (o->left[last] && total(o, l) > l->page && l->widths[last] > LEAST_LAST) {
        size_t without = total(o, l) - l->widths[last];
        l->widths[last] = without + LEAST_LAST < l->page ? l->page - without : LEAST_LAST;
    }
    size_t whole[MOST_COLUMNS];
    memcpy(whole, l->widths, sizeof(whole));
    break_texts(o, l);
    l->below = o->left[last] && last && total(o, l) > l->page;
    if (l->below) { /* which makes room */
        memcpy(l->widths, whole, sizeof(whole));
        break_texts(o, l);
    }
    for (size_t c = last; c-- && total(o, l) > l->page;)
        l->hidden[c] = o->spare[c];
}

/* A row, in as many lines as its longest text takes. */
static void print_row(const struct table_output *o, const struct layout *l, const char **texts,
                      const char *colour)
{
    size_t last = o->num_columns - 1;
    for (bool more = true; more;) {
        size_t gap = 1; /* blanks that are due */
        more = false;
        for (size_t c = 0; c < o->num_columns; c++) {
            const char *from = texts[c];
            if (l->hidden[c] || (l->below && c == last))
                continue;
            size_t bytes = line_of(from, l->widths[c], &texts[c]), n = 0;
            for (const char *at = from; at < from + bytes; at = next_character(at))
                n++;
            if (bytes) {
                pad(o->out, gap + (o->left[c] ? 0 : l->widths[c] - n), ' ');
                paint(o, c ? "" : colour);
                fwrite(from, 1, bytes, o->out);
                paint(o, "");
                gap = 2 + (o->left[c] ? l->widths[c] - n : 0);
            } else {
                gap += l->widths[c] + 2;
            }
            more |= *texts[c] != 0;
        }
        fputc('\n', o->out);
    }
    while (l->below && *texts[last]) {
        const char *from = texts[last];
        pad(o->out, INDENT, ' ');
        fwrite(from, 1, line_of(from, l->page - INDENT, &texts[last]), o->out);
        fputc('\n', o->out);
    }
}

static void print_text(struct table_output *o)
{
    struct layout l = {.page = o->page};
    const char *texts[MOST_COLUMNS];
    size_t columns = o->num_columns, gap = 1;
    fputs(o->any ? "\n" : "", o->out);
    paint(o, "1");
    fprintf(o->out, " ** %s (%s):", o->title, o->id);
    paint(o, "");
    fputs("\n\n", o->out);
    if (!o->num_cells || !columns) {
        fputs(" none\n", o->out);
        return;
    }
    lay_out(o, &l);
    for (size_t c = 0; c < columns; c++)
        texts[c] = o->names[c];
    print_row(o, &l, texts, "");
    for (size_t c = 0; c < columns; c++) {
        if (l.hidden[c] || (l.below && c + 1 == columns))
            continue;
        pad(o->out, gap, ' ');
        pad(o->out, l.widths[c] < l.page ? l.widths[c] : l.page, '-');
        gap = 2;
    }
    fputc('\n', o->out);
    for (size_t i = 0; i + columns <= o->num_cells; i += columns) {
        for (size_t c = 0; c < columns; c++)
            texts[c] = o->cells[i + c].text;
        print_row(o, &l, texts, o->cells[i].colour);
    }
}

/* ---- for programs ----------------------------------------------------------------------- */

static void print_csv_field(FILE *out, const char *text)
{
    if (!strpbrk(text, ",\"\n\r")) {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"')
            fputc('"', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

static void print_csv(struct table_output *o)
{
    for (size_t c = 0; !o->headless && c < o->num_columns; c++)
        fprintf(o->out, "%s%s", o->keys[c], c + 1 < o->num_columns ? "," : "\n");
    for (size_t i = 0; o->num_columns && i < o->num_cells; i++) {
        size_t c = i % o->num_columns;
        fputs(c ? "," : "", o->out);
        print_csv_field(o->out, o->cells[i].text);
        if (c + 1 == o->num_columns)
            fputc('\n', o->out);
    }
}

static json_t *row(struct table_output *o, size_t first)
{
    json_t *object = need(json_object());
    for (size_t c = 0; c < o->num_columns && first + c < o->num_cells; c++)
        json_object_set(object, o->keys[c], o->cells[first + c].value);
    return object;
}

static void print_json(struct table_output *o)
{
    json_t *rows = need(json_array());
    for (size_t i = 0; i < o->num_cells; i += o->num_columns) {
        json_t *r = row(o, i);
        if (o->format == TABLE_JSON) {
            json_array_append_new(rows, r);
            continue;
        }
        json_t *line = need(json_object());
        json_object_set_new(line, "table", json_string(o->id));
        json_object_update(line, r);
        json_dumpf(line, o->out, JSON_COMPACT | JSON_REAL_PRECISION(DIGITS));
        fputc('\n', o->out);
        json_decref(line);
        json_decref(r);
    }
    if (o->format == TABLE_JSON)
        json_object_set_new(o->document, o->id, rows);
    else
        json_decref(rows);
}

void table_end(struct table_output *o)
{
    size_t n = strlen(o->ids);
    bool wanted = !o->only || !strcmp(o->only, o->id);
    snprintf(o->ids + n, sizeof(o->ids) - n, "%s %s", n ? "," : "", o->id);
    o->found |= wanted;
    if (!wanted) {
        /* of no interest */
    } else if (o->format == TABLE_TEXT)
        print_text(o);
    else if (o->format == TABLE_CSV)
        print_csv(o);
    else
        print_json(o);
    for (size_t i = 0; i < o->num_cells; i++) {
        free(o->cells[i].text);
        json_decref(o->cells[i].value);
    }
    free(o->cells);
    free(o->id);
    free(o->title);
    free(o->columns);
    o->cells = NULL;
    o->room = o->num_cells = 0;
    o->any |= wanted;
}

void table_say(struct table_output *o, const char *format, ...)
{
    va_list args;
    char *text;
    if (o->format != TABLE_TEXT || o->only)
        return;
    va_start(args, format);
    int length = vasprintf(&text, format, args);
    va_end(args);
    if (length < 0)
        return;
    char *rest = text, *line;
    for (int first = 1; (line = strsep(&rest, "\n")); first = 0) {
        const char *at = line;
        fputs(first ? "" : "\n", o->out);
        while (*at) {
            const char *from = at;
            size_t indent = from == line ? 0 : INDENT;
            pad(o->out, indent, ' ');
            fwrite(from, 1, line_of(from, o->page - indent, &at), o->out);
            fputs(*at ? "\n" : "", o->out);
        }
    }
    free(text);
    o->any = true;
}
