/*
 * doctor.c - `autograph doctor`: is this machine fit, and will the library take effect in a
 * program? Nothing is run but what asks the driver; the program itself is only read.
 */
#include "tools/tools.h"
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { OLDEST_DRIVER = 12040 };

struct settings {
    struct common common;
    const char *library, *program;
};

struct findings {
    struct table_output *o;
    bool bad;
};

enum level { GOOD, NOTE, BAD };

static void say(struct findings *f, enum level level, const char *what, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static void say(struct findings *f, enum level level, const char *what, const char *format, ...)
{
    static const char *const words[] = {"ok", "note", "BAD"};
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    table_text(f->o, words[level]);
    table_text(f->o, what);
    table_text(f->o, text);
    f->bad |= level == BAD;
}

/* ---- the driver ------------------------------------------------------------------------- */

struct answers {
    int version, init, devices;
    char names[4][96], why[200];
};

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
    version(&a->version);
    a->init = init(0);
    if (a->init)
        return;
    count(&a->devices);
    for (int i = 0; i < a->devices && i < 4; i++)
        name(a->names[i], sizeof(a->names[i]) - 1, i);
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
    if (child < 0 || waitpid(child, &status, 0) < 0 || status) {
        say(f, BAD, "driver", "asking the CUDA driver ended in an accident (status 0x%x)",
            (unsigned int)status);
    } else if (*a->why) {
        say(f, BAD, "driver", "no CUDA driver: %s. Install NVIDIA's driver, 550 or newer", a->why);
    } else if (a->init) {
        say(f, BAD, "driver", "cuInit fails with error %d%s", a->init,
            a->init == 100 ? ": no GPU is visible (CUDA_VISIBLE_DEVICES, container without --gpus?)"
            : a->init == 803
                ? ": the kernel module and libcuda differ in version; reboot or reinstall"
            : a->init == 999 ? ": see `dmesg` and `nvidia-smi`"
                             : "");
    } else {
        if (a->version < OLDEST_DRIVER)
            say(f, BAD, "driver",
                "CUDA %d.%d: too old, the library would only observe; 12.4 (driver 550) "
                "is the oldest that it replays on",
                a->version / 1000, a->version % 1000 / 10);
        else
            say(f, GOOD, "driver", "CUDA %d.%d", a->version / 1000, a->version % 1000 / 10);
        if (!a->devices)
            say(f, BAD, "GPU", "the driver sees none");
        for (int i = 0; i < a->devices && i < 4; i++)
            say(f, GOOD, "GPU", "%d: %s", i, a->names[i]);
    }
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
            say(f, GOOD, "toolkit", "CUDA %d.%d in %s", version / 1000, version % 1000 / 10, root);
            return;
        }
    }
    say(f, NOTE, "toolkit", "none was found; running programs needs none");
}

static void check_environment(struct findings *f)
{
    static const struct {
        const char *name, *what;
    } watchers[] = {
        {"CUDA_INJECTION64_PATH", "a profiler is injected: the library only observes"},
        {"NVTX_INJECTION64_PATH", "an NVTX tool is injected"},
        {"CUDA_LAUNCH_BLOCKING", "every launch waits for the GPU: there is nothing to gain"},
        {"LD_AUDIT", "an auditor sees look-ups first"}};
    const char *mode = getenv("AUTOGRAPH"), *list = getenv("LD_PRELOAD");
    if (mode && !strcmp(mode, "0"))
        say(f, BAD, "AUTOGRAPH", "is 0: the library does nothing");
    for (size_t i = 0; i < sizeof(watchers) / sizeof(watchers[0]); i++) {
        const char *value = getenv(watchers[i].name);
        if (value && *value && strcmp(value, "0"))
            say(f, NOTE, watchers[i].name, "%s", watchers[i].what);
    }
    if (list && *list)
        say(f, NOTE, "LD_PRELOAD",
            "%s is loaded too; a library that replaces dlsym itself may be seen "
            "first",
            list);
}

static void check_library(struct findings *f, const char *library)
{
    if (!library)
        say(f, BAD, "library", "libautograph.so was not found; --library=FILE names it");
    else if (strpbrk(library, ": "))
        say(f, BAD, "library", "%s: the loader takes no spaces or colons in LD_PRELOAD", library);
    else
        say(f, GOOD, "library", "%s", library);
}

