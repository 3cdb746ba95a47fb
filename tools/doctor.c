/*
 * doctor.c - `autograph doctor`: is this machine fit, and will the library take effect in a
 * program? Nothing is run but what asks the driver; the program itself is only read.
 */
#include "capture/settings/options.h"
#include "tools/doctor.h"
#include "tools/tools.h"
#include <dlfcn.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OLDEST_DRIVER = 12040 };

struct settings {
    struct common common;
    const char *library;
};

void doctor_say(struct findings *f, enum level level, const char *what, const char *format, ...)
{
    static const char *const words[] = {"ok", "note", "BAD"};
    static const char *const colours[] = {"32", "33", "1;31"};
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    table_state(f->o, words[level], colours[level]);
    table_text(f->o, what);
    table_text(f->o, text);
    f->bad |= level == BAD;
}

/* ---- the driver ------------------------------------------------------------------------- */

struct answers {
    int version, init, devices;
    char names[4][96], why[200], release[32]; /* of NVIDIA's driver; "" if its file does not say */
};

/* libcuda.so.1 is a link to libcuda.so.580.82.07. */
static void find_release(struct answers *a, void *function)
{
    char path[PATH_MAX];
    Dl_info info;
    const char *name = dladdr(function, &info) ? realpath(info.dli_fname, path) : NULL;
    const char *release = name ? strstr(name, "/libcuda.so.") : NULL;
    if (release && strchr(release + sizeof("/libcuda.so.") - 1, '.'))
        snprintf(a->release, sizeof(a->release), "%s", release + sizeof("/libcuda.so.") - 1);
}

/* In a child: a driver that hangs or dies must not take the doctor along. */
static void ask_driver(struct answers *a)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) {
        snprintf(a->why, sizeof(a->why), "%s", dlerror());
        return;
    }
    int (*version)(int *) = (int (*)(int *))dlsym(driver, "cuDriverGetVersion");
    int (*init)(unsigned int) = (int (*)(unsigned int))dlsym(driver, "cuInit");
    int (*count)(int *) = (int (*)(int *))dlsym(driver, "cuDeviceGetCount");
    int (*name)(char *, int, int) = (int (*)(char *, int, int))dlsym(driver, "cuDeviceGetName");
    if (!version || !init || !count || !name) {
        snprintf(a->why, sizeof(a->why), "libcuda.so.1 has not the functions of a CUDA driver");
        return;
    }
    version(&a->version); /* answers before cuInit too */
    find_release(a, (void *)init);
    a->init = init(0);
    if (a->init)
        return;
    count(&a->devices);
    for (int i = 0; i < a->devices && i < 4; i++)
        name(a->names[i], sizeof(a->names[i]) - 1, i);
}

static void say_driver(struct findings *f, const struct answers *a)
{
    char version[96];
    snprintf(version, sizeof(version), "CUDA %d.%d%s%s", a->version / 1000, a->version % 1000 / 10,
             *a->release ? ", driver " : "", a->release);
    if (a->version < OLDEST_DRIVER)
        doctor_say(f, BAD, "driver",
                   "%s: too old, the library would only observe; 12.4 (driver 550) is the oldest "
                   "that it replays on",
                   version);
    else
        doctor_say(f, GOOD, "driver", "%s", version);
    if (a->init)
        doctor_say(f, BAD, "GPU", "cuInit fails with error %d%s", a->init,
                   a->init == 100
                       ? ": no GPU is visible (CUDA_VISIBLE_DEVICES, container without --gpus?)"
                   : a->init == 803
                       ? ": the kernel module and libcuda differ in version; reboot or reinstall"
                   : a->init == 999 ? ": see `dmesg` and `nvidia-smi`"
                                    : "");
    else if (!a->devices)
        doctor_say(f, BAD, "GPU", "the driver sees none");
    for (int i = 0; i < a->devices && i < 4; i++)
        doctor_say(f, GOOD, "GPU", "%d: %s", i, a->names[i]);
}

static void check_driver(struct findings *f)
{
    struct answers *a =
        mmap(NULL, sizeof(*a), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status = 0;
    if (a == MAP_FAILED)
        return;
    pid_t child = fork();
    if (child == 0) {
        alarm(30);
        setenv("AUTOGRAPH", "0", 1);
        ask_driver(a);
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) < 0 || status)
        doctor_say(f, BAD, "driver", "asking the CUDA driver ended in an accident (status 0x%x)",
                   (unsigned int)status);
    else if (*a->why)
        doctor_say(f, BAD, "driver", "no CUDA driver: %s. Install NVIDIA's driver, 550 or newer",
                   a->why);
    else
        say_driver(f, a);
    munmap(a, sizeof(*a));
}

