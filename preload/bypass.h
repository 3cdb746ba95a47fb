/* bypass.h - ways past this library. */
#ifndef AG_BYPASS_H
#define AG_BYPASS_H

/* Says a line in the log for each way past this library that shows in the objects loaded by now.
 * Looks at every loaded object's imports: only where the log is on. */
void ag_bypass_report(void);

#endif
