/* thread.c - the library's own threads. */
#include "capture/system/thread.h"
#include "capture/system/clock.h"
#include "capture/system/lock.h"
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* The process's processors before the program pinned any of its threads; empty if unknown. */
static cpu_set_t processors;
static bool enough_by_quota;
static _Atomic bool may_spin;

void ag_thread_count_processors(void)
{
    cpu_set_t now;
    bool enough =
        enough_by_quota && !sched_getaffinity(0, sizeof(now), &now) && CPU_COUNT(&now) > 1;
    atomic_store_explicit(&may_spin, enough, memory_order_relaxed);
}

bool ag_thread_starves_others(void)
{
    return !ag_thread_is_ordinary() && CPU_COUNT(&processors) == 1;
}

/* ---- quotas of control groups ------------------------------------------------------------ */

/* Reads the first number of the file, or the first two. Returns how many there are. */
static int numbers(const char *folder, const char *path, const char *name, long *a, long *b)
{
    char file[1024];
    if (snprintf(file, sizeof(file), "%s%s/%s", folder, path, name) >= (int)sizeof(file))
        return 0;
    FILE *f = fopen(file, "re");
    if (!f)
        return 0;
    int n = fscanf(f, "%ld %ld", a, b);
    fclose(f);
    return n;
}

/* Processors of one group, in hundredths; 0: no quota, or not known. */
static long quota_of(const char *folder, const char *path, bool newer)
{
    long allowed = 0, period = 0, none;
    bool known = newer ? numbers(folder, path, "cpu.max", &allowed, &period) == 2
                       : numbers(folder, path, "cpu.cfs_quota_us", &allowed, &none) >= 1 &&
                             numbers(folder, path, "cpu.cfs_period_us", &period, &none) >= 1;
    return known && allowed > 0 && period > 0 ? allowed * 100 / period : 0;
}

/* The least of a group and all groups around it. Inside a container the uppermost is its own,
 * whatever the path. */
static long least_quota(const char *folder, const char *group, bool newer)
{
    char path[512];
    long least = 0;
    snprintf(path, sizeof(path), "%s", group);
    for (;;) {
        long q = quota_of(folder, path, newer);
        if (q && (!least || q < least))
            least = q;
        char *slash = strrchr(path, '/');
        if (!slash)
            return least;
        *slash = 0;
    }
}

/* Of this process, by a line of /proc/self/cgroup: number, controllers, path. Version 2 names no
 * controllers. */
static long quota_by(char *line)
{
    char *rest = line, *item;
    strsep(&rest, ":");
    char *controllers = strsep(&rest, ":");
    if (!rest)
        return 0;
    rest[strcspn(rest, "\n")] = 0;
    if (!*controllers)
        return least_quota("/sys/fs/cgroup", rest, true);
    while ((item = strsep(&controllers, ",")))
        if (!strcmp(item, "cpu"))
            return least_quota("/sys/fs/cgroup/cpu", rest, false);
    return 0;
}

static long quota(void)
{
    char line[1024];
    long least = 0;
    FILE *f = fopen("/proc/self/cgroup", "re");
    while (f && fgets(line, sizeof(line), f)) {
        long q = quota_by(line);
        if (q && (!least || q < least))
            least = q;
    }
    if (f)
        fclose(f);
    return least;
}

/* ------------------------------------------------------------------------------------------ */

void ag_thread_look(void)
{
    if (sched_getaffinity(0, sizeof(processors), &processors))
        CPU_ZERO(&processors);
    long q = quota();
    enough_by_quota = !q || q >= 200;
    ag_thread_count_processors();
}

bool ag_thread_is_ordinary(void)
{
    int policy = sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;
    return policy != SCHED_FIFO && policy != SCHED_RR && policy != SCHED_DEADLINE;
}

bool ag_thread_may_spin(void)
{
    return atomic_load_explicit(&may_spin, memory_order_relaxed);
}

/* The driver is called in these threads, and nobody says how much stack that takes. The program may
 * want less for threads of its own (ulimit -s, pthread_setattr_default_np). */
enum { LEAST_STACK = 1 << 20 };

/* Attributes of a thread in the ordinary scheduling class, whatever the class of the thread that
 * starts it, on the processors that the process was given. */
static bool attributes(pthread_attr_t *a)
{
    const struct sched_param ordinary = {0};
    size_t stack;
    if (pthread_attr_init(a))
        return false;
    pthread_attr_setinheritsched(a, PTHREAD_EXPLICIT_SCHED);
    pthread_attr_setschedpolicy(a, SCHED_OTHER);
    pthread_attr_setschedparam(a, &ordinary);
    if (CPU_COUNT(&processors))
        pthread_attr_setaffinity_np(a, sizeof(processors), &processors);
    if (!pthread_attr_getstacksize(a, &stack) && stack < LEAST_STACK)
        pthread_attr_setstacksize(a, LEAST_STACK);
    return true;
}

bool ag_thread_start(pthread_t *thread, const char *name, void *(*run)(void *))
{
    /* Those that a thread meets by what it does. Not SIGABRT: others send it to the process, which
     * may block it and wait for it, and abort() does not mind that it is blocked. */
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    sigset_t blocked, before;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++)
        sigdelset(&blocked, faults[i]);
    pthread_attr_t a;
    if (!attributes(&a))
        return false;
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    bool started = pthread_create(thread, &a, run, NULL) == 0;
    if (!started) { /* the process may have lost those processors: then use this thread's */
        pthread_attr_setaffinity_np(&a, 0, &processors);
        started = pthread_create(thread, &a, run, NULL) == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (started)
        pthread_setname_np(*thread, name);
    pthread_attr_destroy(&a);
    return started;
}

/* By a clock that nobody sets: the time of day may be set back by hours meanwhile. */
void ag_thread_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, uint64_t ns)
{
    struct timespec until;
    ns += ag_clock_monotonic_ns();
    until.tv_sec = (time_t)(ns / 1000000000u);
    until.tv_nsec = (long)(ns % 1000000000u);
    pthread_cond_clockwait(cond, mutex, CLOCK_MONOTONIC, &until);
}

enum { JOIN_MOST_NS = 1000000000, JOIN_LOOK_NS = 50000 };

/* Looks again and again, as ThreadSanitizer does not know pthread_clockjoin_np. */
void ag_thread_join(pthread_t thread)
{
    uint64_t until = ag_clock_monotonic_ns() + JOIN_MOST_NS;
    while (pthread_tryjoin_np(thread, NULL)) {
        if (ag_clock_monotonic_ns() >= until) {
            pthread_detach(thread);
            return;
        }
        ag_sleep_ns(JOIN_LOOK_NS);
    }
}
