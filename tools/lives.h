/*
 * lives.h - the figures of all processes that `autograph` runs. The figures outlive the processes.
 * capture/trace/trace_format.h has the layout.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Creates the file, and names it in AUTOGRAPH_LIVE for the program. Returns false if the file
 * could not be created. */
bool lives_make(void);
/* Asks every process for new figures. */
void lives_ask(void);
/* Prints what the processes could not print themselves. `child` is the process that was started,
 * under the name `program`; `status` says how it ended. `advise`: also how to learn more. */
void lives_tell(const char *program, pid_t child, int status, bool advise);
