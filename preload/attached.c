/*
 * attached.c - profilers, checkers and debuggers.
 *
 * These tools show launches, or replace kernels, so a program under them must look as it was
 * written. Some are attached before the program's first CUDA call. One that comes later shows
 * itself by asking the driver for export tables.
 */
#define _GNU_SOURCE
#include "preload/attached.h"

#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "preload/object.h"

/* Set by tools that let the driver load them. */
static const char injection[] = "CUDA_INJECTION64_PATH";

/* Preloaded or injected: Nsight Systems, Nsight Compute, compute-sanitizer. */
static const char *const libraries[] = {"libToolsInjection", "libInterceptorInjection",
                                        "libTreeLauncher", "libsanitizer-collection", NULL};

/* Libraries through which tools reach the driver. PyTorch always loads CUPTI, so it counts only if
 * it is used. */
static const char *const readers[] = {"libcupti", "libnvperf", "libcheckpoint", "libsanitizer",
                                      NULL};

/* The table that CUPTI 13.0 asks for first. Compute libraries do not contain its id; an object
 * that has CUPTI linked in does. */
static const unsigned char readers_table[16] = {0x2c, 0x8e, 0x0a, 0xd8, 0x07, 0x10, 0xab, 0x4e,
                                                0x90, 0xdd, 0x54, 0x71, 0x9f, 0xe5, 0xf7, 0x4b};

/* Whether the file's name begins with one of `names`. */
static int is_among(const char *const *names, const char *path)
{
    const char *file = ag_file_name(path);
    for (; *names; names++)
        if (strncmp(file, *names, strlen(*names)) == 0)
            return 1;
    return 0;
}

static int is_tool(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    (void)data;
    return is_among(libraries, info->dlpi_name);
}

/* A debugger of host code only (gdb, strace) does not matter. */
static int traced_by_cuda_gdb(void)
{
    char line[128];
    char path[64];
    int tracer = 0;
    int found = 0;
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof(line), file))
        if (sscanf(line, "TracerPid: %d", &tracer) == 1)
            break;
    if (file)
        fclose(file);
    if (tracer == 0)
        return 0;
    snprintf(path, sizeof(path), "/proc/%d/comm", tracer);
    file = fopen(path, "re");
    if (file && fgets(line, sizeof(line), file))
        found = strncmp(line, "cuda-gdb", strlen("cuda-gdb")) == 0;
    if (file)
        fclose(file);
    return found;
}

const char *ag_attached_tool(void)
{
    const char *value = getenv(injection);
    if (value && *value)
        return "CUDA_INJECTION64_PATH is set: a tool watches the driver";
    if (dl_iterate_phdr(is_tool, NULL))
        return "a profiler or checker is loaded";
    if (traced_by_cuda_gdb())
        return "cuda-gdb is attached";
    return NULL;
}

bool ag_attached_later(const void *caller, const unsigned char *table)
{
    static _Atomic uintptr_t linked_into; /* start address of the object with CUPTI linked in */
    struct ag_object object;
    if (!ag_object_at(caller, &object))
        return false;
    if (is_among(libraries, object.path) || is_among(readers, object.path))
        return true;
    if (memcmp(table, readers_table, sizeof(readers_table)) == 0)
        atomic_store(&linked_into, object.start);
    return atomic_load(&linked_into) == object.start;
}
