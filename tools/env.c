/* env.c - `autograph env`: the variables, from the library's own table. */
#include "capture/settings/options.h"
#include "capture/settings/options_file.h"
#include "tools/tools.h"

static const struct argp argp = {
    NULL,
    NULL,
    "[PROGRAM]",
    "Every variable that libautograph reads, with its value here and where that comes from, its "
    "default, what it may be and what it means. With the name of a program the settings file's "
    "section for it counts.",
    common_children,
    NULL,
    NULL};

int verb_env(int argc, char **argv)
{
    static struct common c = {.wish.main = "variables", .takes_program = true};
    struct ag_option_row row;
    argp_parse(&argp, argc, argv, 0, NULL, &c);
    settings_of(c.program);
    FILE *out = common_open(&c);
    if (!out)
        return 1;
    struct table_output *o = table_open(out, &c.wish);
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
    return common_close(&c, out) && found ? 0 : 1;
}
