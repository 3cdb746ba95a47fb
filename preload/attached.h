/* attached.h - tools that watch or change how this process uses the GPU. */
#pragma once

#include <stdbool.h>

/* What is attached to this process when the library first sees the driver, as a sentence; NULL if
 * nothing. */
const char *ag_attached_tool(void);

/* Whether `caller` is a tool, given that it asks the driver for the export table of this id (16
 * bytes). */
bool ag_attached_later(const void *caller, const unsigned char *table);
