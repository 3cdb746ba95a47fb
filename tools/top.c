/* top.c - `autograph top`: the figures of a running process, again and again. */
#include "tools/tools.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct settings {
    enum table_format format;
    long pid;
    double seconds;
    unsigned long times;
};

static const struct argp_option options[] = {
    {"interval", 'd', "SECONDS", 0, "time between two looks (1)", 0},
    {"count", 'n', "N", 0, "end after N looks (0: when the process ends)", 0},
    {"format", 'f', "FORMAT", 0, "text, csv, json or jsonl (text)", 0},
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct settings *s = state->input;
    char *end;
    int format;
    switch (key) {
    case 'd':
        s->seconds = strtod(arg, &end);
        if (*end || end == arg || !(s->seconds >= 0.01 && s->seconds <= 3600))
            argp_error(state, "%s is not a time from 0.01 to 3600 seconds", arg);
        return 0;
    case 'n':
        s->times = strtoul(arg, &end, 10);
        if (*end || end == arg)
            argp_error(state, "%s is not a number", arg);
        return 0;
    case 'f':
        format = table_format(arg);
        if (format < 0)
            argp_error(state, "%s is not text, csv, json or jsonl", arg);
        s->format = (enum table_format)format;
        return 0;
    case ARGP_KEY_ARG:
        s->pid = strtol(arg, &end, 10);
        if (*end || end == arg || s->pid <= 0 || state->arg_num)
            argp_error(state, "%s is not the number of a process", arg);
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "which process?");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    options, parse,
    "PID",   "Live figures of a process that runs under libautograph, in the terminal.",
    NULL,    NULL,
    NULL};

/* In a file of its own the process has the only page; in one of the command's the one that bears
 * its number. */
static struct ag_live_page *find_page(char *file, size_t size, long pid)
{
    bool shared = !memcmp(file, AG_LIVES_MAGIC, sizeof(AG_LIVES_MAGIC) - 1);
    for (size_t at = 0; at + AG_LIVE_SIZE <= size; at += AG_LIVE_SIZE) {
        struct ag_live_page *page = (struct ag_live_page *)(void *)(file + at);
        if (!memcmp(page->magic, AG_LIVE_MAGIC, sizeof(page->magic)) &&
            (!shared || (long)page->pid == pid))
            return page;
    }
    return NULL;
}

/* The page of the process, or NULL with errno; ESRCH where there is no such process. */
static struct ag_live_page *open_page(long pid)
{
    char folder[64], path[400], target[256];
    struct dirent *entry;
    struct ag_live_page *page = NULL;
    snprintf(folder, sizeof(folder), "/proc/%ld/fd", pid);
    DIR *dir = opendir(folder);
    if (!dir) {
        errno = errno == ENOENT ? ESRCH : errno;
        return NULL;
    }
    while (!page && (entry = readdir(dir))) {
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        ssize_t n = readlink(path, target, sizeof(target) - 1);
        target[n > 0 ? n : 0] = 0;
        if (strncmp(target, "/memfd:" AG_LIVE_NAME " ", strlen("/memfd:" AG_LIVE_NAME " ")))
            continue;
        int fd = open(path, O_RDWR | O_CLOEXEC);
        struct stat st;
        if (fd >= 0 && !fstat(fd, &st) && st.st_size >= AG_LIVE_SIZE) {
            size_t size = (size_t)st.st_size;
            void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
            page = map == MAP_FAILED ? NULL : find_page(map, size, pid);
            if (map != MAP_FAILED && !page)
                munmap(map, size);
        }
        if (fd >= 0)
            close(fd);
    }
    closedir(dir);
    if (!page)
        errno = ENOENT;
    return page;
}

/* The page is another process's: what it holds must not speak to the terminal. */
static void clean(char *text, size_t size)
{
    text[size - 1] = 0;
    for (char *at = text; *at; at++)
        if (*at < ' ' || *at > '~')
            *at = '?';
}

