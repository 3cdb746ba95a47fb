/* options.c - reads the environment and the settings file against options.def. */
#include "capture/settings/options.h"
#include "capture/settings/log.h"
#include "capture/settings/options_file.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT_OF(x) #x

enum { LEN_PREFIX = sizeof("AUTOGRAPH_") - 1, MOST_PATH = 4096 };

enum kind { NUMBER, CHOICE, TEXT };

static const struct row {
    enum kind kind;
    const char *variable, *help, *preset_text, *range_text;
    size_t offset;
    uint32_t preset, least, most; /* preset: the index of a choice */
} rows[] = {
#define AG_NUMBER(field, variable, preset, least, most, help)                                      \
    {NUMBER,                                                                                       \
     variable,                                                                                     \
     help,                                                                                         \
     TEXT_OF(preset),                                                                              \
     TEXT_OF(least) ".." TEXT_OF(most),                                                            \
     offsetof(struct ag_options, field),                                                           \
     preset,                                                                                       \
     least,                                                                                        \
     most},
#define AG_CHOICE(field, variable, preset, choices, help)                                          \
    {CHOICE, variable, help, NULL, choices, offsetof(struct ag_options, field), preset, 0, 0},
#define AG_TEXT(field, variable, help)                                                             \
    {TEXT, variable, help, "", "path", offsetof(struct ag_options, field), 0, 0, 0},
#include "capture/settings/options.def"
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

/* Words that mean the same as a choice of the switch. */
static const struct {
    const char *word, *choice;
} synonyms[] = {{"off", "0"}, {"no", "0"},  {"false", "0"},
                {"on", "1"},  {"yes", "1"}, {"true", "1"}};

/* The index that AUTOGRAPH selects; -1 if its value is not understood. Whoever set it did not mean
 * the default. The program must not change because of a mistake, so the library is then off. */
static int switch_index(const struct row *row, const char *text)
{
    for (size_t i = 0; i < sizeof(synonyms) / sizeof(synonyms[0]); i++)
        if (!strcasecmp(text, synonyms[i].word))
            text = synonyms[i].choice;
    return choice_index(row->range_text, text);
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
    if (text[strspn(text, "0123456789")]) /* strtoull would skip blanks and accept a sign */
        return false;
    errno = 0;
    unsigned long long n = strtoull(text, NULL, 10);
    if (errno || n < row->least || n > row->most)
        return false;
    *value = (uint32_t)n;
    return true;
}

/* The value that was given for this row, or NULL. `line` is the line in the file, or 0 if the
 * environment gave the value. A setuid program that is linked with the library must not write
 * files for the user who starts it. */
static const char *given(const struct row *row, unsigned int *line)
{
    const char *text = secure_getenv(row->variable);
    *line = 0;
    return text && *text ? text : ag_settings_value((size_t)(row - rows), line);
}

/* A copy of a path, or NULL: a program may write its title over the environment. No file has a
 * longer path. */
static const char *kept(const struct row *row, const char *text)
{
    static char paths[NUM_ROWS][MOST_PATH];
    size_t n = text ? strlen(text) + 1 : 0;
    return n && n <= MOST_PATH ? memcpy(paths[row - rows], text, n) : text;
}

static void read_row(const struct row *row, ag_options_say *say)
{
    char *field = (char *)&ag_options + row->offset, place[600] = "";
    unsigned int line;
    const char *text = given(row, &line);
    uint32_t value = row->preset;
    if (row->kind == TEXT) {
        *(const char **)field = kept(row, text);
        return;
    }
    if (text) {
        bool is_switch = row == &rows[0];
        int index = row->kind != CHOICE ? 0
                    : is_switch         ? switch_index(row, text)
                                        : choice_index(row->range_text, text);
        bool good = row->kind == CHOICE ? index >= 0 : parse_number(text, row, &value);
        if (row->kind == CHOICE && good)
            value = (uint32_t)index;
        else if (is_switch)
            value = AG_MODE_OFF;
        if (!good) {
            char buffer[32];
            const char *used = row->kind == CHOICE
                                   ? choice_text(row->range_text, value, buffer, sizeof(buffer))
                                   : row->preset_text;
            if (line)
                snprintf(place, sizeof(place), "%.512s:%u: ", ag_settings_path(), line);
            say("%s%s=%.64s is not one of %s; using %s", place, row->variable, text,
                row->range_text, used);
        }
    }
    *(uint32_t *)field = value;
}

unsigned int ag_options_distance(const char *a, const char *b)
{
    unsigned int lines[3][64], *before = lines[0], *above = lines[1], *row = lines[2];
    size_t n = strlen(b);
    if (n > 63 || strlen(a) > 63)
        return 64;
    for (unsigned int j = 0; j <= n; j++)
        row[j] = j;
    for (unsigned int i = 1; a[i - 1]; i++) {
        unsigned int *next = before;
        before = above;
        above = row;
        row = next;
        row[0] = i;
        for (unsigned int j = 1; j <= n; j++) {
            unsigned int best = above[j - 1] + (a[i - 1] != b[j - 1]);
            if (above[j] + 1 < best)
                best = above[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            row[j] = best;
        }
    }
    return row[n];
}

/* The known name that the user probably meant; NULL if none is close: more than half of what is
 * behind a prefix that names share would have to change. */
static const char *meant(const char *name)
{
    const char *nearest = NULL, *own = name + LEN_PREFIX;
    unsigned int least = (unsigned int)strlen(own + (strncmp(own, "TEST_", 5) ? 0 : 5)) / 2 + 1;
    for (size_t i = 1; i < NUM_ROWS; i++) {
        unsigned int d = ag_options_distance(name, rows[i].variable);
        if (d < least) {
            least = d;
            nearest = rows[i].variable;
        }
    }
    return nearest;
}

/* What turns Python into graphs in TensorFlow has the same name, and variables of its own. */
static bool is_tensorflows(const char *name)
{
    return !strcmp(name, "AUTOGRAPH_VERBOSITY") || !strcmp(name, "AUTOGRAPH_STRICT_CONVERSION");
}

/* A program may have a variable named `environ` of its own, of any type. */
static void check_names(ag_options_say *say)
{
    for (char **e = __environ; e && *e; e++) {
        if (strncmp(*e, "AUTOGRAPH", 9) || ((*e)[9] != '_' && (*e)[9] != '='))
            continue;
        char name[64];
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(*e, "="), *e);
        bool known = is_tensorflows(name);
        for (size_t i = 0; i < NUM_ROWS && !known; i++)
            known = !strcmp(name, rows[i].variable);
        const char *nearest = known ? NULL : meant(name);
        if (nearest)
            say("%s is not a variable of this library; did you mean %s?", name, nearest);
        else if (!known)
            say("%s is not a variable of this library; `autograph env` lists them", name);
    }
}

void ag_options_check(ag_options_say *say)
{
    for (size_t i = 0; i < NUM_ROWS; i++)
        if (rows[i].kind == TEXT) /* first, so that later messages go to the right place */
            read_row(&rows[i], say);
    for (size_t i = 0; i < NUM_ROWS; i++)
        if (rows[i].kind != TEXT)
            read_row(&rows[i], say);
    ag_settings_tell(say);
    check_names(say);
}

void ag_options_read(void)
{
    static bool done;
    if (!done)
        ag_options_check(ag_say);
    done = true;
}

uint32_t ag_options_mode(void)
{
    unsigned int line;
    const char *text = given(&rows[0], &line);
    int index = text ? switch_index(&rows[0], text) : AG_MODE_ON;
    return index < 0 ? AG_MODE_OFF : (uint32_t)index;
}

bool ag_options_mode_is_understood(void)
{
    unsigned int line;
    const char *text = given(&rows[0], &line);
    return !text || switch_index(&rows[0], text) >= 0;
}

int ag_options_row(size_t index, struct ag_option_row *row)
{
    static char buffer[32], place[4200];
    unsigned int line;
    if (index >= NUM_ROWS)
        return -1;
    const struct row *r = &rows[index];
    row->variable = r->variable;
    row->preset = r->kind == CHOICE ? choice_text(r->range_text, r->preset, buffer, sizeof(buffer))
                                    : r->preset_text;
    row->range = r->range_text;
    row->help = r->help;
    row->value = given(r, &line);
    snprintf(place, sizeof(place), "%s:%u", line ? ag_settings_path() : "", line);
    row->origin = line ? place : row->value ? "environment" : "default";
    if (!row->value)
        row->value = row->preset;
    return 0;
}
