/* env.c - `autograph env`: the variables, from the library's own table. */
#include "capture/settings/options.h"
#include "tools/tools.h"
#include <stdlib.h>
#include <string.h>

static const struct argp_child children[] = {{&common_argp, 0, NULL, 0}, {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    (void)arg;
    if (key == ARGP_KEY_INIT)
        state->child_inputs[0] = state->input;
    return key == ARGP_KEY_INIT ? 0 : ARGP_ERR_UNKNOWN;
}

static const struct argp argp = {
    NULL,
    parse,
    "",
    "Every variable that libautograph reads, with its value here, its default, "
    "what it may be and what it means.",
    children,
    NULL,
    NULL};

int verb_env(int argc, char **argv)
{
    struct common c = {.max_dumps = 0};
    struct ag_option_row row;
    argp_parse(&argp, argc, argv, 0, NULL, &c);
    FILE *out = common_open(&c);
    if (!out)
        return 1;
    struct table_output *o = table_open(out, c.format);
    table_begin(o, "variables", "Variables", "<Variable|<Value|<Default|<Range|<Meaning");
    for (size_t i = 0; !ag_options_row(i, &row); i++) {
        const char *value = getenv(row.variable);
        table_text(o, row.variable);
        table_text(o, value ? value : "");
        table_text(o, row.preset);
        table_text(o, row.range);
        table_text(o, row.help);
    }
    table_end(o);
    ag_options_read(); /* says which values are no good, and which names are not known */
    table_close(o);
    return common_close(&c, out) ? 0 : 1;
}
