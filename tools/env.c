/* env.c - `autograph env`: the variables, from the library's own table. */
#include "capture/settings/options.h"
#include "capture/settings/options_file.h"
#include "tools/tools.h"
#include <stdlib.h>
#include <string.h>

static const struct argp_child children[] = {{&common_argp, 0, NULL, 0}, {0}};

struct settings {
    struct common common;
    const char *program;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct settings *s = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &s->common;
        return 0;
    case ARGP_KEY_ARG:
        if (s->program)
            argp_error(state, "one program at a time");
        s->program = arg;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    NULL,
    parse,
    "[PROGRAM]",
    "Every variable that libautograph reads, with its value here and where that comes from, its "
    "default, what it may be and what it means. With the name of a program the settings file's "
    "section for it counts.",
    children,
    NULL,
    NULL};

int verb_env(int argc, char **argv)
{
    static struct settings s = {.common = {.wish.main = "variables", .max_dumps = 0}};
    struct ag_option_row row;
    argp_parse(&argp, argc, argv, 0, NULL, &s);
    settings_of(s.program);
    FILE *out = common_open(&s.common);
    if (!out)
        return 1;
    struct table_output *o = table_open(out, &s.common.wish);
    if (*ag_settings_path())
        table_say(o, " Settings file: %s\n\n", ag_settings_path());
    table_begin(o, "variables", "Variables", "<Variable|<Value|<From|<Default|<Range|<Meaning");
    for (size_t i = 0; !ag_options_row(i, &row); i++) {
        table_text(o, row.variable);
        table_text(o, row.value);
        table_text(o, row.origin);
        table_text(o, row.preset);
        table_text(o, row.range);
        table_text(o, row.help);
    }
    table_end(o);
    ag_options_read(); /* says which values are no good, and which names are not known */
    bool found = table_close(o);
    return common_close(&s.common, out) && found ? 0 : 1;
}
