/*
 * fuzz_options.c - libFuzzer target for what reads the environment: capture/settings/options.c, and
 * the paths with %p, %h and %e that capture/settings/log.c expands. An input becomes a whole
 * environment; what the parser makes of it is compared with the table of options.def, read by
 * simpler code.
 *
 * The parser reads once in a process. So all that it remembers lies in sections of its own here,
 * and each input begins with what they held at the start.
 */
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Nothing random may create a file, and every line that is said is looked at. */
static int seen_open(const char *path, int flags, ...);
static ssize_t seen_write(int fd, const void *text, size_t n);
static int seen_dprintf(int fd, const char *format, ...);

#pragma clang section bss = "parser_zeros" data = "parser_values"
#define open    seen_open
#define write   seen_write
#define dprintf seen_dprintf
#include "capture/settings/log.c"
#include "capture/settings/options.c"
#undef open
#undef write
#undef dprintf
#pragma clang section bss = "" data = ""

/* Without a settings file. */
const char *ag_settings_value(size_t row, unsigned int *line)
{
    (void)row;
    *line = 0;
    return NULL;
}

const char *ag_settings_path(void)
{
    return "";
}

void ag_settings_tell(ag_options_say *say)
{
    (void)say;
}

#define BORDER __attribute__((weak)) /* nothing of the kind may be left to remember */
extern char __start_parser_zeros[] BORDER, __stop_parser_zeros[] BORDER;
extern char __start_parser_values[] BORDER, __stop_parser_values[] BORDER;

#define HOLDS(x) ((x) ? (void)0 : broken(__LINE__, #x))

enum { MOST_ENTRIES = 64, MOST_TEXT = 1 << 18, LONGEST_LINE = 1024, LONGEST_PATH = 4096 };

static char *entries[MOST_ENTRIES + 1];
static size_t num_entries;
static unsigned int lines, opened;
static bool may_open;
static char *text_of_entry; /* MOST_TEXT bytes: an entry in the making */

static void broken(int line_number, const char *what)
{
    fprintf(stderr, "fuzz_options.c:%d: does not hold: %s\n", line_number, what);
    for (size_t i = 0; i < num_entries; i++)
        fprintf(stderr, "  %.200s\n", entries[i]);
    abort();
}

static int seen_open(const char *path, int flags, ...)
{
    HOLDS(strlen(path) < LONGEST_PATH);
    HOLDS((flags & (O_NOFOLLOW | O_CLOEXEC)) == (O_NOFOLLOW | O_CLOEXEC));
    HOLDS(ag_options.log_file);
    opened++;
    errno = ENOENT;
    return may_open ? 1000 : -1;
}

static ssize_t seen_write(int fd, const void *text, size_t n)
{
    HOLDS(fd == (ag_options.log_file && may_open ? 1000 : STDERR_FILENO));
    HOLDS(n > 11 && n <= LONGEST_LINE);
    HOLDS(!memcmp(text, "autograph: ", 11) && ((const char *)text)[n - 1] == '\n');
    HOLDS(!memchr(text, 0, n));
    lines++;
    return (ssize_t)n;
}

static int seen_dprintf(int fd, const char *format, ...)
{
    char text[2 * LONGEST_PATH];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    HOLDS(fd == STDERR_FILENO && n < (int)sizeof(text) && !may_open);
    return n;
}

/* ---- the table, once more ---------------------------------------------------------------- */

static const struct known {
    enum kind kind;
    const char *variable, *choices;
    uint32_t preset, least, most;
    const void *field;
} known[] = {
#define AG_NUMBER(field, variable, preset, least, most, help)                                      \
    {NUMBER, variable, NULL, preset, least, most, &ag_options.field},
#define AG_CHOICE(field, variable, preset, choices, help)                                          \
    {CHOICE, variable, choices, preset, 0, 0, &ag_options.field},
#define AG_TEXT(field, variable, help) {TEXT, variable, NULL, 0, 0, 0, &ag_options.field},
#include "capture/settings/options.def"
#undef AG_NUMBER
#undef AG_CHOICE
#undef AG_TEXT
};

enum { NUM_KNOWN = sizeof(known) / sizeof(known[0]) };

/* What getenv finds: the first entry of the name; NULL if there is none or it is empty. */
static const char *value_of(const char *variable)
{
    size_t n = strlen(variable);
    for (size_t i = 0; i < num_entries; i++)
        if (!strncmp(entries[i], variable, n) && entries[i][n] == '=')
            return entries[i][n + 1] ? entries[i] + n + 1 : NULL;
    return NULL;
}

