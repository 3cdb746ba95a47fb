/* lives.c - see lives.h. */
#include "tools/lives.h"
#include "capture/settings/log.h"
#include "capture/trace/trace_format.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static struct ag_lives_page *head;

bool lives_make(void)
{
    size_t size = (AG_LIVES_MOST + 1) * (size_t)AG_LIVE_SIZE;
    char path[64];
    struct rlimit limit;
    if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur < size)
        return false;                                 /* making it would kill */
    int fd = memfd_create(AG_LIVE_NAME, MFD_CLOEXEC); /* memory for the pages that are used only */
    void *map = fd < 0 || ftruncate(fd, (off_t)size)
                    ? MAP_FAILED
                    : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) {
        if (fd >= 0)
            close(fd);
        return false;
    }
    head = map;
    head->most = AG_LIVES_MOST;
    memcpy(head->magic, AG_LIVES_MAGIC, sizeof(head->magic));
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(), fd);
    return !setenv("AUTOGRAPH_LIVE", path, 1);
}

static uint32_t taken(void)
{
    uint32_t n = __atomic_load_n(&head->taken, __ATOMIC_SEQ_CST);
    return n < AG_LIVES_MOST ? n : AG_LIVES_MOST;
}

static struct ag_live_page *page(uint32_t i)
{
    return (struct ag_live_page *)(void *)((char *)head + (size_t)(i + 1) * AG_LIVE_SIZE);
}

void lives_ask(void)
{
    for (uint32_t i = 0; i < taken(); i++)
        __atomic_store_n(&page(i)->wanted, 1, __ATOMIC_SEQ_CST);
}

/* How what was run ended; of others that is not known here. */
static void describe_end(char *text, size_t size, bool is_child, int status)
{
    if (is_child && WIFSIGNALED(status))
        snprintf(text, size, "ended by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(text, size, "ended by _exit, exec or a signal");
}

static void tell_one(struct ag_live_page *p, pid_t child, int status)
{
    char how[128];
    p->program[sizeof(p->program) - 1] = 0;
    for (char *at = p->program; *at; at++)
        if (*at < ' ' || *at > '~')
            *at = '?';
    p->rank[sizeof(p->rank) - 1] = 0;
    describe_end(how, sizeof(how), (pid_t)p->pid == child, status);
    unsigned long long carried = p->replayed + p->covered, ops = p->ops;
    fprintf(
        stderr,
        "autograph: %s[%u]%s%s: %s, before it could print a summary; when it was last looked at "
        "it had ",
        p->program, p->pid, *p->rank ? " rank " : "", p->rank, how);
    if (ops)
        fprintf(stderr, "replayed %llu of %llu ops (%.1f%%)\n", carried, ops,
                100.0 * (double)carried / (double)ops);
    else
        fputs("launched nothing\n", stderr);
}

/* It came to CUDA, and is gone without a word. */
static bool is_untold(const struct ag_live_page *p, pid_t child)
{
    bool alive = (pid_t)p->pid != child && (!kill((pid_t)p->pid, 0) || errno == EPERM);
    return !memcmp(p->magic, AG_LIVE_MAGIC, sizeof(p->magic)) &&
           !__atomic_load_n(&p->ended, __ATOMIC_ACQUIRE) && !alive;
}

void lives_tell(const char *program, pid_t child, int status, bool advise)
{
    const char *rank = ag_rank();
    uint32_t n = taken(), launched = 0, dumps = 0, told = 0;
    for (uint32_t i = 0; i < n; i++) {
        launched += page(i)->ops != 0;
        dumps += *page(i)->dump != 0;
    }
    for (uint32_t i = 0; i < n; i++)
        if (is_untold(page(i), child) && (page(i)->ops || !launched)) {
            tell_one(page(i), child, status);
            told++;
        }
    if (!launched && !told)
        fprintf(
            stderr,
            "autograph: %s%s%s: no CUDA launch was seen from here (`autograph doctor PROGRAM` may "
            "say why%s)\n",
            program, rank ? " rank " : "", rank ? rank : "",
            n ? "" : "; in a container or on another node put autograph before the program");
    else if (!dumps && advise)
        fputs("autograph: for more: autograph --trace=FILE PROGRAM writes a dump, autograph report "
              "FILE explains it\n",
              stderr);
}
