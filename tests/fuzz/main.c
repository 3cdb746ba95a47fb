/*
 * main.c - fuzz_program: runs the programs of seeds, or a program in a file.
 *
 *     fuzz_program --seed FIRST [--count N] [--ops N] [--threads 0|1|2] [--print]
 *     fuzz_program FILE... | -
 *     further: [--real] [--queues] [--forks] [--without KIND,...] [--limit SECONDS]
 *
 * --threads: 0 one host thread, 1 several, 2 (the default) several in every fourth program.
 * --print writes the program instead of running it. --real: what only the simulated driver decides
 * is left out. --queues: and what may not return where queues fill. --forks: many loops on
 * two or three streams that fork and join; the transcript then does not tell which stream work ran
 * on. --without: kinds of ops that
 * are left out. --limit: a program that takes longer hangs. Each transcript ends with "done".
 */
#include "tests/fuzz/execute.h"
#include "tests/fuzz/model.h"
#include <dirent.h>
#include <execinfo.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* A program that takes longer than this hangs. */
static unsigned int limit_s = 40;

static bool print_only;

static const struct fz_program *running;

/* What a thread is in: addresses, in libraries too, for addr2line. */
static void on_shown(int signal)
{
    void *frames[48];
    int n = backtrace(frames, 48);
    (void)signal;
    if (write(STDERR_FILENO, "thread:\n", 8) == 8)
        backtrace_symbols_fd(frames, n, STDERR_FILENO);
}

static void on_fault(int number)
{
    on_shown(number);
    signal(number, SIG_DFL);
    raise(number);
}

/* Every thread of the process says what it is in, one after the other. */
static void show_threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *task;
    while (tasks && (task = readdir(tasks)))
        if (atoi(task->d_name) > 0 && !syscall(SYS_tgkill, getpid(), atoi(task->d_name), SIGUSR2))
            usleep(20000);
}

/* Says where each thread is. */
static void on_alarm(int signal)
{
    char text[512];
    int n = snprintf(text, sizeof text, "\n");
    (void)signal;
    for (unsigned int t = 0; running && t < running->threads; t++) {
        int64_t at = fz_at[t];
        n += snprintf(text + n, sizeof text - (size_t)n, "at op %lld of thread %u: %s\n",
                      (long long)at, t, at < 0 ? "-" : fz_kind_name(running->ops[at].kind));
    }
    n += snprintf(text + n, sizeof text - (size_t)n, "HANG\n");
    if (write(STDOUT_FILENO, text, (size_t)n) < 0)
        _exit(5);
    show_threads();
    _exit(4);
}

static void run(const struct fz_program *p, const char *name)
{
    static struct fz_model model;
    bool *legal = calloc(p->count + 1, sizeof *legal);
    unsigned int ignored;
    size_t skipped = 0;
    if (!legal)
        abort();
    fz_model_start(&model);
    for (size_t i = 0; i < p->count; i++) {
        legal[i] = fz_model_step(&model, &p->ops[i], &ignored) == FZ_OK;
        skipped += !legal[i];
    }
    if (print_only) {
        for (size_t i = 0; i < p->count; i++)
            if (legal[i]) {
                fz_op_print(stdout, &p->ops[i]);
                putchar('\n');
            }
    } else {
        printf("program %s: %zu ops, %zu skipped\n", name, p->count, skipped);
        fflush(stdout);
        running = p;
        alarm(limit_s);
        bool good = fz_execute(p, legal, stdout);
        alarm(0);
        running = NULL;
        puts(good ? "done" : "the context is lost");
        fflush(stdout);
        if (!good && fz_limits.real) /* and with it all further programs */
            _exit(6);
    }
    free(legal);
}

/* A program that loses the context, and with it all that would follow, has a process of its own:
 * this one again, with one seed. */
static bool spawn(char **argv, int argc, uint64_t seed)
{
    static char by_seed[] = "--seed", by_count[] = "--count", one[] = "1";
    char number[32], path[4096], **list = calloc((size_t)argc + 5, sizeof *list);
    pid_t child;
    int status = 1;
    if (!list)
        abort();
    memcpy(list, argv, (size_t)argc * sizeof *list);
    snprintf(number, sizeof number, "%llu", (unsigned long long)seed);
    list[argc] = by_seed;
    list[argc + 1] = number;
    list[argc + 2] = by_count;
    list[argc + 3] = one;
    fflush(stdout);
    /* By name: under valgrind the link itself leads to valgrind, and readlink to the program. */
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length < 0)
        abort();
    path[length] = '\0';
    if (posix_spawn(&child, path, NULL, NULL, list, environ) != 0 ||
        waitpid(child, &status, 0) != child || status)
        printf("its process ends with status %d\n", status);
    free(list);
    return status == 0;
}

