/* common.c - arguments that several verbs share. */
#include "tools/tools.h"
#include "capture/settings/options_file.h"
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

static const struct argp_option options[] = {
    {"format", 'f', "FORMAT", 0, "text, csv, json or jsonl (as FILE's name ends, else text)", 0},
    {"table", 't', "NAME", 0, "only this table; csv has one only", 0},
    {"output", 'o', "FILE", 0, "write there instead of to standard output", 0},
    {0}};

static bool is_same_file(const char *a, const char *b)
{
    struct stat x, y;
    return a && !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino &&
           S_ISREG(x.st_mode);
}

void common_format_by_name(struct common *c)
{
    const char *dot = c->output ? strrchr(c->output, '.') : NULL;
    int format = dot ? table_format(dot + 1) : -1;
    if (c->format_given || c->is_page || format <= TABLE_TEXT)
        return;
    c->wish.format = (enum table_format)format;
    c->format_given = true;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct common *c = state->input;
    switch (key) {
    case 'f':
        c->wish.format = option_format(state, arg);
        c->format_given = true;
        return 0;
    case 't':
        c->wish.table = arg;
        c->format_given = true;
        return 0;
    case 'o':
        c->output = strcmp(arg, "-") ? arg : NULL;
        return 0;
    case ARGP_KEY_ARG:
        if (c->takes_program) {
            if (c->program)
                argp_error(state, "one program at a time");
            c->program = arg;
            return 0;
        }
        if (c->num_dumps == c->max_dumps)
            argp_error(state, "%s: one dump too many", arg);
        c->dumps[c->num_dumps++] = arg;
        return 0;
    case ARGP_KEY_END:
        if (c->num_dumps < c->min_dumps)
            argp_error(state, "a dump is missing (autograph --trace=FILE PROGRAM writes one)");
        for (int i = 0; i < c->num_dumps; i++)
            if (is_same_file(c->output, c->dumps[i]))
                argp_error(state, "%s is the dump itself", c->output);
        if (c->is_page && !c->output && isatty(STDOUT_FILENO))
            argp_error(state, "that is nothing for a terminal: -o FILE says where it goes");
        common_format_by_name(c);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp common_argp = {options, parse, NULL, NULL, NULL, NULL, NULL};
static const struct argp page_argp = {options + 2, parse, NULL, NULL, NULL, NULL, NULL};
const struct argp_child common_children[] = {{&common_argp, 0, NULL, 0}, {0}};
const struct argp_child page_children[] = {{&page_argp, 0, NULL, 0}, {0}};

FILE *common_open(const struct common *c)
{
    FILE *f = c->output ? fopen(c->output, "we") : stdout;
    if (!f)
        fprintf(stderr, "autograph: cannot write %s: %s\n", c->output, strerror(errno));
    return f;
}

void common_discard(const struct common *c)
{
    struct stat st;
    if (c->output && !lstat(c->output, &st) && S_ISREG(st.st_mode))
        unlink(c->output);
}

static bool told; /* that standard output takes no more */

/* Help texts and the version, too, must not be lost in silence. */
static void at_exit(void)
{
    if (told || (!fflush(stdout) && !ferror(stdout)))
        return;
    fprintf(stderr, "autograph: cannot write the output: %s\n", strerror(errno));
    _exit(1);
}

void common_watch_output(void)
{
    atexit(at_exit);
}

bool common_close(const struct common *c, FILE *f)
{
    bool good = !fflush(f) && !ferror(f);
    int why = errno;
    if (f != stdout && fclose(f)) {
        good = false;
        why = errno;
    }
    if (!good) {
        told |= f == stdout;
        fprintf(stderr, "autograph: cannot write %s: %s\n", c->output ? c->output : "the output",
                strerror(why));
        common_discard(c);
    }
    return good;
}

static ssize_t gz_write(void *gz, const char *bytes, size_t n)
{
    return gzwrite(gz, bytes, (unsigned int)n);
}

static int gz_close(void *gz)
{
    return gzclose(gz) == Z_OK ? 0 : -1;
}

FILE *open_compressed(const char *path)
{
    gzFile gz = gzopen(path, "wb3e");
    if (!gz)
        return NULL;
    FILE *f = fopencookie(gz, "w", (cookie_io_functions_t){.write = gz_write, .close = gz_close});
    if (f)
        setvbuf(f, NULL, _IOFBF, 1 << 16);
    return f;
}

unsigned int option_number(struct argp_state *state, const char *text)
{
    char *end;
    unsigned long n = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || n >= UINT32_MAX) /* strtoul takes "-1" and " 1" */
        argp_error(state, "%s is not a number", text);
    return (unsigned int)n;
}

enum table_format option_format(struct argp_state *state, const char *text)
{
    int format = table_format(text);
    if (format < 0)
        argp_error(state, "%s is not text, csv, json or jsonl", text);
    return (enum table_format)format;
}

void settings_of(const char *program)
{
    const char *slash = program ? strrchr(program, '/') : NULL;
    ag_settings_for(slash ? slash + 1 : program ? program : "");
}

const char *find_library(const char *wanted)
{
    static char found[PATH_MAX];
    /* Where both are installed, and in the folder of a build. */
    static const char *const places[] = {AG_TO_LIBRARY, "../preload/libautograph.so"};
    char self[PATH_MAX - 64], candidate[PATH_MAX];
    if (wanted)
        return realpath(wanted, found);
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[n > 0 ? n : 0] = 0;
    char *slash = strrchr(self, '/');
    if (!slash)
        return NULL;
    slash[1] = 0;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        snprintf(candidate, sizeof(candidate), "%s%s", self, places[i]);
        if (!access(candidate, R_OK) && realpath(candidate, found))
            return found;
    }
    return NULL;
}
