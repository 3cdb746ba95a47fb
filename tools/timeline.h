/* timeline.h - what the sources of `autograph timeline` share. */
#ifndef AG_TOOLS_TIMELINE_H
#define AG_TOOLS_TIMELINE_H

#include "tools/dump.h"
#include <stdio.h>

/* Writes what lies between `from` and `to`, in seconds since the dump began. False without memory.
 */
bool timeline_write(const struct dump *d, double from, double to, FILE *out);

#endif