static bool traps(const struct fz_program *p)
{
    for (size_t i = 0; i < p->count; i++)
        if (p->ops[i].kind == FZ_trap)
            return true;
    return false;
}

struct arguments {
    char **argv;
    int argc;
};

static bool run_seeds(uint64_t first, uint64_t count, struct fz_shape_of_program how, int threads,
                      struct arguments again)
{
    bool ok = true;
    for (uint64_t seed = first; seed < first + count; seed++) {
        struct fz_program p = {0};
        char name[32];
        how.seed = seed;
        how.threads = threads == 1 || (threads == 2 && seed % 4 == 3);
        fz_generate(&p, &how);
        snprintf(name, sizeof name, "seed %llu", (unsigned long long)seed);
        if (count > 1 && !print_only && traps(&p))
            ok = spawn(again.argv, again.argc, seed) && ok;
        else
            run(&p, name);
        fz_program_free(&p);
    }
    return ok;
}

static bool run_file(const char *path)
{
    struct fz_program p = {0};
    FILE *in = strcmp(path, "-") ? fopen(path, "r") : stdin;
    if (!in) {
        perror(path);
        return false;
    }
    bool ok = fz_program_read(in, path, &p);
    if (in != stdin)
        fclose(in);
    const char *base = strrchr(path, '/');
    if (ok)
        run(&p, base ? base + 1 : path);
    fz_program_free(&p);
    return ok;
}

static uint64_t number(char **argv, int *i)
{
    char *end = NULL;
    uint64_t n = argv[*i + 1] ? strtoull(argv[*i + 1], &end, 10) : 0;
    if (!end || *end) {
        fprintf(stderr, "fuzz_program: %s wants a number\n", argv[*i]);
        exit(2);
    }
    (*i)++;
    return n;
}

static void leave_out(const char *names)
{
    for (size_t n; *names; names += n + (names[n] == ',')) {
        n = strcspn(names, ",");
        unsigned int kind = 0;
        while (kind < FZ_KINDS &&
               (strlen(fz_kind_name(kind)) != n || memcmp(fz_kind_name(kind), names, n) != 0))
            kind++;
        if (kind == FZ_KINDS || kind == FZ_barrier) {
            fprintf(stderr, "fuzz_program: --without: no op %.*s\n", (int)n, names);
            exit(2);
        }
        fz_limits.without |= UINT64_C(1) << kind;
    }
}

int main(int argc, char **argv)
{
    struct fz_shape_of_program how = {.ops = 500};
    uint64_t first = 1, count = 1;
    int threads = 2, files = 0;
    bool ok = true;
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--seed"))
            first = number(argv, &i);
        else if (!strcmp(argv[i], "--count"))
            count = number(argv, &i);
        else if (!strcmp(argv[i], "--ops"))
            how.ops = (unsigned int)number(argv, &i);
        else if (!strcmp(argv[i], "--threads"))
            threads = (int)number(argv, &i);
        else if (!strcmp(argv[i], "--limit"))
            limit_s = (unsigned int)number(argv, &i);
        else if (!strcmp(argv[i], "--real"))
            fz_limits.real = true;
        else if (!strcmp(argv[i], "--queues"))
            fz_limits.queues = true;
        else if (!strcmp(argv[i], "--forks"))
            fz_limits.forks = true;
        else if (!strcmp(argv[i], "--without") && argv[i + 1])
            leave_out(argv[++i]);
        else if (!strcmp(argv[i], "--print"))
            print_only = true;
        else if (argv[i][0] != '-' || !argv[i][1])
            argv[++files] = argv[i]; /* never ahead of i */
        else {
            fprintf(stderr, "fuzz_program: unknown option %s\n", argv[i]);
            return 2;
        }
    if (!print_only) {
        void *frame;
        backtrace(&frame, 1); /* loads what it needs, now */
        signal(SIGALRM, on_alarm);
        signal(SIGUSR2, on_shown);
        signal(SIGSEGV, on_fault);
        fz_execute_start();
    }
    for (int i = 1; i <= files; i++)
        ok = run_file(argv[i]) && ok;
    if (!files)
        ok = run_seeds(first, count, how, threads, (struct arguments){argv, argc});
    return ok ? 0 : 2;
}
