/* figures.h - the figures of the process for readers outside it. */
#ifndef AG_FIGURES_H
#define AG_FIGURES_H

#include "capture/trace/trace_format.h"
#include "capture/trace/trace_lines.h"

/* For the page that `autograph top` reads. */
void ag_figures_fill(struct ag_live_page *page);
/* For the dump, under names that do not change. */
void ag_figures_list(struct ag_lines *l);

#endif
