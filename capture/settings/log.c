/* log.c - writes each line with one write(2), so that lines of several threads and processes do
 * not mix. */
#include "capture/settings/log.h"
#include "capture/settings/bounded.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The rank that torchrun, Open MPI, MPICH or Slurm set; NULL if none did. */
const char *ag_rank(void)
{
    static const char *const names[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *value = getenv(names[i]);
        if (value && *value && strlen(value) < 10 && !value[strspn(value, "0123456789")])
            return value;
    }
    return NULL;
}

void ag_expand_path(const char *pattern, char *path, size_t size)
{
    size_t n = 0;
    for (const char *p = pattern; *p && n + 1 < size; p++) {
        char text[256] = {*p, 0};
        if (*p == '%' && p[1]) {
            p++;
            if (*p == 'p')
                snprintf(text, sizeof(text), "%d", (int)getpid());
            else if (*p == 'r')
                snprintf(text, sizeof(text), "%s", ag_rank() ? ag_rank() : "0");
            else if (*p == 'h')
                gethostname(text, sizeof(text) - 1);
            else if (*p == 'e')
                snprintf(text, sizeof(text), "%s", program_invocation_short_name);
            else
                snprintf(text, sizeof(text), "%s%c", *p == '%' ? "" : "%", *p);
        }
        for (const char *t = text; *t && n + 1 < size; t++)
            path[n++] = *t;
    }
    path[n] = 0;
}

const char *ag_process_name(char *text, size_t size)
{
    const char *of = ag_rank();
    snprintf(text, size, "%.64s[%d]%s%s", program_invocation_short_name, (int)getpid(),
             of ? " rank " : "", of ? of : "");
    return text;
}

/* A program that becomes a daemon closes all files that it does not know, and the next one that it
 * opens has the number of this one. */
bool ag_file_is_still(int fd, const struct stat *opened)
{
    struct stat now;
    return !fstat(fd, &now) && now.st_dev == opened->st_dev && now.st_ino == opened->st_ino;
}

/* A process begins with a table for 64 files. Where it has threads, a larger one waits for all
 * processors (expand_fdtable in the kernel): 5 to 19 ms of each start on H200 hosts. */
enum { KEPT_FROM = 56 };

int ag_keep_file(int fd)
{
    static const int from[] = {KEPT_FROM, STDERR_FILENO + 1};
    for (size_t i = 0; fd >= 0 && i < sizeof(from) / sizeof(from[0]); i++) {
        int kept = fcntl(fd, F_DUPFD_CLOEXEC, from[i]);
        if (kept >= 0) {
            close(fd);
            return kept;
        }
    }
    return fd;
}

/* -1 for a program that starts without one: that number is then a file of its own. */
static int standard_error = STDERR_FILENO;

void ag_log_look(void)
{
    int saved = errno;
    if (fcntl(STDERR_FILENO, F_GETFD) < 0)
        standard_error = -1;
    errno = saved;
}

static int output(void)
{
    static int fd = -1;
    static struct stat opened;
    static pid_t opened_by; /* the child of a fork gets its own file, if the name has %p */
    bool ours = fd == STDERR_FILENO || (fd >= 0 && ag_file_is_still(fd, &opened));
    if (ours && opened_by == getpid())
        return fd;
    if (!ag_options.log_file)
        return standard_error;
    if (ours && fd > STDERR_FILENO)
        close(fd);
    opened_by = getpid();
    char path[4096];
    ag_expand_path(ag_options.log_file, path, sizeof(path));
    fd = ag_keep_file(open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644));
    if (fd < 0) {
        const char *why = strerror(errno);
        fd = standard_error;
        dprintf(fd, "autograph: cannot open AUTOGRAPH_LOG_FILE %s: %s\n", path, why);
    }
    fstat(fd, &opened);
    return fd;
}

/* A thread that is cancelled goes on until the line is written: it may hold a lock of the library.
 */
static void line(const char *domain, const char *format, va_list args)
{
    struct ag_bounded bounded;
    char text[1024];
    int cancel;
    int n = snprintf(text, sizeof(text) - 1, "autograph: %s%s", domain ? domain : "",
                     domain ? ": " : "");
    int m = vsnprintf(text + n, sizeof(text) - 1 - (size_t)n, format, args);
    n += m < (int)sizeof(text) - 2 - n ? m : (int)sizeof(text) - 2 - n;
    text[n++] = '\n';
    int saved = errno;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    ag_bounded_begin(&bounded);
    bool failed = write(output(), text, (size_t)n) < 0; /* there is nowhere to report it */
    ag_bounded_end(&bounded, failed);
    pthread_setcancelstate(cancel, NULL);
    errno = saved;
}

void ag_say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    line(NULL, format, args);
    va_end(args);
}

void ag_log_line(const char *domain, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    line(domain, format, args);
    va_end(args);
}
