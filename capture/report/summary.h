/* summary.h - the figures of the process. */
#pragma once

#include "capture/trace/trace_file.h"
#include "capture/trace/trace_format.h"

/* The summary at exit: AUTOGRAPH_STATS=1 prints it, 2 the counters too. */
void ag_summary_print(void);
/* For the page that `autograph top` reads. */
void ag_figures_fill(struct ag_live_page *page);
/* For the dump, under names that do not change. */
void ag_figures_list(struct ag_lines *l);
