/* trace_lines.h - NAME=VALUE lines of the dump, each ended by a 0. */
#ifndef AG_TRACE_LINES_H
#define AG_TRACE_LINES_H

#include <stddef.h>

struct ag_lines {
    char text[8192];
    size_t used;
};

/* Without room it is left out. */
void ag_lines_add(struct ag_lines *l, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
