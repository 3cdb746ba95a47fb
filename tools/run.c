/* run.c - `autograph [run]`: the program, under the library. */
#include "capture/settings/log.h"
#include "capture/settings/options.h"
#include "tools/lives.h"
#include "tools/tools.h"
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct settings {
    bool observe, quiet, compare, output_given;
    struct common common; /* of what --observe says */
    const char *trace, *library;
    char **program;
};

enum { KEY_LIBRARY = 256 };

static const struct argp_option options[] = {
    {"observe", 'n', NULL, 0, "submit nothing differently; say what would be gained", 0},
    {"compare", 'c', "MS", OPTION_ARG_OPTIONAL,
     "be eager for one of two spans of MS milliseconds (50); the summary says what replay gains",
     0},
    {"trace", 't', "FILE", 0,
     "write a dump (%p is the pid, %r the rank, %h the host, %e the program)", 0},
    {"quiet", 'q', NULL, 0, "no summary at the end", 0},
    {"set", 'e', "NAME=VALUE", 0, "set a variable; AUTOGRAPH_ may be left out", 0},
    {"format", 'f', "FORMAT", 0,
     "of what --observe says: text, csv, json or jsonl (as FILE's name ends, else text)", 0},
    {"output", 'o', "FILE", 0, "where --observe says it (standard error)", 0},
    {"library", KEY_LIBRARY, "FILE", 0, "another libautograph.so", 0},
    {0}};

/* "MAX_DEFER_US=50" and "AUTOGRAPH_MAX_DEFER_US=50" */
static void set_variable(struct argp_state *state, const char *text)
{
    char name[256];
    const char *equals = strchr(text, '=');
    if (!equals || equals == text || equals - text > 200) {
        argp_error(state, "%s is not NAME=VALUE", text);
        return;
    }
    snprintf(name, sizeof(name), "%s%.*s", strncmp(text, "AUTOGRAPH", 9) ? "AUTOGRAPH_" : "",
             (int)(equals - text), text);
    setenv(name, equals + 1, 1);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct settings *s = state->input;
    switch (key) {
    case 'f':
        s->common.wish.format = option_format(state, arg);
        s->common.format_given = true;
        return 0;
    case 'o':
        s->common.output = strcmp(arg, "-") ? arg : NULL;
        s->output_given = true;
        return 0;
    case 'n':
        s->observe = true;
        return 0;
    case 'c':
        if (arg && (!option_number(state, arg) || option_number(state, arg) > 100000))
            argp_error(state, "%s is not a time from 1 to 100000 ms", arg);
        setenv("AUTOGRAPH_COMPARE_MS", arg ? arg : "50", 1);
        s->compare = true;
        return 0;
    case 't':
        if (!*arg)
            argp_error(state, "--trace needs the name of a file");
        s->trace = arg;
        return 0;
    case 'q':
        s->quiet = true;
        return 0;
    case 'e':
        set_variable(state, arg);
        return 0;
    case KEY_LIBRARY:
        s->library = arg;
        return 0;
    case ARGP_KEY_ARG:
        s->program = state->argv + state->next - 1;
        state->next = state->argc;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "which program?");
        return 0;
    case ARGP_KEY_SUCCESS:
        if (s->observe && s->compare)
            argp_error(state, "--observe replays nothing that --compare could compare");
        if (s->observe && s->quiet && !s->trace)
            argp_error(state,
                       "--observe --quiet would say nothing; --trace=FILE keeps what it saw");
        if ((s->common.format_given || s->output_given) && (!s->observe || s->trace))
            argp_error(state, "--format and --output are of what --observe says");
        common_format_by_name(&s->common);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    options,
    parse,
    "PROGRAM [ARGUMENTS]",
    "Runs a program with libautograph: its repeating launches go to the "
    "GPU as CUDA Graphs, its exit status and signals are its own.",
    NULL,
    NULL,
    NULL};

static bool is_preloaded(const char *list)
{
    for (const char *at = list; at && *at;) {
        size_t n = strcspn(at, ": ");
        const char *name = at + n;
        while (name > at && name[-1] != '/')
            name--;
        if (!strncmp(name, "libautograph.so", 15))
            return true;
        at += n + (at[n] != 0);
    }
    return false;
}

