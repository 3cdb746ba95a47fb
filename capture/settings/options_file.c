/* options_file.c - see options_file.h. */
#include "capture/settings/options_file.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const variables[] = {
#define AG_NUMBER(field, variable, preset, least, most, help) variable,
#define AG_CHOICE(field, variable, preset, choices, help)     variable,
#define AG_TEXT(field, variable, help)                        variable,
#include "capture/settings/options.def"
#undef AG_NUMBER
#undef AG_CHOICE
#undef AG_TEXT
};

enum {
    NUM_ROWS = sizeof(variables) / sizeof(variables[0]),
    MOST_BYTES = 65536,
    MOST_COMPLAINTS = 8,
    LEN_PREFIX = 10
};

static char text[MOST_BYTES + 1], path[4096];
static struct value {
    const char *text;
    unsigned int line;
} values[NUM_ROWS];
static struct complaint {
    const char *what, *about;
    unsigned int line; /* 0: about the whole file */
} complaints[MOST_COMPLAINTS];
static unsigned int num_complaints; /* may be more than are stored */
static const char *program;

void ag_settings_for(const char *name)
{
    program = name;
}

static void complain(const char *what, const char *about, unsigned int line)
{
    if (num_complaints < MOST_COMPLAINTS)
        complaints[num_complaints] = (struct complaint){what, about, line};
    num_complaints++;
}

static char *trim(char *from)
{
    from += strspn(from, " \t\r");
    size_t n = strlen(from);
    while (n && strchr(" \t\r", from[n - 1]))
        n--;
    from[n] = 0;
    return from;
}

static int row_of(const char *name)
{
    for (int i = 0; i < NUM_ROWS; i++)
        if (!strcasecmp(name, variables[i]) ||
            (variables[i][LEN_PREFIX - 1] && !strcasecmp(name, variables[i] + LEN_PREFIX)))
            return i;
    return -1;
}

static void read_setting(char *name, unsigned int line, bool counts)
{
    char *equals = strchr(name, '=');
    if (!equals || equals == name) {
        complain("is no setting: NAME = VALUE", name, line);
        return;
    }
    *equals = 0;
    char *value = trim(equals + 1);
    int row = row_of(trim(name));
    if (row < 0)
        complain("is not a variable of this library; `autograph env` lists them", name, line);
    else if (!strcmp(variables[row], "AUTOGRAPH_CONFIG"))
        complain("cannot stand in a file", name, line);
    else if (*value && counts)
        values[row] = (struct value){value, line}; /* sections come later, and override the rest */
}

static void read_lines(void)
{
    bool counts = true; /* whether the line applies to this program */
    unsigned int number = 0;
    char *rest = text, *line;
    while ((line = strsep(&rest, "\n"))) {
        number++;
        line = trim(line);
        size_t n = strlen(line);
        if (!n || *line == '#')
            continue;
        if (*line != '[') {
            read_setting(line, number, counts);
        } else if (n < 3 || line[n - 1] != ']') {
            complain("is no section: [PROGRAM]", line, number);
            counts = false;
        } else {
            line[n - 1] = 0;
            counts = !strcmp(trim(line + 1), program);
        }
    }
}

/* Returns whether there is a path. `named`: AUTOGRAPH_CONFIG gives it. */
static bool find_path(bool *named)
{
    const char *file = secure_getenv("AUTOGRAPH_CONFIG");
    const char *config = secure_getenv("XDG_CONFIG_HOME"), *home = secure_getenv("HOME");
    size_t n = 0;
    *named = file && *file;
    if (*named)
        n = (size_t)snprintf(path, sizeof(path), "%s", file);
    else if (config && *config == '/')
        n = (size_t)snprintf(path, sizeof(path), "%s/autograph.conf", config);
    else if (home && *home == '/')
        n = (size_t)snprintf(path, sizeof(path), "%s/.config/autograph.conf", home);
    if (n >= sizeof(path))
        path[0] = 0;
    return path[0];
}

/* Whoever may not look into the folder, such as a daemon with root's HOME, has no settings file. */
static bool is_missing(int why)
{
    return why == ENOENT || why == ENOTDIR ||
           (why == EACCES && faccessat(AT_FDCWD, path, F_OK, AT_EACCESS));
}

static void read_file(void)
{
    bool named;
    size_t n = 0;
    ssize_t got = 0;
    if (!program)
        program = program_invocation_short_name;
    if (!find_path(&named))
        return;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    while (fd >= 0 && n < MOST_BYTES && (got = read(fd, text + n, MOST_BYTES - n)) > 0)
        n += (size_t)got;
    if (fd < 0 || got < 0) {
        int why = errno;
        if (named || !is_missing(why))
            complain("cannot be read", strerrordesc_np(why), 0);
        else
            path[0] = 0;
        n = 0;
    } else if (n == MOST_BYTES) {
        complain("is larger than 64 KiB, and is not read", "", 0);
        n = 0;
    } else if (memchr(text, 0, n)) {
        complain("is not a text, and is not read", "", 0);
        n = 0;
    }
    if (fd >= 0)
        close(fd);
    text[n] = 0;
    read_lines();
}

/* Several threads may reach CUDA at the same time. No thread can be cancelled in here. */
static void read_once(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int saved = errno, state = 0;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    pthread_once(&once, read_file);
    pthread_setcancelstate(state, NULL);
    errno = saved;
}

const char *ag_settings_value(size_t row, unsigned int *line)
{
    read_once();
    *line = row < NUM_ROWS ? values[row].line : 0;
    return row < NUM_ROWS ? values[row].text : NULL;
}

const char *ag_settings_path(void)
{
    read_once();
    return path;
}

void ag_settings_tell(void (*say)(const char *format, ...))
{
    read_once();
    for (unsigned int i = 0; i < num_complaints && i < MOST_COMPLAINTS; i++) {
        const struct complaint *c = &complaints[i];
        if (c->line)
            say("%.512s:%u: %.64s %s", path, c->line, c->about, c->what);
        else
            say("%.512s %s%s%s", path, c->what, *c->about ? ": " : "", c->about);
    }
    if (num_complaints > MOST_COMPLAINTS)
        say("%.512s: and %u more", path, num_complaints - MOST_COMPLAINTS);
}
