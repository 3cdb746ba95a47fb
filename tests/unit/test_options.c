/* test_options.c - the table of variables, and what is made of an environment. */
#include "tests/unit/unit.h"
#include "capture/settings/options.h"
#include "capture/settings/options_file.h"
#include <fcntl.h>
#include <sys/wait.h>

extern char **environ;

/* What the library says and reads in a process with this environment: a child, because the
 * environment is read once in a process. `look` returns 0 where all is as it should be. */
static void read_in_child(const char *const *environment, int (*look)(void), char *said,
                          size_t size)
{
    int ends[2], status = 0;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        environ = (char **)environment;
        ag_options_read();
        ag_options_read(); /* says nothing again */
        _exit(look ? look() : 0);
    }
    close(ends[1]);
    size_t n = 0;
    ssize_t got;
    while (n + 1 < size && (got = read(ends[0], said + n, size - 1 - n)) > 0)
        n += (size_t)got;
    said[n] = 0;
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static int all_presets(void)
{
#define AG_NUMBER(field, variable, preset, least, most, help)                                      \
    if (ag_options.field != (preset))                                                              \
        return 1;
#define AG_CHOICE(field, variable, preset, choices, help)                                          \
    if (ag_options.field != (preset))                                                              \
        return 1;
#define AG_TEXT(field, variable, help)                                                             \
    if (ag_options.field)                                                                          \
        return 1;
#include "capture/settings/options.def"
#undef AG_NUMBER
#undef AG_CHOICE
#undef AG_TEXT
    return 0;
}

static void test_presets(void **state)
{
    const char *const nothing[] = {NULL};
    char said[4096];
    (void)state;
    read_in_child(nothing, all_presets, said, sizeof said);
    assert_string_equal(said, "");
}

static void test_empty_is_unset(void **state)
{
    const char *const empty[] = {
        "AUTOGRAPH=", "AUTOGRAPH_LOG=", "AUTOGRAPH_LOG_FILE=", "AUTOGRAPH_TEST_CHUNK=", NULL};
    char said[4096];
    (void)state;
    read_in_child(empty, all_presets, said, sizeof said);
    assert_string_equal(said, "");
}

static int good_values(void)
{
    return !(ag_options.mode == AG_MODE_OBSERVE && ag_options.log_level == 2 &&
             ag_options.max_defer_us == 1000000 && ag_options.min_repeats == 7 &&
             ag_options.build == AG_BUILD_INLINE && ag_options.memory_mb == 1 &&
             !strcmp(ag_options.log_file, "/some/where") && ag_options.max_chunk == 64);
}

static void test_good_values(void **state)
{
    const char *const good[] = {"AUTOGRAPH=observe",
                                "AUTOGRAPH_LOG=info",
                                "AUTOGRAPH_MAX_DEFER_US=1000000",
                                "AUTOGRAPH_TEST_MIN_REPEATS=007",
                                "AUTOGRAPH_TEST_BUILD=inline",
                                "AUTOGRAPH_MEMORY_MB=1",
                                "AUTOGRAPH_LOG_FILE=/some/where",
                                NULL};
    char said[4096];
    (void)state;
    read_in_child(good, good_values, said, sizeof said);
    assert_string_equal(said, "");
}

/* The switch is the one whose default is not used. */
static int presets_but_off(void)
{
    bool off = ag_options.mode == AG_MODE_OFF;
    ag_options.mode = AG_MODE_ON;
    return !off || all_presets();
}

static void test_bad_values(void **state)
{
    const char *const bad[] = {
        "AUTOGRAPH=2",         "AUTOGRAPH_LOG=Info",    "AUTOGRAPH_TEST_CHUNK=1025",
        "AUTOGRAPH_STATS=yes", "AUTOGRAPH_MEMORY_MB=0", NULL};
    char said[4096];
    (void)state;
    read_in_child(bad, presets_but_off, said, sizeof said);
    assert_string_equal(
        said, "autograph: AUTOGRAPH=2 is not one of 0|observe|1; using 0\n"
              "autograph: AUTOGRAPH_LOG=Info is not one of off|warn|info|debug; using warn\n"
              "autograph: AUTOGRAPH_STATS=yes is not one of 0..2; using 0\n"
              "autograph: AUTOGRAPH_TEST_CHUNK=1025 is not one of 0..1024; using 0\n"
              "autograph: AUTOGRAPH_MEMORY_MB=0 is not one of 1..65536; using 256\n");
}

