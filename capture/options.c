/* options.c - reads the environment against options.def. */
#include "capture/options.h"
#include "capture/log.h"
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

#define TEXT_OF(x) #x

enum kind { NUMBER, CHOICE, TEXT };

static const struct row {
    enum kind kind;
    const char *variable;
    uint32_t preset, least, most;
    const char *choices, *help, *preset_text, *range_text;
    size_t offset;
} rows[] = {
#define AG_NUMBER(field, variable, preset, least, most, help)                                      \
    {NUMBER,                                                                                       \
     variable,                                                                                     \
     preset,                                                                                       \
     least,                                                                                        \
     most,                                                                                         \
     NULL,                                                                                         \
     help,                                                                                         \
     TEXT_OF(preset),                                                                              \
     TEXT_OF(least) ".." TEXT_OF(most),                                                            \
     offsetof(struct ag_options, field)},
#define AG_CHOICE(field, variable, preset, choices, help)                                          \
    {CHOICE,  variable, preset, 0,       0,                                                        \
     choices, help,     NULL,   choices, offsetof(struct ag_options, field)},
#define AG_TEXT(field, variable, help)                                                             \
    {TEXT, variable, 0, 0, 0, NULL, help, "", "path", offsetof(struct ag_options, field)},
#include "capture/options.def"
#undef AG_NUMBER
#undef AG_CHOICE
#undef AG_TEXT
};

enum { NUM_ROWS = sizeof(rows) / sizeof(rows[0]) };

struct ag_options ag_options;

/* Index of `text` among "a|b|c", -1 if it is not there. */
static int choice_index(const char *choices, const char *text)
{
    size_t n = strlen(text);
    int index = 0;
    for (const char *at = choices; at; index++) {
        const char *bar = strchr(at, '|');
        size_t len = bar ? (size_t)(bar - at) : strlen(at);
        if (len == n && !strncmp(at, text, n))
            return index;
        at = bar ? bar + 1 : NULL;
    }
    return -1;
}

static const char *choice_text(const char *choices, uint32_t index, char *buffer, size_t size)
{
    const char *at = choices;
    while (index--)
        at = strchr(at, '|') + 1;
    const char *bar = strchr(at, '|');
    snprintf(buffer, size, "%.*s", bar ? (int)(bar - at) : (int)strlen(at), at);
    return buffer;
}

static bool parse_number(const char *text, const struct row *row, uint32_t *value)
{
    if (text[strspn(text, "0123456789")]) /* strtoull would skip blanks and take a sign */
        return false;
    errno = 0;
    unsigned long long n = strtoull(text, NULL, 10);
    if (errno || n < row->least || n > row->most)
        return false;
    *value = (uint32_t)n;
    return true;
}

/* A setuid program that is linked with the library must not write files for who starts it. */
static void read_row(const struct row *row, bool quiet)
{
    char *field = (char *)&ag_options + row->offset;
    const char *text = secure_getenv(row->variable);
    uint32_t value = row->preset;
    if (row->kind == TEXT) {
        *(const char **)field = text && *text ? text : NULL;
        return;
    }
    if (text && *text) {
        int index = row->kind == CHOICE ? choice_index(row->choices, text) : 0;
        bool good = row->kind == CHOICE ? index >= 0 : parse_number(text, row, &value);
        if (row->kind == CHOICE && good)
            value = (uint32_t)index;
        if (!good && !quiet) {
            char buffer[32];
            const char *preset =
                row->kind == CHOICE ? choice_text(row->choices, row->preset, buffer, sizeof(buffer))
                                    : row->preset_text;
            ag_say("%s=%.64s is not one of %s; using %s", row->variable, text, row->range_text,
                   preset);
        }
    }
    *(uint32_t *)field = value;
}

static unsigned int distance(const char *a, const char *b)
{
    unsigned int row[64];
    size_t n = strlen(b);
    if (n > 63 || strlen(a) > 63)
        return 64;
    for (unsigned int j = 0; j <= n; j++)
        row[j] = j;
    for (unsigned int i = 1; a[i - 1]; i++) {
        unsigned int diagonal = row[0];
        row[0] = i;
        for (unsigned int j = 1; j <= n; j++) {
            unsigned int best = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[n];
}

static void warn_unknown(void)
{
    for (char **e = environ; e && *e; e++) {
        if (strncmp(*e, "AUTOGRAPH", 9) || ((*e)[9] != '_' && (*e)[9] != '='))
            continue;
        char name[64];
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(*e, "="), *e);
        const char *nearest = rows[0].variable;
        bool known = false;
        for (size_t i = 0; i < NUM_ROWS && !known; i++) {
            known = !strcmp(name, rows[i].variable);
            if (distance(name, rows[i].variable) < distance(name, nearest))
                nearest = rows[i].variable;
        }
        if (!known)
            ag_say("%s is not a variable of this library; did you mean %s?", name, nearest);
    }
}

void ag_options_read(void)
{
    static bool done;
    if (done)
        return;
    done = true;
    for (size_t i = 0; i < NUM_ROWS; i++)
        if (rows[i].kind == TEXT) /* first, so that what follows is said in the right place */
            read_row(&rows[i], true);
    for (size_t i = 0; i < NUM_ROWS; i++)
        read_row(&rows[i], false);
    warn_unknown();
}

uint32_t ag_options_mode(void)
{
    const char *text = secure_getenv("AUTOGRAPH");
    int index = text && *text ? choice_index("0|observe|1", text) : AG_MODE_ON;
    return index < 0 ? AG_MODE_ON : (uint32_t)index;
}

int ag_options_row(size_t index, struct ag_option_row *row)
{
    static char buffer[32];
    if (index >= NUM_ROWS)
        return -1;
    const struct row *r = &rows[index];
    row->variable = r->variable;
    row->preset = r->kind == CHOICE ? choice_text(r->choices, r->preset, buffer, sizeof(buffer))
                                    : r->preset_text;
    row->range = r->range_text;
    row->help = r->help;
    return 0;
}
