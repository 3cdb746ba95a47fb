/* table.c - see table.h. */
#include "tools/table.h"
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_COLUMNS = 24, WIDEST = 70, DIGITS = 15 };

struct cell {
    char *text;    /* as printed */
    json_t *value; /* as programs read it */
};

struct table_output {
    FILE *out;
    enum table_format format;
    json_t *document; /* JSON: all tables */
    char *id, *title, *columns;
    const char *names[MOST_COLUMNS];
    bool left[MOST_COLUMNS];
    size_t num_columns, num_cells, room;
    struct cell *cells;
    bool any;
};

int table_format(const char *name)
{
    static const char *const names[] = {"text", "csv", "json", "jsonl"};
    for (int i = 0; i < 4; i++)
        if (!strcmp(name, names[i]))
            return i;
    return -1;
}

static void *need(void *p)
{
    if (!p) {
        fputs("autograph: out of memory\n", stderr);
        exit(1);
    }
    return p;
}

struct table_output *table_open(FILE *out, enum table_format format)
{
    struct table_output *o = need(calloc(1, sizeof(*o)));
    o->out = out;
    o->format = format;
    o->document = need(json_object());
    return o;
}

void table_close(struct table_output *o)
{
    if (o->format == TABLE_JSON) {
        json_dumpf(o->document, o->out, JSON_INDENT(2) | JSON_REAL_PRECISION(DIGITS));
        fputc('\n', o->out);
    }
    json_decref(o->document);
    free(o);
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
        o->left[o->num_columns] = *name == '<';
        o->names[o->num_columns++] = name + (*name == '<');
    }
}

static void add(struct table_output *o, const char *text, json_t *value)
{
    if (o->num_cells == o->room) {
        o->room = o->room ? o->room * 2 : 64;
        o->cells = need(realloc(o->cells, o->room * sizeof(*o->cells)));
    }
    o->cells[o->num_cells++] = (struct cell){need(strdup(text)), need(value)};
}

void table_text(struct table_output *o, const char *text)
{
    json_t *value = json_string(text);
    add(o, text, value ? value : json_string("?"));
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

/* A text in its column; long ones lose their middle. The last column takes what it needs. */
static void print_cell(FILE *out, const char *text, size_t width, bool left, bool last)
{
    size_t n = width_of(text);
    if (n > width) {
        size_t head = (width - 3) * 2 / 3, tail = width - 3 - head, at = 0;
        const char *p = text;
        for (; at < head; at++) {
            fputc(*p++, out);
            while ((*p & 0xc0) == 0x80)
                fputc(*p++, out);
        }
        fputs("...", out);
        for (at = head; at < n - tail; at++) {
            p++;
            while ((*p & 0xc0) == 0x80)
                p++;
        }
        fputs(p, out);
        return;
    }
    if (!left)
        pad(out, width - n, ' ');
    fputs(text, out);
    if (left && !last)
        pad(out, width - n, ' ');
}

static void print_text(struct table_output *o)
{
    size_t widths[MOST_COLUMNS], columns = o->num_columns;
    for (size_t c = 0; c < columns; c++) {
        widths[c] = width_of(o->names[c]);
        for (size_t i = c; i < o->num_cells; i += columns) {
            size_t n = width_of(o->cells[i].text);
            bool bounded = n > WIDEST && !(o->left[c] && c + 1 == columns);
            if (n > widths[c])
                widths[c] = bounded ? WIDEST : n;
        }
    }
    fprintf(o->out, "%s ** %s (%s):\n\n", o->any ? "\n" : "", o->title, o->id);
    if (!o->num_cells) {
        fputs(" none\n", o->out);
        return;
    }
    for (size_t c = 0; c < columns; c++) {
        fputs(c ? "  " : " ", o->out);
        print_cell(o->out, o->names[c], widths[c], o->left[c], c + 1 == columns);
    }
    fputc('\n', o->out);
    for (size_t c = 0; c < columns; c++) {
        fputs(c ? "  " : " ", o->out);
        pad(o->out, widths[c] > WIDEST ? WIDEST : widths[c], '-');
    }
    fputc('\n', o->out);
    for (size_t i = 0; columns && i < o->num_cells; i++) {
        size_t c = i % columns;
        fputs(c ? "  " : " ", o->out);
        print_cell(o->out, o->cells[i].text, widths[c], o->left[c], c + 1 == columns);
        if (c + 1 == columns)
            fputc('\n', o->out);
    }
}

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
    if (o->any)
        fputc('\n', o->out);
    for (size_t c = 0; c < o->num_columns; c++) {
        fputs(c ? "," : "", o->out);
        print_csv_field(o->out, o->names[c]);
    }
    fputc('\n', o->out);
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
        json_object_set(object, o->names[c], o->cells[first + c].value);
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
    if (o->format == TABLE_TEXT)
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
    o->any = true;
}

void table_say(struct table_output *o, const char *format, ...)
{
    va_list args;
    if (o->format != TABLE_TEXT)
        return;
    va_start(args, format);
    vfprintf(o->out, format, args);
    va_end(args);
    o->any = true;
}