static void test_unknown_names(void **state)
{
    char long_name[300];
    snprintf(long_name, sizeof long_name, "AUTOGRAPH_%0250d=1", 0);
    const char *const unknown[] = {"AUTOGRAPH_MEMORY=1",
                                   "AUTOGRAPHER=1",
                                   "AUTOGRAPH_XYZ=1",
                                   "XAUTOGRAPH_LOG=1",
                                   "AUTOGRAPH_LOGS",
                                   long_name,
                                   NULL};
    char said[4096];
    (void)state;
    read_in_child(unknown, all_presets, said, sizeof said);
    assert_non_null(strstr(said, "AUTOGRAPH_MEMORY is not a variable of this library; did you mean "
                                 "AUTOGRAPH_MEMORY_MB?\n"));
    assert_non_null(strstr(said, "AUTOGRAPH_LOGS is not a variable"));
    assert_null(strstr(said, "AUTOGRAPHER"));
    assert_null(strstr(said, "XAUTOGRAPH"));
    int lines = 0;
    for (const char *c = said; *c; c++)
        lines += *c == '\n';
    assert_int_equal(lines, 4);
    assert_non_null(strstr(said, "AUTOGRAPH_XYZ is not a variable of this library; `autograph env` "
                                 "lists them\n"));
}

static void test_mode_alone(void **state)
{
    (void)state;
    unsetenv("AUTOGRAPH");
    assert_int_equal(ag_options_mode(), AG_MODE_ON);
    setenv("AUTOGRAPH", "0", 1);
    assert_int_equal(ag_options_mode(), AG_MODE_OFF);
    setenv("AUTOGRAPH", "observe", 1);
    assert_int_equal(ag_options_mode(), AG_MODE_OBSERVE);
    static const char *const off[] = {"off", "no", "false", "OFF", "00", "2", "nonsense", " 1"};
    for (size_t i = 0; i < sizeof off / sizeof off[0]; i++) {
        setenv("AUTOGRAPH", off[i], 1);
        assert_int_equal(ag_options_mode(), AG_MODE_OFF);
        assert_int_equal(ag_options_mode_is_understood(), i < 4);
    }
    static const char *const on[] = {"on", "yes", "True", "1", ""};
    for (size_t i = 0; i < sizeof on / sizeof on[0]; i++) {
        setenv("AUTOGRAPH", on[i], 1);
        assert_int_equal(ag_options_mode(), AG_MODE_ON);
        assert_true(ag_options_mode_is_understood());
    }
    unsetenv("AUTOGRAPH");
}

static void test_rows(void **state)
{
    struct ag_option_row row;
    size_t n = 0;
    (void)state;
    assert_int_equal(ag_options_row(0, &row), 0);
    assert_string_equal(row.variable, "AUTOGRAPH");
    assert_string_equal(row.preset, "1");
    assert_string_equal(row.range, "0|observe|1");
    while (ag_options_row(n, &row) == 0) {
        assert_int_equal(strncmp(row.variable, "AUTOGRAPH", 9), 0);
        assert_true(strlen(row.help) > 10);
        assert_null(strchr(row.help, '|')); /* it is a cell of a table */
        n++;
    }
    assert_true(n >= 13);
    assert_int_equal(ag_options_row(SIZE_MAX, &row), -1);
}

/* ---- the settings file ------------------------------------------------------------------ */

static char settings[] = "/tmp/unit_options.XXXXXX";

static void write_settings(const char *text)
{
    FILE *f = fopen(settings, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0 && !fclose(f));
}

static int file_values(void)
{
    unsigned int line;
    return !(ag_options.log_level == 2 && ag_options.chunk == 8 && ag_options.stats == 2 &&
             ag_options.memory_mb == 32 && ag_options.min_ops == 3 && ag_options.max_chunk == 64 &&
             !strcmp(ag_options.log_file, "/a path/with = in it") && ag_options.trace == NULL &&
             !strcmp(ag_settings_value(0, &line), "observe") && line == 2 &&
             ag_options.mode == AG_MODE_ON);
}