/* ---- the machine ------------------------------------------------------------------------ */

static void check_toolkit(struct findings *f)
{
    static const char *const places[] = {"$CUDA_HOME", "$CUDA_PATH", "/usr/local/cuda"};
    for (size_t i = 0; i < 3; i++) {
        char path[4200], line[256];
        const char *root = *places[i] == '$' ? getenv(places[i] + 1) : places[i];
        snprintf(path, sizeof(path), "%s/include/cuda.h", root ? root : "");
        FILE *file = root ? fopen(path, "re") : NULL;
        int version = 0;
        while (file && fgets(line, sizeof(line), file) &&
               sscanf(line, "#define CUDA_VERSION %d", &version) != 1) {
        }
        if (file)
            fclose(file);
        if (version) {
            doctor_say(f, GOOD, "toolkit", "CUDA %d.%d in %s", version / 1000, version % 1000 / 10,
                       root);
            return;
        }
    }
    doctor_say(f, NOTE, "toolkit", "none was found; running programs needs none");
}

static struct findings *told;

static void tell_setting(const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    doctor_say(told, BAD, "setting", "%s", text);
}

/* As `env` does: values that are no good, and names that nobody knows. */
static void check_settings(struct findings *f)
{
    bool bad = f->bad;
    f->bad = false;
    told = f;
    ag_options_check(tell_setting);
    if (!f->bad)
        doctor_say(f, GOOD, "settings", "every variable of the library is understood");
    f->bad |= bad;
    if (ag_options.mode == AG_MODE_OFF)
        doctor_say(f, BAD, "AUTOGRAPH", "is off: the library does nothing");
    else if (ag_options.mode == AG_MODE_OBSERVE)
        doctor_say(f, NOTE, "AUTOGRAPH", "is observe: the library watches and replays nothing");
}

static void check_environment(struct findings *f)
{
    static const struct {
        const char *name, *what;
    } watchers[] = {
        {"CUDA_INJECTION64_PATH",
         "a tool is injected: the library replays nothing, unless AUTOGRAPH_FORCE=1"},
        {"NVTX_INJECTION64_PATH", "an NVTX tool is injected"},
        {"CUDA_LAUNCH_BLOCKING", "every launch waits for the GPU: there is nothing to gain"},
        {"LD_AUDIT", "an auditor sees look-ups first"}};
    const char *list = getenv("LD_PRELOAD");
    for (size_t i = 0; i < sizeof(watchers) / sizeof(watchers[0]); i++) {
        const char *value = getenv(watchers[i].name);
        if (value && *value && strcmp(value, "0"))
            doctor_say(f, NOTE, watchers[i].name, "%s", watchers[i].what);
    }
    if (list && *list)
        doctor_say(f, NOTE, "LD_PRELOAD",
                   "%s is loaded too; a library that replaces dlsym itself may be seen "
                   "first",
                   list);
}

/* ---- the verb --------------------------------------------------------------------------- */

enum { KEY_LIBRARY = 256 };
static const struct argp_option options[] = {
    {"library", KEY_LIBRARY, "FILE", 0, "another libautograph.so", 0}, {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct settings *s = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &s->common;
        return 0;
    case KEY_LIBRARY:
        s->library = arg;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    options,
    parse,
    "[PROGRAM]",
    "Checks the machine, and whether the library takes effect in a program. "
    "The exit status is 1 where something is BAD.",
    common_children,
    NULL,
    NULL};

int verb_doctor(int argc, char **argv)
{
    struct settings s = {.common = {.wish.main = "findings", .takes_program = true}};
    argp_parse(&argp, argc, argv, 0, NULL, &s);
    settings_of(s.common.program);
    FILE *out = common_open(&s.common);
    if (!out)
        return 1;
    const char *library = find_library(s.library);
    struct findings f = {table_open(out, &s.common.wish), false};
    table_begin(f.o, "findings", "Findings", "<State|<What|<Finding");
    check_driver(&f);
    check_toolkit(&f);
    doctor_library(&f, library);
    check_settings(&f);
    check_environment(&f);
    if (s.common.program)
        doctor_program(&f, library, s.common.program);
    table_end(f.o);
    bool found = table_close(f.o);
    return common_close(&s.common, out) && found && !f.bad ? 0 : 1;
}
