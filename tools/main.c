/* main.c - the command `autograph`: which verb is meant. */
#include "ag_version.h"
#include "capture/settings/options.h"
#include "tools/tools.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct verb {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
} verbs[] = {
    {"run", verb_run, "run a program with libautograph (the default)"},
    {"report", verb_report, "what a dump says: sequences, reasons, advice"},
    {"timeline", verb_timeline, "a dump for Perfetto and chrome://tracing"},
    {"graphs", verb_graphs, "the graphs of a dump, for Graphviz"},
    {"html", verb_html, "a dump as one self-contained page"},
    {"diff", verb_diff, "two dumps, or those of two runs, compared"},
    {"replay", verb_replay, "what another run over a dump's launches would make of them"},
    {"top", verb_top, "live figures of running processes"},
    {"env", verb_env, "every variable, its value, where that is from, and its meaning"},
    {"doctor", verb_doctor, "whether this machine and a program are fit for libautograph"},
};
enum { NUM_VERBS = sizeof(verbs) / sizeof(verbs[0]) };

static const struct verb *find_verb(const char *name)
{
    for (int i = 0; i < NUM_VERBS; i++)
        if (!strcmp(name, verbs[i].name))
            return &verbs[i];
    return NULL;
}

const char *nearest_verb(const char *name)
{
    const char *nearest = NULL;
    unsigned int least = strlen(name) > 3 ? 3 : 2; /* what is that far off was not meant */
    for (int i = -1; i < NUM_VERBS; i++) {
        const char *verb = i < 0 ? "help" : verbs[i].name;
        unsigned int d = ag_options_distance(name, verb);
        if (d < least) {
            least = d;
            nearest = verb;
        }
    }
    return nearest;
}

/* `-h` asks for help like `--help`: of the verb's own arguments, not of a program that is run. */
static int call(const struct verb *verb, int argc, char **argv)
{
    static char name[64], help[] = "--help";
    snprintf(name, sizeof(name), "autograph %s", verb->name);
    program_invocation_name = name;
    argv[0] = name;
    for (int i = 1; i < argc && (i == 1 || verb->run != verb_run); i++)
        if (!strcmp(argv[i], "-h"))
            argv[i] = help;
    return verb->run(argc, argv);
}

static void help(FILE *out)
{
    fputs("Usage: autograph [run] [options] program [arguments]\n"
          "       autograph VERB [options] ...\n\n"
          "Makes unmodified CUDA programs submit their repeating launches as CUDA Graphs.\n\n",
          out);
    for (int i = 0; i < NUM_VERBS; i++)
        fprintf(out, "  %-10s %s\n", verbs[i].name, verbs[i].help);
    fputs("\n`autograph help run` lists the options before a program,\n"
          "`autograph help VERB` says more about each verb. A program whose name is that\n"
          "of a verb is run by `autograph run NAME`.\n",
          out);
}

static bool asks_for_help(const char *word)
{
    return !strcmp(word, "--help") || !strcmp(word, "-h") || !strcmp(word, "help");
}

int main(int argc, char **argv)
{
    argp_err_exit_status = 2;
    common_watch_output();
    if (argc < 2) {
        help(stderr);
        return 2;
    }
    if (!strcmp(argv[1], "help") && argc > 2 && !asks_for_help(argv[2])) {
        const struct verb *verb = find_verb(argv[2]);
        char *of_verb[] = {argv[2], (char[]){"--help"}, NULL};
        if (verb)
            return call(verb, 2, of_verb);
        const char *meant = nearest_verb(argv[2]);
        fprintf(stderr, "autograph: there is no verb %s%s%s%s\n", argv[2],
                meant ? "; did you mean " : "", meant ? meant : "", meant ? "?" : "");
        return 2;
    }
    if (asks_for_help(argv[1])) {
        help(stdout);
        return 0;
    }
    if (!strcmp(argv[1], "--version")) {
        puts("autograph " AG_VERSION ", " AG_COMMIT);
        return 0;
    }
    const struct verb *verb = find_verb(argv[1]);
    if (verb)
        return call(verb, argc - 1, argv + 1);
    char name[] = "autograph";
    argv[0] = name;
    return verb_run(argc, argv);
}