/* ---- a program -------------------------------------------------------------------------- */

struct image {
    const unsigned char *bytes;
    size_t size;
};

static bool contains(const struct image *im, const char *text)
{
    return memmem(im->bytes, im->size, text, strlen(text)) != NULL;
}

static const char *interpreter(const struct image *im, const Elf64_Ehdr *e)
{
    for (unsigned int i = 0; i < e->e_phnum; i++) {
        Elf64_Phdr p;
        uint64_t at = e->e_phoff + i * sizeof(p);
        if (at > im->size || sizeof(p) > im->size - at)
            break;
        memcpy(&p, im->bytes + at, sizeof(p));
        if (p.p_type == PT_INTERP && p.p_filesz && p.p_offset < im->size &&
            p.p_filesz <= im->size - p.p_offset && !im->bytes[p.p_offset + p.p_filesz - 1])
            return (const char *)im->bytes + p.p_offset;
    }
    return NULL;
}

/* Whether the loader heeds LD_PRELOAD for it. */
static bool check_privileges(struct findings *f, const char *path, const struct stat *st)
{
    bool setuid = st->st_mode & S_ISUID || (st->st_mode & S_ISGID && st->st_mode & S_IXGRP);
    bool capable = !setuid && getxattr(path, "security.capability", NULL, 0) > 0;
    if (setuid)
        say(f, BAD, "setuid",
            "the loader ignores LD_PRELOAD for programs with the setuid or setgid bit");
    else if (capable)
        say(f, BAD, "capabilities",
            "the loader ignores LD_PRELOAD for programs with file capabilities (getcap shows "
            "them)");
    else
        say(f, GOOD, "privileges", "neither setuid nor file capabilities");
    return !setuid && !capable;
}

/* A script is its interpreter's affair. */
static void check_script(struct findings *f, const struct image *im)
{
    char line[256];
    size_t n = im->size < sizeof(line) - 1 ? im->size : sizeof(line) - 1;
    memcpy(line, im->bytes, n);
    line[n] = 0;
    line[strcspn(line, "\n")] = 0;
    say(f, NOTE, "script",
        "%.200s: the interpreter is what counts; the library passes on to what it "
        "starts",
        line);
}

static void check_binary(struct findings *f, const struct image *im)
{
    Elf64_Ehdr e;
    struct utsname machine;
    memcpy(&e, im->bytes, sizeof(e));
    uname(&machine);
    const char *loader = interpreter(im, &e);
    if (e.e_ident[EI_CLASS] != ELFCLASS64) {
        say(f, BAD, "kind", "a 32-bit program: CUDA has none of these any more");
        return;
    }
    if ((e.e_machine == EM_X86_64) != !strcmp(machine.machine, "x86_64"))
        say(f, BAD, "kind", "built for another processor than this machine's %s", machine.machine);
    if (!loader)
        say(f, BAD, "linking",
            "statically linked (static or static-pie): no loader runs, LD_PRELOAD has "
            "no effect. Link it dynamically");
    else if (strstr(loader, "musl"))
        say(f, BAD, "linking", "linked with musl: the library and NVIDIA's driver need glibc");
    else
        say(f, GOOD, "linking", "dynamic, %s", loader);
    if (contains(im, "dlmopen"))
        say(f, NOTE, "dlmopen",
            "the program may load libraries in a namespace of their own; LD_PRELOAD "
            "does not reach CUDA loaded there");
    if (contains(im, "libcuda.so") || contains(im, "cudaLaunchKernel") ||
        contains(im, "cuLaunchKernel") || contains(im, "libcudart"))
        say(f, GOOD, "CUDA", "the program itself speaks of CUDA");
    else
        say(f, NOTE, "CUDA", "the file itself does not speak of CUDA; libraries that it loads may");
}

/* Whether the loader would take a library into it. */
static bool check_program(struct findings *f, const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode)) {
        say(f, BAD, "program", "cannot read %s: %s", path, fd < 0 ? strerror(errno) : "not a file");
        if (fd >= 0)
            close(fd);
        return false;
    }
    struct image im = {NULL, (size_t)st.st_size};
    void *map = st.st_size ? mmap(NULL, im.size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    close(fd);
    say(f, GOOD, "program", "%s", path);
    bool heeded = check_privileges(f, path, &st);
    if (map == MAP_FAILED)
        return false;
    im.bytes = map;
    if (im.size > sizeof(Elf64_Ehdr) && !memcmp(im.bytes, ELFMAG, SELFMAG))
        check_binary(f, &im);
    else if (im.size > 2 && !memcmp(im.bytes, "#!", 2))
        check_script(f, &im);
    else
        say(f, BAD, "kind", "neither a program nor a script");
    munmap(map, im.size);
    return heeded;
}

