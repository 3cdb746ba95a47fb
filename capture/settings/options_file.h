/*
 * options_file.h - the settings file: it gives values to variables that the environment does not
 * set.
 *
 *     # for every program
 *     AUTOGRAPH_STATS = 1
 *     [python3]
 *     memory_mb = 1024
 *
 * Names are those of the variables, in upper or lower case, with or without AUTOGRAPH_. Lines
 * before the first section apply to every program. A section applies to the program of its name,
 * and overrides those lines. AUTOGRAPH_CONFIG names the file; without it, the file is
 * autograph.conf in $XDG_CONFIG_HOME or ~/.config. A setuid program reads none.
 */
#pragma once

#include <stddef.h>

/* The file's value for the variable in row `row`, and its line; NULL if the file has none. The
 * first call in a process reads the file, without allocating. errno does not change. */
const char *ag_settings_value(size_t row, unsigned int *line);
/* Path of the file, "" if there is none. */
const char *ag_settings_path(void);
/* Prints one line for each line of the file that is not a setting. */
void ag_settings_tell(void (*say)(const char *format, ...));
/* Uses the section of `program` instead of this program's own. Call it before the other functions.
 */
void ag_settings_for(const char *program);
