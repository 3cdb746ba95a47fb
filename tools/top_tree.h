/* top_tree.h - a process and what it started, with the live page of each that runs under the
 * library. */
#ifndef AG_TOOLS_TOP_TREE_H
#define AG_TOOLS_TOP_TREE_H

#include "capture/trace/trace_format.h"
#include <stdbool.h>
#include <stddef.h>

struct top_process {
    long pid, parent;
    int depth;                       /* below the first */
    char program[64];                /* fit for a terminal */
    bool shown;                      /* it has a page, or something below it has */
    struct ag_live_page *page;       /* NULL: it does not run under the library, or not yet */
    struct ag_live_page now, before; /* figures of the last two looks */
    void *map;
    size_t size;
    unsigned long file; /* its page's, where that is the only one in it */
};

struct top_tree {
    struct top_process *list; /* each before what it started */
    size_t count;
};

/* Looks who is there. False: with errno, ESRCH where there is no process `root`. */
bool top_tree_find(struct top_tree *t, long root);
/* Asks every process for new figures; and reads what they answered. */
void top_tree_ask(struct top_tree *t);
void top_tree_read(struct top_tree *t);
void top_tree_free(struct top_tree *t);

#endif
