/* test_quota.c - whether the process may take a processor for a thread: the quotas of control
 * groups, in the files that the kernel shows them in. */
#include "tests/unit/unit.h"
#include "capture/system/thread.h"
#include <sched.h>
#include <stdio.h>
#include <sys/stat.h>

/* The kernel's files lie below this folder. */
static char root[64];

FILE *__real_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode)
{
    char moved[512];
    snprintf(moved, sizeof(moved), "%s%s", root, path);
    return __real_fopen(moved, mode);
}

static void write_file(const char *path, const char *text)
{
    char moved[512];
    snprintf(moved, sizeof(moved), "%s%s", root, path);
    for (char *slash = moved + strlen(root) + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = 0;
        mkdir(moved, 0700);
    }
    FILE *f = __real_fopen(moved, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* Begins with no files. */
static void begin(const char *groups)
{
    strcpy(root, "/tmp/quota.XXXXXX");
    assert_non_null(mkdtemp(root));
    write_file("/proc/self/cgroup", groups);
}

static void end(void)
{
    char command[128];
    snprintf(command, sizeof(command), "rm -r '%s'", root);
    assert_int_equal(system(command), 0);
}

static bool may_spin(void)
{
    ag_thread_look();
    return ag_thread_may_spin();
}

static void is_free(const char *groups)
{
    begin(groups);
    assert_true(may_spin());
    end();
}

static void none(void **state)
{
    (void)state;
    is_free("0::/\n");
    is_free("");
    is_free("nonsense\n5:\n:\n");
    begin("0::/user.slice/a.scope\n");
    write_file("/sys/fs/cgroup/user.slice/cpu.max", "max 100000\n");
    write_file("/sys/fs/cgroup/user.slice/a.scope/cpu.max", "800000 100000\n");
    assert_true(may_spin());
    end();
}

/* A container sees its own group as the uppermost. */
static void of_a_container(void **state)
{
    (void)state;
    begin("0::/\n");
    write_file("/sys/fs/cgroup/cpu.max", "199000 100000\n");
    assert_false(may_spin());
    write_file("/sys/fs/cgroup/cpu.max", "200000 100000\n");
    assert_true(may_spin());
    end();
}

static void of_a_group_around(void **state)
{
    (void)state;
    begin("0::/jobs/17/step\n");
    write_file("/sys/fs/cgroup/jobs/17/cpu.max", "150000 100000\n");
    write_file("/sys/fs/cgroup/jobs/17/step/cpu.max", "max 100000\n");
    assert_false(may_spin());
    end();
}

/* Version 1: two files, and a hierarchy of its own for processors. */
static void of_version_1(void **state)
{
    (void)state;
    begin("9:memory:/\n4:cpuset:/\n3:cpuacct,cpu:/docker/abc\n0::/\n");
    write_file("/sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us", "100000\n");
    write_file("/sys/fs/cgroup/cpu/docker/abc/cpu.cfs_period_us", "100000\n");
    assert_false(may_spin());
    write_file("/sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us", "-1\n");
    assert_true(may_spin());
    /* inside the container, where the path is that of the host */
    write_file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n");
    write_file("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    assert_false(may_spin());
    end();
}

/* The mask may change while the program runs, to either side. */
static void by_mask(void **state)
{
    (void)state;
    cpu_set_t all, one;
    CPU_ZERO(&one);
    begin("0::/\n");
    assert_true(may_spin());
    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    for (int i = 0; !CPU_COUNT(&one); i++)
        if (CPU_ISSET(i, &all))
            CPU_SET(i, &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    ag_thread_count_processors();
    assert_false(ag_thread_may_spin());
    assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
    ag_thread_count_processors();
    assert_true(ag_thread_may_spin());
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(none),
        cmocka_unit_test(of_a_container),
        cmocka_unit_test(of_a_group_around),
        cmocka_unit_test(of_version_1),
        cmocka_unit_test(by_mask),
    };
    if (sysconf(_SC_NPROCESSORS_ONLN) < 2 || !may_spin()) {
        puts("1..0 # skipped: one processor");
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
