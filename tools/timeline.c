/*
 * timeline.c - `autograph timeline`: a dump as Chrome trace events, for Perfetto, chrome://tracing
 * and what reads the traces of PyTorch's profiler.
 */
#include "tools/timeline.h"
#include "tools/tools.h"
#include <stdlib.h>
#include <string.h>

#define LONGEST          1e9
#define MOST_FOR_VIEWERS (1 << 30)

struct settings {
    struct common common;
    double from, to; /* seconds since the dump began */
};

enum { KEY_FROM = 256, KEY_TO };

static const struct argp_option options[] = {
    {"from", KEY_FROM, "SECONDS", 0, "leave out what came before (0)", 0},
    {"to", KEY_TO, "SECONDS", 0, "leave out what came after (the end)", 0},
    {0}};

static double seconds(struct argp_state *state, const char *text)
{
    char *end;
    double n = strtod(text, &end);
    if (*end || end == text || !(n >= 0 && n <= LONGEST))
        argp_error(state, "%s is not a number of seconds", text);
    return n;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct settings *s = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &s->common;
        return 0;
    case KEY_FROM:
        s->from = seconds(state, arg);
        return 0;
    case KEY_TO:
        s->to = seconds(state, arg);
        return 0;
    case ARGP_KEY_SUCCESS:
        if (s->from >= s->to)
            argp_error(state, "--from lies behind --to: nothing would be left");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    options,
    parse,
    "DUMP -o trace.json",
    "A dump as Chrome trace events: open the file in https://ui.perfetto.dev "
    "or chrome://tracing. A name that ends in .gz is compressed.",
    page_children,
    NULL,
    NULL};

int verb_timeline(int argc, char **argv)
{
    struct settings s = {.common = {.is_page = true, .min_dumps = 1, .max_dumps = 1},
                         .to = LONGEST};
    argp_parse(&argp, argc, argv, 0, NULL, &s);
    struct dump *d = dump_load(s.common.dumps[0]);
    if (!d)
        return 1;
    dump_complain(d);
    size_t n = s.common.output ? strlen(s.common.output) : 0;
    bool gz = n > 3 && !strcmp(s.common.output + n - 3, ".gz");
    FILE *out = gz ? open_compressed(s.common.output) : common_open(&s.common);
    if (gz && !out)
        fprintf(stderr, "autograph: cannot write %s\n", s.common.output);
    bool good = out && timeline_write(d, s.from, s.to, out);
    off_t size = out && !gz ? ftello(out) : 0;
    if (size > MOST_FOR_VIEWERS)
        fprintf(stderr,
                "autograph: %lld MiB are more than viewers open; --from and --to cut a part out\n",
                (long long)(size >> 20));
    if (out && !common_close(&s.common, out))
        good = false;
    good &= !d->damaged;
    dump_free(d);
    return good ? 0 : 1;
}
