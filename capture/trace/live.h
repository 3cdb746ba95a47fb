/*
 * live.h - one page of figures that `autograph top` reads while the program runs. trace_format.h
 * has the layout. The library updates the page only if somebody asks for it; otherwise it costs
 * one load per sync point.
 */
#pragma once

#include "capture/trace/trace_format.h"
#include <stdbool.h>

extern struct ag_live_page *ag_live; /* NULL: there is no page */

/* `fill` writes the current figures into the page. */
void ag_live_start(void (*fill)(struct ag_live_page *page));
void ag_live_after_fork(void);
/* Marks the figures as final. */
void ag_live_end(void);
/* Whether the command `autograph` runs this process and has a page for it. The command then prints
 * what is to be said once for all processes. */
bool ag_live_is_of_command(void);
/* Claims `path` for this process's dump. Returns false if another process of the same command has
 * claimed it. */
bool ag_live_claim_dump(const char *path);
/* Call it without any stream's lock. */
void ag_live_update(void);

static inline void ag_live_poll(void)
{
    struct ag_live_page *page = ag_live;
    if (__builtin_expect(page && __atomic_load_n(&page->wanted, __ATOMIC_RELAXED), 0))
        ag_live_update();
}
