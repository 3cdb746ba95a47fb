/* top_tree.h - a process and its descendants, with the live page of each one that runs under the
 * library. */
#pragma once

#include "capture/trace/trace_format.h"
#include <stdbool.h>
#include <stddef.h>

struct top_process {
    long pid, parent;
    int depth;                       /* below the first */
    char program[64];                /* made safe for a terminal */
    bool shown;                      /* it has a page, or one of its descendants has */
    struct ag_live_page *page;       /* NULL: it does not run under the library, or not yet */
    struct ag_live_page now, before; /* figures of the last two readings */
    void *map;
    size_t size;
    unsigned long file; /* its page's file, if it is the only page in there */
};

struct top_tree {
    struct top_process *list; /* each before its children */
    size_t count;
};

/* Finds the processes. Returns false with errno on failure: ESRCH if there is no process `root`. */
bool top_tree_find(struct top_tree *t, long root);
/* The first asks every process for new figures; the second reads what they answered. */
void top_tree_ask(struct top_tree *t);
void top_tree_read(struct top_tree *t);
void top_tree_free(struct top_tree *t);
