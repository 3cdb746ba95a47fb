/*
 * doctor_program.c - the doctor's look at files: the library's, and a program's.
 *
 * Files are read. Nothing of the program is started, nor the interpreter that its file names: that
 * is a file of somebody else's as well.
 */
#include "tools/doctor.h"
#include "tools/elf_file.h"
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/xattr.h>
#include <unistd.h>

static const void *map_file(const char *path, struct stat *st)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    void *map = MAP_FAILED;
    if (fd < 0 || fstat(fd, st)) {
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    if (!S_ISREG(st->st_mode) || !st->st_size)
        errno = S_ISDIR(st->st_mode) ? EISDIR : EINVAL;
    else
        map = mmap(NULL, (size_t)st->st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    int why = errno;
    close(fd);
    errno = why;
    return map == MAP_FAILED ? NULL : map;
}

/* ---- the library ------------------------------------------------------------------------ */

void doctor_library(struct findings *f, const char *library)
{
    static const char mark[] = "libautograph version ";
    struct stat st;
    if (!library) {
        doctor_say(f, BAD, "library", "libautograph.so was not found; --library=FILE names it");
        return;
    }
    if (strpbrk(library, ": ")) {
        doctor_say(f, BAD, "library", "%s: the loader takes no spaces or colons in LD_PRELOAD",
                   library);
        return;
    }
    const char *map = map_file(library, &st);
    if (!map) {
        doctor_say(f, BAD, "library", "cannot read %s: %s", library, strerror(errno));
        return;
    }
    size_t size = (size_t)st.st_size;
    const char *found = memmem(map, size, mark, sizeof(mark) - 1);
    char version[64] = "of a version that does not say which";
    if (found && memchr(found, 0, size - (size_t)(found - map)))
        snprintf(version, sizeof(version), "version %s", found + sizeof(mark) - 1);
    doctor_say(f, GOOD, "library", "%s, %s", library, version);
    munmap((void *)(uintptr_t)map, size);
}

/* ---- a program -------------------------------------------------------------------------- */

/* Whether the loader heeds LD_PRELOAD for it. */
static bool check_privileges(struct findings *f, const char *path, const struct stat *st)
{
    bool setuid = st->st_mode & S_ISUID || (st->st_mode & S_ISGID && st->st_mode & S_IXGRP);
    bool capable = !setuid && getxattr(path, "security.capability", NULL, 0) > 0;
    if (setuid)
        doctor_say(f, BAD, "setuid",
                   "the loader ignores LD_PRELOAD for programs with the setuid or setgid bit");
    else if (capable)
        doctor_say(f, BAD, "capabilities",
                   "the loader ignores LD_PRELOAD for programs with file capabilities (getcap "
                   "shows them)");
    else
        doctor_say(f, GOOD, "privileges", "neither setuid nor file capabilities");
    return !setuid && !capable;
}

/* A script is its interpreter's affair. */
static void check_script(struct findings *f, const char *bytes, size_t size)
{
    char line[200];
    size_t n = size < sizeof(line) - 1 ? size : sizeof(line) - 1;
    memcpy(line, bytes, n);
    line[n] = 0;
    line[strcspn(line, "\n")] = 0;
    char *first = line + 2 + strspn(line + 2, " \t"), *end = first + strcspn(first, " \t"),
         was = *end;
    *end = 0;
    int why = access(first, X_OK) ? errno : 0;
    *end = was;
    if (why) {
        doctor_say(f, BAD, "script", "%s: this interpreter cannot be run: %s", line, strerror(why));
        return;
    }
    doctor_say(f, NOTE, "script",
               "%s: what counts is the interpreter, `autograph doctor INTERPRETER` looks at it; "
               "the library passes on to what it starts",
               line);
}

/* Static cudart calls dlmopen for a purpose of its own; the program need not know of it. */
static bool has_static_cudart(const struct elf_file *e)
{
    return elf_contains(e, "cudaErrorCudartUnloading");
}

/* What is known of the libraries that it is linked with. */
static void check_reach(struct findings *f, const struct elf_file *e)
{
    static const struct {
        const char *file, *name;
        int loops;
        double least, most;
    } known[] = {
#define AG_REACH(file, name, loops, least, most) {file, name, loops, least, most},
#include "tools/reach.def"
#undef AG_REACH
    };
    for (size_t i = 0; i < e->num_needed; i++)
        for (size_t k = 0; k < sizeof(known) / sizeof(known[0]); k++)
            if (!strncmp(e->needed[i], known[k].file, strlen(known[k].file)))
                doctor_say(f, GOOD, "reach",
                           "%s: in docs/reach.md %d short loop%s of it, with the same results as "
                           "without the library, %.1f to %.1f %% of the launches replayed",
                           known[k].name, known[k].loops, known[k].loops > 1 ? "s" : "",
                           known[k].least, known[k].most);
}

static void check_cuda(struct findings *f, const struct elf_file *e)
{
    char list[300] = "";
    for (size_t i = 0, used = 0; i < e->num_needed && used < sizeof(list); i++)
        if (!strncmp(e->needed[i], "libcu", 5) || !strncmp(e->needed[i], "libnccl", 7) ||
            !strncmp(e->needed[i], "libnv", 5) || strstr(e->needed[i], "cuda"))
            used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", used ? ", " : "",
                                     e->needed[i]);
    bool linked = has_static_cudart(e);
    check_reach(f, e);
    if (*list || linked)
        doctor_say(f, GOOD, "CUDA", "linked with %s%s%s", *list ? list : "",
                   *list && linked ? " and " : "", linked ? "cudart (static)" : "");
    else if (elf_contains(e, "libcuda.so") || elf_contains(e, "libcudart"))
        doctor_say(f, GOOD, "CUDA", "the program itself speaks of CUDA");
    else
        doctor_say(f, NOTE, "CUDA",
                   "the file itself does not speak of CUDA; libraries that it loads may");
    if (elf_contains(e, "dlmopen") && !linked)
        doctor_say(f, NOTE, "dlmopen",
                   "the program may load libraries in a namespace of their own; LD_PRELOAD does "
                   "not reach CUDA loaded there");
}

