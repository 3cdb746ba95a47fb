/* timeline.h - what the sources of `autograph timeline` share. */
#pragma once

#include "tools/dump.h"
#include <stdio.h>

/* Writes what lies between `from` and `to`, in seconds since the dump began. False without memory.
 */
bool timeline_write(const struct dump *d, double from, double to, FILE *out);
