/* summary.h - the summary at exit: AUTOGRAPH_STATS=1 prints it, 2 the counters too. */
#ifndef AG_SUMMARY_H
#define AG_SUMMARY_H

void ag_summary_print(void);

#endif
