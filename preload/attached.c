/*
 * attached.c - profilers, checkers and debuggers that are there before the program's first CUDA
 * call.
 *
 * They show launches, or replace kernels: a program under them is to look as it is written. One
 * that comes later asks the driver for export tables that nobody knows, and is noticed by that
 * (getter.c).
 */
#define _GNU_SOURCE
#include "preload/attached.h"

#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Set by tools that let the driver load them. */
static const char injection[] = "CUDA_INJECTION64_PATH";

/* Preloaded or injected: Nsight Systems, Nsight Compute, compute-sanitizer. */
static const char *const libraries[] = {"libToolsInjection", "libInterceptorInjection",
                                        "libTreeLauncher", "libsanitizer-collection"};

static int is_tool(struct dl_phdr_info *info, size_t size, void *data)
{
    const char *slash = strrchr(info->dlpi_name, '/');
    const char *file = slash ? slash + 1 : info->dlpi_name;
    (void)size;
    (void)data;
    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++)
        if (strncmp(file, libraries[i], strlen(libraries[i])) == 0)
            return 1;
    return 0;
}

/* A debugger of the host alone (gdb, strace) does not matter. */
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
