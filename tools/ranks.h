/*
 * ranks.h - the dumps of one run: of one process, or of all ranks and workers of it. Several
 * become one dump in which ids of each are moved behind those of the ones before, and events lie in
 * the order of the wall clock.
 */
#ifndef AG_TOOLS_RANKS_H
#define AG_TOOLS_RANKS_H

#include "tools/model.h"
#include "tools/table.h"

struct ranks_row {
    char rank[12], pid[12]; /* "" where it is not known */
    char *host, *program, *why;
    uint64_t ops, carried, launches;
    double coverage, saved_ns;
};

struct ranks {
    struct dump *d;
    struct model *m;
    struct ranks_row *rows; /* by rank, or as they were named */
    int count;
    bool sound; /* what model_is_sound() says of each */
};

/* NULL: a line on stderr has said why. */
struct ranks *ranks_load(const char *const *paths, int count);
void ranks_free(struct ranks *r);

/* A row for each process; nothing where there is only one. */
void ranks_table(const struct ranks *r, struct table_output *o);
/* The row of `after` that belongs to row `i` of `before`: of the same rank, or at the same place
 * where ranks are not known. NULL: there is none. */
const struct ranks_row *ranks_partner(const struct ranks *before, int i, const struct ranks *after);

/* "rank 3", "pid 417" */
const char *ranks_name(const struct ranks_row *row, char *text, size_t size);

#endif
