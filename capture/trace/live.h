/*
 * live.h - one page of figures that `autograph top` reads while the program runs (the layout is in
 * trace_format.h). It is brought up to date only where somebody asks: otherwise a sync point pays
 * one load for it.
 */
#ifndef AG_LIVE_H
#define AG_LIVE_H

#include "capture/trace/trace_format.h"
#include <stdbool.h>

extern struct ag_live_page *ag_live; /* NULL: there is none */

/* `fill` puts the present figures in the page. */
void ag_live_start(void (*fill)(struct ag_live_page *page));
void ag_live_after_fork(void);
/* The figures are the last. */
void ag_live_end(void);
/* Whether the command `autograph` runs this and has a page for it: it says what is to be said once
 * of all processes. */
bool ag_live_is_of_command(void);
/* This process is to write its dump there. False where another of the same command did or does. */
bool ag_live_claim_dump(const char *path);
/* Without any stream's lock. */
void ag_live_update(void);

static inline void ag_live_poll(void)
{
    struct ag_live_page *page = ag_live;
    if (__builtin_expect(page && __atomic_load_n(&page->wanted, __ATOMIC_RELAXED), 0))
        ag_live_update();
}

#endif