static void test_file(void **state)
{
    char named[80], said[4096];
    const char *const environment[] = {named, "AUTOGRAPH=1", "AUTOGRAPH_TEST_CHUNK=8",
                                       "AUTOGRAPH_STATS=", NULL};
    (void)state;
    snprintf(named, sizeof named, "AUTOGRAPH_CONFIG=%s", settings);
    write_settings("# of all programs\n"
                   "autograph = observe\r\n"
                   "AUTOGRAPH_LOG=info\n"
                   "  test_chunk = 16  \n"
                   "stats = 1\n"
                   "log_file = /a path/with = in it\n"
                   "trace =\n"
                   "\n"
                   "[another]\n"
                   "memory_mb = 64\n"
                   "stats = nonsense\n"
                   "[ unit_options ]\n"
                   "memory_mb = 16\n"
                   "memory_mb = 32\n"
                   "[another]\n"
                   "test_max_chunk = 1\n"
                   "[unit_options]\n"
                   "stats = 2\n"
                   "test_min_ops = 3");
    read_in_child(environment, file_values, said, sizeof said);
    assert_string_equal(said, "");
}

static int nothing_of_it(void)
{
    return ag_options.mode != AG_MODE_OFF || ag_options.chunk || ag_options.stats;
}

static void test_bad_lines(void **state)
{
    char named[80], said[8192], expected[4096];
    const char *const environment[] = {named, NULL};
    (void)state;
    snprintf(named, sizeof named, "AUTOGRAPH_CONFIG=%s", settings);
    write_settings("memory = 1\n\nnonsense\n[unfinished\nstats = 1\n[unit_options]\n"
                   "config = /etc/passwd\ntest_chunk = many\nautograph = maybe\n");
    read_in_child(environment, nothing_of_it, said, sizeof said);
    snprintf(expected, sizeof expected,
             "autograph: %1$s:9: AUTOGRAPH=maybe is not one of 0|observe|1; using 0\n"
             "autograph: %1$s:8: AUTOGRAPH_TEST_CHUNK=many is not one of 0..1024; using 0\n"
             "autograph: %1$s:1: memory is not a variable of this library; `autograph env` lists "
             "them\n"
             "autograph: %1$s:3: nonsense is no setting: NAME = VALUE\n"
             "autograph: %1$s:4: [unfinished is no section: [PROGRAM]\n"
             "autograph: %1$s:7: config cannot stand in a file\n",
             settings);
    assert_string_equal(said, expected);
}

static void test_files_that_are_none(void **state)
{
    char said[4096], expected[200], named[80];
    const char *const missing[] = {"AUTOGRAPH_CONFIG=/nowhere/x", NULL};
    const char *const at_home[] = {"HOME=/nowhere", NULL};
    const char *const relative[] = {"HOME=.", "XDG_CONFIG_HOME=.", NULL};
    const char *const folder[] = {"AUTOGRAPH_CONFIG=/tmp", NULL};
    const char *const endless[] = {"AUTOGRAPH_CONFIG=/dev/zero", NULL};
    const char *const binary[] = {named, NULL};
    (void)state;
    read_in_child(at_home, NULL, said, sizeof said);
    assert_string_equal(said, "");
    read_in_child(relative, NULL, said, sizeof said);
    assert_string_equal(said, "");
    read_in_child(missing, NULL, said, sizeof said);
    assert_string_equal(said, "autograph: /nowhere/x cannot be read: No such file or directory\n");
    read_in_child(folder, NULL, said, sizeof said);
    assert_string_equal(said, "autograph: /tmp cannot be read: Is a directory\n");
    read_in_child(endless, NULL, said, sizeof said);
    assert_string_equal(said, "autograph: /dev/zero is larger than 64 KiB, and is not read\n");
    FILE *f = fopen(settings, "w");
    assert_non_null(f);
    assert_true(fwrite("stats = 1\n\0", 1, 11, f) == 11 && !fclose(f));
    snprintf(named, sizeof named, "AUTOGRAPH_CONFIG=%s", settings);
    snprintf(expected, sizeof expected, "autograph: %s is not a text, and is not read\n", settings);
    read_in_child(binary, NULL, said, sizeof said);
    assert_string_equal(said, expected);
}

static int remove_settings(void **state)
{
    (void)state;
    return unlink(settings);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_presets),
        cmocka_unit_test(test_empty_is_unset),
        cmocka_unit_test(test_good_values),
        cmocka_unit_test(test_bad_values),
        cmocka_unit_test(test_unknown_names),
        cmocka_unit_test(test_file),
        cmocka_unit_test(test_bad_lines),
        cmocka_unit_test(test_files_that_are_none),
        /* these read the file in this process, which its children then have read */
        cmocka_unit_test(test_mode_alone),
        cmocka_unit_test(test_rows),
    };
    int fd = mkstemp(settings);
    if (fd < 0)
        return 1;
    close(fd);
    return cmocka_run_group_tests(tests, NULL, remove_settings);
}