/* As the shell finds it. */
static const char *find_program(const char *name)
{
    static char found[4200];
    const char *path = getenv("PATH");
    if (strchr(name, '/') || !path)
        return name;
    for (size_t n; *path; path += n + (path[n] != 0)) {
        n = strcspn(path, ":");
        snprintf(found, sizeof(found), "%.*s/%s", (int)n, path, name);
        if (!access(found, X_OK))
            return found;
    }
    return name;
}

/* ---- does it take effect? --------------------------------------------------------------- */

/* The loader itself tells: LD_TRACE_LOADED_OBJECTS lists what it would load. */
static void check_effect(struct findings *f, const char *library, const char *program)
{
    char line[4400];
    int ends[2], status = 0;
    bool seen = false;
    if (!library || access(program, X_OK) || pipe(ends))
        return;
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        setenv("LD_PRELOAD", library, 1);
        setenv("LD_TRACE_LOADED_OBJECTS", "1", 1);
        alarm(10);
        execl(program, program, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    FILE *in = fdopen(ends[0], "r");
    while (in && fgets(line, sizeof(line), in))
        seen |= strstr(line, "libautograph.so") && !strstr(line, "ignored");
    if (in)
        fclose(in);
    if (child > 0)
        waitpid(child, &status, 0);
    if (seen)
        say(f, GOOD, "effect",
            "the loader takes the library into this program. Whether the program loads CUDA in a "
            "way that looks past it (RTLD_DEEPBIND) shows only when it runs: `autograph --observe` "
            "counts the launches that arrive");
    else
        say(f, BAD, "effect", "the loader does not take the library into this program");
}

static bool runs_by_loader(const char *path)
{
    unsigned char head[sizeof(Elf64_Ehdr)];
    FILE *file = fopen(path, "re");
    bool elf = file && fread(head, sizeof(head), 1, file) == 1 && !memcmp(head, ELFMAG, SELFMAG);
    struct stat st;
    struct image im = {NULL, 0};
    bool dynamic = false;
    if (elf && !fstat(fileno(file), &st)) {
        void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fileno(file), 0);
        if (map != MAP_FAILED) {
            Elf64_Ehdr e;
            im = (struct image){map, (size_t)st.st_size};
            memcpy(&e, map, sizeof(e));
            dynamic = e.e_ident[EI_CLASS] == ELFCLASS64 && interpreter(&im, &e);
            munmap(map, (size_t)st.st_size);
        }
    }
    if (file)
        fclose(file);
    return dynamic;
}

/* ---- the verb --------------------------------------------------------------------------- */

enum { KEY_LIBRARY = 256 };
static const struct argp_option options[] = {
    {"library", KEY_LIBRARY, "FILE", 0, "another libautograph.so", 0}, {0}};
static const struct argp_child children[] = {{&common_argp, 0, NULL, 0}, {0}};

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
    case ARGP_KEY_ARG:
        if (s->program)
            argp_error(state, "one program at a time");
        s->program = arg;
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
    children,
    NULL,
    NULL};

int verb_doctor(int argc, char **argv)
{
    struct settings s = {.common = {.max_dumps = 0}};
    argp_parse(&argp, argc, argv, 0, NULL, &s);
    FILE *out = common_open(&s.common);
    if (!out)
        return 1;
    const char *library = find_library(s.library);
    struct findings f = {table_open(out, s.common.format), false};
    table_begin(f.o, "findings", "Findings", "<State|<What|<Finding");
    check_driver(&f);
    check_toolkit(&f);
    check_library(&f, library);
    check_environment(&f);
    if (s.program) {
        const char *program = find_program(s.program);
        if (check_program(&f, program) && runs_by_loader(program))
            check_effect(&f, library, program);
    }
    table_end(f.o);
    table_close(f.o);
    return common_close(&s.common, out) && !f.bad ? 0 : 1;
}