/* A copy that was not written to meanwhile. */
static struct ag_live_page read_page(struct ag_live_page *page)
{
    struct ag_live_page copy;
    for (int tries = 0; tries < 1000; tries++) {
        uint32_t before = __atomic_load_n(&page->updates, __ATOMIC_SEQ_CST);
        memcpy(&copy, page, sizeof(copy));
        if (!(before & 1) && before == __atomic_load_n(&page->updates, __ATOMIC_SEQ_CST))
            break;
    }
    clean(copy.program, sizeof(copy.program));
    clean(copy.why, sizeof(copy.why));
    return copy;
}

static void row(struct table_output *o, const char *what, uint64_t now, uint64_t before,
                double seconds)
{
    table_text(o, what);
    table_number(o, now);
    table_real(o, seconds > 0 && now >= before ? (double)(now - before) / seconds : 0, 0);
}

static void show(const struct settings *s, const struct ag_live_page *now,
                 const struct ag_live_page *before, bool terminal)
{
    double seconds = (double)(now->now_ns - before->now_ns) / 1e9;
    uint64_t carried = now->replayed + now->covered;
    struct table_output *o = table_open(stdout, s->format);
    if (terminal)
        fputs("\033[H\033[J", stdout);
    table_say(
        o, " %s (pid %ld)%s: %.1f %% of %llu launches as graphs, %.1f of %.0f MiB in use, %.0f s\n",
        now->program, s->pid, now->observe_only ? ", observing only" : "",
        now->ops ? 100.0 * (double)carried / (double)now->ops : 0.0, (unsigned long long)now->ops,
        (double)now->memory / 1048576, (double)now->memory_budget / 1048576,
        (double)(now->now_ns - now->start_ns) / 1e9);
    if (*now->why)
        table_say(o, " Why not more: %s.\n", now->why);
    table_begin(o, "live", "Figures", "<What|Total|Each second");
    row(o, "launches", now->ops, before->ops, seconds);
    row(o, "replayed by graphs", now->replayed, before->replayed, seconds);
    row(o, "by shorter graphs", now->covered, before->covered, seconds);
    row(o, "held back, then one by one", now->flushed, before->flushed, seconds);
    row(o, "submitted at once", now->eager, before->eager, seconds);
    row(o, "let through without a look", now->dormant, before->dormant, seconds);
    row(o, "graph launches", now->graph_launches, before->graph_launches, seconds);
    row(o, "updates of arguments", now->node_updates, before->node_updates, seconds);
    row(o, "departures from a sequence", now->mismatches, before->mismatches, seconds);
    row(o, "boundaries", now->boundaries, before->boundaries, seconds);
    row(o, "flushes by the watchdog", now->watchdog, before->watchdog, seconds);
    row(o, "sequences", now->sequences, before->sequences, seconds);
    row(o, "graphs built", now->graphs_built, before->graphs_built, seconds);
    row(o, "streams", now->streams, before->streams, seconds);
    table_end(o);
    table_close(o);
    fflush(stdout);
}

static void pause_for(double seconds)
{
    struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&t, NULL);
}

int verb_top(int argc, char **argv)
{
    struct settings s = {.seconds = 1};
    argp_parse(&argp, argc, argv, 0, NULL, &s);
    struct ag_live_page *page = open_page(s.pid);
    if (!page) {
        fprintf(stderr, "autograph: process %ld: %s\n", s.pid,
                errno == ENOENT ? "it does not run under libautograph, or has not come to CUDA yet"
                                : strerror(errno));
        return 1;
    }
    bool terminal = s.format == TABLE_TEXT && isatty(STDOUT_FILENO);
    struct ag_live_page before = read_page(page);
    for (unsigned long i = 0; !s.times || i < s.times; i++) {
        __atomic_store_n(&page->wanted, 1, __ATOMIC_SEQ_CST);
        pause_for(s.seconds);
        struct ag_live_page now = read_page(page);
        show(&s, &now, &before, terminal);
        before = now;
        if (kill((pid_t)s.pid, 0) && errno == ESRCH) {
            fprintf(stderr, "autograph: process %ld has ended\n", s.pid);
            break;
        }
    }
    return 0;
}
