/*
 * lives.h - the figures of all processes of what `autograph` runs, which outlive them (the layout
 * is in capture/trace/trace_format.h).
 */
#ifndef AG_TOOLS_LIVES_H
#define AG_TOOLS_LIVES_H

#include <stdbool.h>
#include <sys/types.h>

/* Makes the file, and names it in AUTOGRAPH_LIVE for what is run. False: it could not be made. */
bool lives_make(void);
/* Asks every process for new figures. */
void lives_ask(void);
/* Says what the processes did not come to say themselves. `child` is what was run, by the name
 * `program`, and `status` how it ended. */
void lives_tell(const char *program, pid_t child, int status);

#endif
