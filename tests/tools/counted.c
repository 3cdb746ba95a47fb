/*
 * counted.c - counts the work of the command, which a clock cannot beside other processes: the
 * blocks of code that were run, and the bytes that the C library moved, 32 of which count as one
 * block. The sum goes to the file AG_COUNTED_FILE at the end.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void __sanitizer_cov_trace_pc(void);
void *__real_memcpy(void *to, const void *from, size_t size);
void *__real_memmove(void *to, const void *from, size_t size);
void *__real_memset(void *to, int byte, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_memcpy(void *to, const void *from, size_t size);
void *__wrap_memmove(void *to, const void *from, size_t size);
void *__wrap_memset(void *to, int byte, size_t size);
void *__wrap_realloc(void *old, size_t size);

static uint64_t blocks, bytes; /* the command has one thread */

/* The compiler calls it in each block. */
void __sanitizer_cov_trace_pc(void)
{
    blocks++;
}

void *__wrap_memcpy(void *to, const void *from, size_t size)
{
    bytes += size;
    return __real_memcpy(to, from, size);
}

void *__wrap_memmove(void *to, const void *from, size_t size)
{
    bytes += size;
    return __real_memmove(to, from, size);
}

void *__wrap_memset(void *to, int byte, size_t size)
{
    bytes += size;
    return __real_memset(to, byte, size);
}

/* It may have to move all. */
void *__wrap_realloc(void *old, size_t size)
{
    bytes += size;
    return __real_realloc(old, size);
}

__attribute__((destructor)) static void tell(void)
{
    const char *path = getenv("AG_COUNTED_FILE");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!file)
        return;
    fprintf(file, "%llu\n", (unsigned long long)(blocks + bytes / 32));
    fclose(file);
}
