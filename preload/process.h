/* process.h - fork and exit. */
#ifndef AG_PROCESS_H
#define AG_PROCESS_H

/* Called once, when the driver has been found: from then on fork and exit matter. */
void ag_process_watch(void);

/* Called at every op; the first one puts the last flush in front of the driver's own teardown. */
void ag_process_first_op(void);

#endif
