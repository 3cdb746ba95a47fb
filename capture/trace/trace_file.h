/* trace_file.h - the dump's file. Only one thread may use it at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Creates the dump, or replaces an old one. If it returns false, it has printed one line that says
 * why. */
bool ag_dump_open(const char *path, uint64_t limit);
/* From here on no old dump is replaced. */
void ag_dump_keep_others(void);
/* Appends one chunk made of two parts. Returns false if the dump is full or broken (one line has
 * said so). Then nothing more can be written except `last` chunks, for which room is reserved. */
bool ag_dump_write(uint32_t type, const void *head, size_t head_size, const void *body,
                   size_t body_size, bool last);
/* All that is written between two marks is in the dump, or nothing of it. */
void ag_dump_mark(void);
/* NAME=VALUE lines; each ends with a 0. */
struct ag_lines {
    char text[8192];
    size_t used;
};

/* Leaves the line out if there is no room. */
void ag_lines_add(struct ag_lines *l, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Writes the counters and why the dump ends, and says where it is if the summary is printed. */
void ag_dump_close(const struct ag_lines *counters);
