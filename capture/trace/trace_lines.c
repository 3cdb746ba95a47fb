/* trace_lines.c - see trace_lines.h. */
#include "capture/trace/trace_lines.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void ag_lines_add(struct ag_lines *l, const char *name, const char *format, ...)
{
    char line[1200];
    va_list args;
    int n = snprintf(line, sizeof(line), "%s=", name);
    va_start(args, format);
    n += vsnprintf(line + n, sizeof(line) - (size_t)n, format, args);
    va_end(args);
    size_t size = (n < (int)sizeof(line) ? (size_t)n : sizeof(line) - 1) + 1;
    if (l->used + size > sizeof(l->text))
        return;
    memcpy(l->text + l->used, line, size);
    l->used += size;
}