/* Whether a loader runs that knows LD_PRELOAD. */
static bool check_binary(struct findings *f, const struct elf_file *e)
{
    struct utsname machine;
    uname(&machine);
    if (!e->is_64) {
        doctor_say(f, BAD, "kind", "a 32-bit program: CUDA has none of these any more");
        return false;
    }
    bool native = (e->machine == EM_X86_64) == !strcmp(machine.machine, "x86_64");
    if (!native)
        doctor_say(f, BAD, "kind", "built for another processor than this machine's %s",
                   machine.machine);
    bool musl = e->interpreter && strstr(e->interpreter, "musl");
    bool loader = e->interpreter && !access(e->interpreter, X_OK);
    if (!e->interpreter)
        doctor_say(f, BAD, "linking",
                   "statically linked (static or static-pie): no loader runs, LD_PRELOAD has no "
                   "effect. Link it dynamically");
    else if (musl)
        doctor_say(f, BAD, "linking",
                   "linked with musl: the library and NVIDIA's driver need glibc");
    else if (!loader)
        doctor_say(f, BAD, "linking", "its loader is not here: %.300s", e->interpreter);
    else
        doctor_say(f, GOOD, "linking", "dynamic, %.300s", e->interpreter);
    check_cuda(f, e);
    return native && loader && !musl;
}

/* As the shell finds it. */
static const char *find_program(const char *name)
{
    static char found[4200];
    const char *path = getenv("PATH");
    struct stat st;
    if (!*name || strchr(name, '/') || !path)
        return name;
    for (size_t n; *path; path += n + (path[n] != 0)) {
        n = strcspn(path, ":");
        snprintf(found, sizeof(found), "%.*s/%s", n ? (int)n : 1, n ? path : ".", name);
        if (!access(found, X_OK) && !stat(found, &st) && S_ISREG(st.st_mode))
            return found;
    }
    return name;
}

static unsigned int machine_of(const char *library)
{
    struct stat st;
    struct elf_file e = {.machine = EM_NONE};
    const void *map = library ? map_file(library, &st) : NULL;
    if (map) {
        elf_read(&e, map, (size_t)st.st_size);
        munmap((void *)(uintptr_t)map, (size_t)st.st_size);
    }
    return e.machine;
}

static void check_effect(struct findings *f, const char *library, const struct elf_file *e)
{
    if (machine_of(library) != e->machine)
        doctor_say(f, BAD, "effect", "the library is built for another processor than the program");
    else
        doctor_say(f, GOOD, "effect",
                   "nothing keeps the loader from taking the library into this program. Whether "
                   "the program loads CUDA in a way that looks past it (RTLD_DEEPBIND) shows only "
                   "when it runs: `autograph --observe` counts the launches that arrive");
}

void doctor_program(struct findings *f, const char *library, const char *name)
{
    const char *path = find_program(name);
    struct stat st;
    const char *map = map_file(path, &st);
    if (!map) {
        doctor_say(f, BAD, "program", "cannot read %s: %s", path,
                   errno == EINVAL ? "neither a program nor a script" : strerror(errno));
        return;
    }
    size_t size = (size_t)st.st_size;
    struct elf_file e;
    elf_read(&e, map, size);
    if (access(path, X_OK))
        doctor_say(f, BAD, "program", "%s cannot be run: %s", path, strerror(errno));
    else
        doctor_say(f, GOOD, "program", "%s", path);
    bool heeded = check_privileges(f, path, &st);
    if (e.is_elf && check_binary(f, &e)) {
        if (heeded && library)
            check_effect(f, library, &e);
    } else if (!e.is_elf && size > 2 && !memcmp(map, "#!", 2)) {
        check_script(f, map, size);
    } else if (!e.is_elf) {
        doctor_say(f, BAD, "kind", "neither a program nor a script");
    }
    munmap((void *)(uintptr_t)map, size);
}