/* The place of the word between bars, -1 if it is not there. */
static int place_of(const char *choices, const char *word)
{
    char copy[64], *rest = copy, *choice;
    snprintf(copy, sizeof(copy), "%s", choices);
    for (int place = 0; (choice = strsep(&rest, "|")); place++)
        if (!strcmp(choice, word))
            return place;
    return -1;
}

/* Whether the row has what the environment says, and how many lines (0, 1) tell of it. */
static unsigned int check_row(const struct known *k)
{
    const char *text = value_of(k->variable);
    if (k->kind == TEXT) {
        const char *kept = *(const char *const *)k->field;
        HOLDS(!kept == !text && (!text || !strcmp(kept, text)));
        return 0;
    }
    uint32_t value = *(const uint32_t *)k->field;
    if (!text) {
        HOLDS(value == k->preset);
        return 0;
    }
    if (k->kind == CHOICE) {
        bool is_switch = k == &known[0];
        int place = place_of(k->choices, text);
        for (int i = 0; is_switch && i < 6; i++)
            if (!strcasecmp(text, (const char *[]){"off", "no", "false", "on", "yes", "true"}[i]))
                place = i < 3 ? 0 : 2;
        HOLDS(value == (place < 0 ? is_switch ? 0 : k->preset : (uint32_t)place));
        return place < 0;
    }
    HOLDS(value >= k->least && value <= k->most);
    size_t digits = strspn(text, "0123456789");
    if (text[digits] || !digits) { /* "+1", " 1" and "1 " are no numbers */
        HOLDS(value == k->preset);
        return 1;
    }
    uint64_t n = 0;
    for (const char *c = text; *c && n <= UINT32_MAX; c++)
        n = n * 10 + (uint64_t)(*c - '0');
    bool good = n >= k->least && n <= k->most;
    HOLDS(value == (good ? n : k->preset));
    return !good;
}

static bool is_unknown(const char *entry)
{
    size_t n = strcspn(entry, "=");
    if (strncmp(entry, "AUTOGRAPH", 9) || (entry[9] != '_' && entry[9] != '='))
        return false;
    for (size_t i = 0; i < NUM_KNOWN; i++)
        if (strlen(known[i].variable) == n && !memcmp(entry, known[i].variable, n))
            return false;
    return true;
}

/* ---- paths ------------------------------------------------------------------------------- */

/* The same in the slowest way: each character's text behind the other's, then cut. */
static void check_path(const char *pattern, size_t size)
{
    size_t room = strlen(pattern) + 1, n = 0;
    for (const char *p = pattern; *p; p++)
        room += *p == '%' && strchr("phre", p[1]) ? 256 : 0;
    char *whole = malloc(room), *path = malloc(size), host[256] = "";
    gethostname(host, sizeof(host) - 1);
    for (const char *p = pattern; *p; p++) {
        const char kind = *p == '%' ? p[1] : 0;
        if (kind == 'p')
            n += (size_t)sprintf(whole + n, "%d", (int)getpid());
        else if (kind == 'r')
            n += (size_t)sprintf(whole + n, "%s", ag_rank() ? ag_rank() : "0");
        else if (kind == 'h')
            n += (size_t)sprintf(whole + n, "%s", host);
        else if (kind == 'e')
            n += (size_t)sprintf(whole + n, "%.255s", program_invocation_short_name);
        else if (kind == '%')
            whole[n++] = '%';
        else
            whole[n++] = *p;
        p += kind && strchr("phre%", kind);
    }
    whole[n] = 0;
    memset(path, '!', size);
    ag_expand_path(pattern, path, size);
    size_t length = n < size ? n : size - 1;
    HOLDS(!memcmp(path, whole, length) && !path[length]);
    free(whole);
    free(path);
}

/* ---- from an input to an environment ----------------------------------------------------- */

struct input {
    const uint8_t *data;
    size_t size;
};

static unsigned int byte(struct input *in)
{
    if (!in->size)
        return 0;
    in->size--;
    return *in->data++;
}

/* Up to `most` bytes as they come, without the end of a string among them. */
static size_t raw(struct input *in, char *to, size_t most)
{
    size_t n = 0;
    while (n < most && in->size) {
        char c = (char)byte(in);
        if (c)
            to[n++] = c;
    }
    return n;
}

static size_t make_name(struct input *in, const struct known *k, char *to)
{
    size_t n = (size_t)sprintf(to, "%s", k->variable), at;
    switch (byte(in) % 8) {
    case 0: /* a letter less */
        at = byte(in) % n;
        memmove(to + at, to + at + 1, n - at);
        return n - 1;
    case 1: /* another letter */
        at = byte(in) % n;
        return raw(in, to + at, 1) ? n : at;
    case 2: /* more behind it */
        return n + raw(in, to + n, byte(in));
    case 3: /* a long one */
        at = byte(in) * 300;
        memset(to + n, '_', at);
        return n + at;
    default:
        return n;
    }
}

