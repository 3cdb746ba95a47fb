/*
 * ranks.h - the dumps of one run: of one process, or of all its ranks and workers. Several become
 * one dump. In it the ids of each dump follow those of the dumps before it, and events are in the
 * order of the wall clock.
 */
#pragma once

#include "tools/model.h"
#include "tools/table.h"

struct ranks_row {
    char rank[12], pid[12]; /* "" if it is not known */
    char *host, *program, *why;
    uint64_t ops, carried, launches;
    double coverage, saved_ns;
};

struct ranks {
    struct dump *d;
    struct model *m;
    struct ranks_row *rows; /* by rank, or in the order in which they were named */
    int count;
    bool sound; /* what model_is_sound() says of each */
};

/* Returns NULL on failure; a line on stderr has then said why. */
struct ranks *ranks_load(const char *const *paths, int count);
void ranks_free(struct ranks *r);

/* Prints a row for each process; prints nothing if there is only one. */
void ranks_table(const struct ranks *r, struct table_output *o);
/* The row of `after` that belongs to row `i` of `before`: the one with the same rank, or at the
 * same place if ranks are not known. NULL if there is none. */
const struct ranks_row *ranks_partner(const struct ranks *before, int i, const struct ranks *after);

/* "rank 3", "pid 417" */
const char *ranks_name(const struct ranks_row *row, char *text, size_t size);
