/* trace_lines.h - the dump's NAME=VALUE lines; each ends with a 0. */
#ifndef AG_TRACE_LINES_H
#define AG_TRACE_LINES_H

#include <stddef.h>

struct ag_lines {
    char text[8192];
    size_t used;
};

/* Leaves the line out if there is no room. */
void ag_lines_add(struct ag_lines *l, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
