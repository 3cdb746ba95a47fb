/* test_log.c - paths with patterns, and lines. */
#include "tests/unit/unit.h"
#include "capture/settings/log.h"
#include "capture/settings/options.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>

static void test_patterns(void **state)
{
    char path[4096], wanted[4096], host[256] = "";
    (void)state;
    gethostname(host, sizeof host - 1);
    snprintf(wanted, sizeof wanted, "/a/%d-%s-%s-%%-%%x-%%", (int)getpid(), host,
             program_invocation_short_name);
    ag_expand_path("/a/%p-%h-%e-%%-%x-%", path, sizeof path);
    assert_string_equal(path, wanted);
}

static void test_path_is_cut(void **state)
{
    char path[8];
    (void)state;
    memset(path, 'x', sizeof path);
    ag_expand_path("0123456789%p", path, sizeof path);
    assert_string_equal(path, "0123456");
    ag_expand_path("01234%h%h", path, sizeof path);
    assert_int_equal(strlen(path) < sizeof path, 1);
    ag_expand_path("%p", path, 1);
    assert_string_equal(path, "");
}

/* What is written by `say` on stderr. */
static const char *said(void (*say)(void))
{
    static char text[8192];
    int ends[2], old = dup(STDERR_FILENO);
    assert_int_equal(pipe(ends), 0);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    dup2(ends[1], STDERR_FILENO);
    say();
    dup2(old, STDERR_FILENO);
    close(old);
    close(ends[1]);
    ssize_t n = read(ends[0], text, sizeof text - 1);
    text[n > 0 ? n : 0] = 0;
    close(ends[0]);
    return text;
}

static void say_at_all_levels(void)
{
    for (uint32_t level = AG_LOG_OFF; level <= AG_LOG_DEBUG; level++) {
        ag_options.log_level = level;
        ag_warn("a", "warn at %u", level);
        ag_info("b", "info at %u", level);
        ag_debug("c", "debug at %u", level);
    }
    ag_options.log_level = AG_LOG_OFF;
    ag_say("always");
}

static void test_levels(void **state)
{
    (void)state;
    assert_string_equal(said(say_at_all_levels), "autograph: a: warn at 1\n"
                                                 "autograph: a: warn at 2\n"
                                                 "autograph: b: info at 2\n"
                                                 "autograph: a: warn at 3\n"
                                                 "autograph: b: info at 3\n"
                                                 "autograph: c: debug at 3\n"
                                                 "autograph: always\n");
}

/* Beyond the low numbers, and within the 64 that need no larger table, while there is one. */
static void test_kept_files(void **state)
{
    (void)state;
    int kept[16], below = 0;
    struct rlimit limit, few;
    assert_int_equal(ag_keep_file(-1), -1);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        int fd = open("/dev/null", O_RDONLY);
        kept[i] = ag_keep_file(fd);
        assert_true(kept[i] > 32 && fcntl(kept[i], F_GETFD) == FD_CLOEXEC);
        assert_true(kept[i] == fd || fcntl(fd, F_GETFD) < 0);
        below += kept[i] < 64;
    }
    assert_true(below >= 4 && below < 16);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        close(kept[i]);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    few = limit;
    few.rlim_cur = 32; /* a process that may not have that many files */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    int fd = ag_keep_file(open("/dev/null", O_RDONLY));
    assert_true(fd > STDERR_FILENO && fd < 32);
    close(fd);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void say_too_much(void)
{
    char much[5000];
    memset(much, 'y', sizeof much - 1);
    much[sizeof much - 1] = 0;
    errno = EXDEV;
    ag_say("%s", much);
    assert_int_equal(errno, EXDEV);
}

static void test_long_line_is_cut_and_ends(void **state)
{
    (void)state;
    const char *text = said(say_too_much);
    assert_true(strlen(text) > 900 && strlen(text) <= 1024);
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_patterns),
        cmocka_unit_test(test_path_is_cut),
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_kept_files),
        cmocka_unit_test(test_long_line_is_cut_and_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