/* Other libraries keep their place before ours. */
static void preload(const char *library)
{
    const char *before = getenv("LD_PRELOAD");
    char *list;
    if (is_preloaded(before))
        return;
    if (!before || !*before) {
        setenv("LD_PRELOAD", library, 1);
    } else if (asprintf(&list, "%s:%s", before, library) >= 0) {
        setenv("LD_PRELOAD", list, 1);
        free(list);
    }
}

static int start(char **program)
{
    execvp(program[0], program);
    int why = errno;
    const char *meant = why == ENOENT && !strchr(program[0], '/') ? nearest_verb(program[0]) : NULL;
    fprintf(stderr, "autograph: cannot run %s: %s%s%s%s\n", program[0], strerror(why),
            meant ? "; did you mean `autograph " : "", meant ? meant : "", meant ? "`?" : "");
    return why == ENOENT ? 127 : 126;
}

/* ---- the command stays until the program ends, and reports --------------------- */

static volatile sig_atomic_t child;

/* What a key of the terminal sends comes to the program by itself. */
static void pass_on(int signal, siginfo_t *info, void *unused)
{
    (void)unused;
    bool key = (signal == SIGINT || signal == SIGQUIT) && info->si_code == SI_KERNEL;
    if (child > 0 && !key)
        kill((pid_t)child, signal);
}

/* Ends as the program ended. */
static int end_like(int status)
{
    if (!WIFSIGNALED(status))
        return WEXITSTATUS(status);
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none); /* its core is the one that matters */
    signal(WTERMSIG(status), SIG_DFL);
    fflush(NULL);
    kill(getpid(), WTERMSIG(status));
    return 128 + WTERMSIG(status);
}

/* What the dumps in the folder foretell; the folder goes. False: it could not be written, or a dump
 * could not be read. */
static bool tell(const struct settings *s, FILE *out, const char *parent, const char *folder)
{
    enum table_format format = s->common.wish.format;
    char path[4400];
    struct dirent *entry;
    DIR *dir = opendir(folder);
    int found = 0, lost = 0;
    while (dir && (entry = readdir(dir))) {
        if (*entry->d_name == '.')
            continue;
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        struct dump *d = dump_load(path);
        if (d) {
            struct table_wish wish = {.format = format, .main = "replay"};
            struct table_output *o = table_open(out, &wish);
            table_say(o, "\nautograph: %s (pid %s) under --observe; with replay it would be:\n",
                      dump_process(d, "program"), dump_process(d, "pid"));
            replay_dump(d, o);
            table_close(o);
        }
        found += d != NULL;
        lost += d == NULL;
        dump_free(d);
        unlink(path);
    }
    if (dir)
        closedir(dir);
    rmdir(folder);
    if (lost)
        fprintf(
            stderr,
            "autograph: what a process launched is not known: nothing of it came to %s before it "
            "ended (is that full? TMPDIR names another folder)\n",
            parent);
    else if (!found)
        fputs("autograph: no CUDA launch was seen (`autograph doctor PROGRAM` may say why)\n",
              stderr);
    else if (format == TABLE_TEXT)
        fputs("\nautograph: to replay, run it without --observe\n", stderr);
    return (out == stderr || common_close(&s->common, out)) && !lost;
}

/* Starts the program and waits for its end: the exit status as waitpid() gives it. The program
 * goes where this goes, and signals go on to it. */