static size_t make_value(struct input *in, const struct known *k, char *to)
{
    static const char letters[] = "phe%/. -0";
    uint64_t edges[] = {0, k->least, k->most, k->preset, INT32_MAX, UINT32_MAX, UINT64_MAX};
    const char *sign[] = {"", "", "", "-", "+", " ", "0", " -"};
    size_t n = 0;
    switch (byte(in) % 6) {
    case 0:
        return (size_t)sprintf(to, "%s%llu", sign[byte(in) % 8],
                               (unsigned long long)(edges[byte(in) % 7] + byte(in) % 3 - 1));
    case 1: /* a choice, or a piece of one, or with its bars */
        if (!k->choices)
            return raw(in, to, byte(in));
        n = byte(in) % (strlen(k->choices) + 1);
        return (size_t)sprintf(to, "%.*s", (int)(byte(in) % 16), k->choices + n);
    case 2: /* a pattern of a path */
        for (size_t pieces = byte(in); pieces && in->size; pieces--) {
            to[n++] = '%';
            to[n++] = letters[byte(in) % 9];
        }
        return n;
    case 3: /* huge */
        n = byte(in) * 400;
        memset(to, (int)(byte(in) % 255 + 1), n);
        return n;
    default:
        return raw(in, to, byte(in));
    }
}

/* An entry lies in memory of its own size: nobody reads behind it unseen. */
static void make_entry(struct input *in)
{
    unsigned int what = byte(in);
    const struct known *k = &known[what % NUM_KNOWN];
    size_t n = what < 240 ? make_name(in, k, text_of_entry) : raw(in, text_of_entry, byte(in));
    if (what % 32 != 31) /* a few have no = */
        text_of_entry[n++] = '=';
    n += make_value(in, k, text_of_entry + n);
    char *entry = malloc(n + 1);
    memcpy(entry, text_of_entry, n);
    entry[n] = 0;
    entries[num_entries++] = entry;
    entries[num_entries] = NULL;
}

/* Byte by byte: between the variables lie AddressSanitizer's red zones. */
__attribute__((no_sanitize("address"))) static void invalidate_all(void)
{
    static char *values;
    size_t n = (uintptr_t)__stop_parser_values - (uintptr_t)__start_parser_values;
    size_t zeros = (uintptr_t)__stop_parser_zeros - (uintptr_t)__start_parser_zeros;
    bool first = !values;
    if (first)
        values = malloc(n);
    for (size_t i = 0; i < n; i++) {
        volatile char *byte_of = &__start_parser_values[i];
        if (first)
            values[i] = *byte_of;
        *byte_of = values[i];
    }
    for (size_t i = 0; i < zeros; i++)
        *(volatile char *)&__start_parser_zeros[i] = 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char program[512];
    struct input in = {data, size};
    char **environment = environ, *name = program_invocation_short_name;
    if (!text_of_entry)
        text_of_entry = malloc(MOST_TEXT);
    invalidate_all();
    lines = opened = 0;
    may_open = byte(&in) & 1;
    size_t path_size = byte(&in) * 20 + 1;
    size_t length = byte(&in) * 2;
    memset(program, 'p', length);
    program[length] = 0;
    raw(&in, program, length > 8 ? 8 : length);
    entries[0] = NULL;
    while (in.size && num_entries < MOST_ENTRIES)
        make_entry(&in);

    environ = entries;
    program_invocation_short_name = program;
    uint32_t mode = ag_options_mode();
    ag_options_read();
    unsigned int said = lines, expected = 0;
    ag_options_read();
    HOLDS(lines == said); /* nothing is said twice */
    HOLDS(mode == ag_options.mode);
    for (size_t i = 0; i < NUM_KNOWN; i++)
        expected += check_row(&known[i]);
    for (size_t i = 0; i < num_entries; i++)
        expected += is_unknown(entries[i]);
    HOLDS(said == expected);
    for (size_t i = 0; i < num_entries; i++)
        ag_say("%s", entries[i]);
    HOLDS(lines == said + num_entries);
    HOLDS(ag_options.log_file ? opened > 0 || !lines : !opened);
    for (size_t i = 0; i < num_entries; i++) /* any text may be a pattern */
        check_path(entries[i], i % 2 ? LONGEST_PATH : path_size);
    environ = environment;
    program_invocation_short_name = name;

    while (num_entries)
        free(entries[--num_entries]);
    return 0;
}
