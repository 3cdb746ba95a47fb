/*
 * no_memory.c - preloaded in front of the library: host memory that it asks for is refused.
 *
 * NO_MEMORY="FIRST-LAST" refuses those of its allocations, counted from 1; without it they are
 * counted alone. What the program, the driver and the C library ask for is given. At the end the
 * file NO_MEMORY_COUNT holds how often the library asked. NO_MEMORY_TELL=1: stderr says who asked
 * for the first that is refused. NO_MEMORY_THREAD=NAME refuses all that threads of that name ask
 * for.
 */
#define _GNU_SOURCE
#include <execinfo.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static _Atomic uintptr_t begin, end; /* the library's text */
static _Atomic unsigned long asked;
static unsigned long first, last;
static int tells;
static const char *thread;

__attribute__((constructor)) static void start(void)
{
    const char *text = getenv("NO_MEMORY");
    if (text)
        sscanf(text, "%lu-%lu", &first, &last);
    tells = getenv("NO_MEMORY_TELL") != NULL;
    thread = getenv("NO_MEMORY_THREAD");
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long from, to;
        char mode[8];
        if (strstr(line, "/libautograph.so") &&
            sscanf(line, "%lx-%lx %7s", &from, &to, mode) == 3 && strchr(mode, 'x')) {
            atomic_store(&end, to);
            atomic_store(&begin, from);
        }
    }
    if (maps)
        fclose(maps);
}

__attribute__((destructor)) static void tell(void)
{
    const char *path = getenv("NO_MEMORY_COUNT");
    FILE *f = path ? fopen(path, "w") : NULL;
    if (!f)
        return;
    fprintf(f, "%lu\n", atomic_load(&asked));
    fclose(f);
}

static int refused(const void *caller)
{
    uintptr_t from = atomic_load(&begin);
    if (!from || (uintptr_t)caller < from || (uintptr_t)caller >= atomic_load(&end))
        return 0;
    char name[16] = "";
    if (thread && !prctl(PR_GET_NAME, name) && !strcmp(name, thread))
        return 1;
    unsigned long n = atomic_fetch_add(&asked, 1) + 1;
    if (n < first || n > last)
        return 0;
    if (tells && n == first) {
        void *frames[12];
        backtrace_symbols_fd(frames, backtrace(frames, 12), 2);
    }
    return 1;
}

__attribute__((visibility("default"))) void *malloc(size_t size)
{
    return refused(__builtin_return_address(0)) ? NULL : __libc_malloc(size);
}

__attribute__((visibility("default"))) void *calloc(size_t n, size_t size)
{
    return refused(__builtin_return_address(0)) ? NULL : __libc_calloc(n, size);
}

__attribute__((visibility("default"))) void *realloc(void *p, size_t size)
{
    return refused(__builtin_return_address(0)) ? NULL : __libc_realloc(p, size);
}

__attribute__((visibility("default"))) void *aligned_alloc(size_t alignment, size_t size)
{
    return refused(__builtin_return_address(0)) ? NULL : __libc_memalign(alignment, size);
}