static int run_and_wait(char **program, void (*ask)(void))
{
    static const int passed[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU};
    enum { FIRST_MS = 20, LONGEST_MS = 1000, NUM_PASSED = sizeof(passed) / sizeof(passed[0]) };
    const struct sigaction passing = {.sa_sigaction = pass_on, .sa_flags = SA_SIGINFO | SA_RESTART};
    pid_t parent = getpid();
    int status = 1 << 8, ms = FIRST_MS;
    sigset_t all, before;
    sigemptyset(&all);
    for (size_t i = 0; i < NUM_PASSED; i++)
        sigaddset(&all, passed[i]);
    sigprocmask(SIG_BLOCK, &all, &before); /* what comes before there is somebody to pass it on */
    child = fork();
    if (child == 0) {
        sigprocmask(SIG_SETMASK, &before, NULL);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        _exit(start(program));
    }
    for (size_t i = 0; i < NUM_PASSED; i++)
        sigaction(passed[i], &passing, NULL);
    sigprocmask(SIG_SETMASK, &before, NULL);
    int end = child > 0 && ask ? (int)syscall(SYS_pidfd_open, child, 0) : -1;
    struct pollfd wait = {end, POLLIN, 0};
    while (ask && end >= 0 && poll(&wait, 1, ms) <= 0) {
        ask();
        ms = ms * 2 < LONGEST_MS ? ms * 2 : LONGEST_MS;
    }
    if (end >= 0)
        close(end);
    while (child > 0 && waitpid((pid_t)child, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
}

static int observe(const struct settings *s)
{
    char folder[4096], trace[4200];
    const char *tmp = getenv("TMPDIR");
    if (!tmp || !*tmp)
        tmp = "/tmp";
    snprintf(folder, sizeof(folder), "%s/autograph.XXXXXX", tmp);
    if (!mkdtemp(folder)) {
        fprintf(stderr, "autograph: cannot make a folder in %s: %s\n", tmp, strerror(errno));
        return 1;
    }
    FILE *out = s->output_given ? common_open(&s->common) : stderr;
    if (!out) {
        rmdir(folder);
        return 1;
    }
    snprintf(trace, sizeof(trace), "%s/%%p.agdump", folder);
    setenv("AUTOGRAPH_TRACE", trace, 1);
    int status = run_and_wait(s->program, NULL);
    if (out == stderr)
        signal(SIGPIPE, SIG_IGN); /* its end is the program's, whoever reads what is told */
    if (!tell(s, out, tmp, folder) && WIFEXITED(status) && !WEXITSTATUS(status))
        return 1;
    return end_like(status);
}

/* By the environment, or by the settings file for what is run. */
static bool is_given(const char *variable)
{
    struct ag_option_row row;
    for (size_t i = 0; !ag_options_row(i, &row); i++)
        if (!strcmp(row.variable, variable))
            return strcmp(row.origin, "default") != 0;
    return false;
}

/* The library prints the summary; what it does not come to say is said here. Of many ranks one is
 * enough to say what all would, and none says it here if the summary goes to a file. */
static int replay_and_tell(char **program)
{
    const char *rank = ag_rank();
    bool advise = (!rank || !strcmp(rank, "0")) && !is_given("AUTOGRAPH_LOG_FILE");
    if (ag_options_mode() == AG_MODE_OFF || !lives_make())
        return start(program);
    int status = run_and_wait(program, lives_ask);
    signal(SIGPIPE, SIG_IGN); /* its end is the program's, whoever reads what is told */
    if (!WIFEXITED(status) || WEXITSTATUS(status) < 126) /* it was there, and could be run */
        lives_tell(program[0], (pid_t)child, status, advise);
    return end_like(status);
}

int verb_run(int argc, char **argv)
{
    struct settings s = {0};
    argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &s);
    const char *library = find_library(s.library);
    if (!library) {
        fprintf(stderr, "autograph: %s was not found; --library=FILE names it\n",
                s.library ? s.library : "libautograph.so");
        return 1;
    }
    if (strpbrk(library, ": ")) {
        fprintf(stderr, "autograph: %s cannot be preloaded: the loader takes no spaces or colons\n",
                library);
        return 1;
    }
    preload(library);
    settings_of(s.program[0]);
    if (s.compare && s.quiet && !is_given("AUTOGRAPH_STATS")) {
        fputs("autograph: --compare --quiet would say nothing: the summary has what it finds\n",
              stderr);
        return 2;
    }
    if (!s.quiet && !is_given("AUTOGRAPH_STATS"))
        setenv("AUTOGRAPH_STATS", "1", 1);
    if (s.trace)
        setenv("AUTOGRAPH_TRACE", s.trace, 1);
    if ((s.trace || s.compare) && !s.observe && ag_options_mode() == AG_MODE_OFF)
        fprintf(stderr,
                "autograph: AUTOGRAPH is off (`autograph env %s` says where that is set): %s\n",
                s.program[0], s.trace ? "there will be no dump" : "there is nothing to compare");
    if (!s.observe)
        return s.quiet ? start(s.program) : replay_and_tell(s.program);
    setenv("AUTOGRAPH", "observe", 1);
    if (!s.quiet)
        unsetenv("AUTOGRAPH_STATS");
    return s.trace ? start(s.program) : observe(&s);
}
