/*
 * options_file.h - the settings file: what stands for a variable that the environment does not set.
 *
 *     # for every program
 *     AUTOGRAPH_STATS = 1
 *     [python3]
 *     memory_mb = 1024
 *
 * Names are those of the variables, in either case, with AUTOGRAPH_ or without. What stands before
 * the first section is for every program, a section for the program of its name, and goes before
 * it. AUTOGRAPH_CONFIG names the file; else it is autograph.conf in $XDG_CONFIG_HOME or ~/.config.
 * A setuid program reads none.
 */
#ifndef AG_OPTIONS_FILE_H
#define AG_OPTIONS_FILE_H

#include <stddef.h>

/* What the file says of the variable in row `row`, and in which line; NULL: nothing. The file is
 * read by the first call in a process, without allocating. errno stays as it is. */
const char *ag_settings_value(size_t row, unsigned int *line);
/* Path of the file, "" where there is none. */
const char *ag_settings_path(void);
/* One line for each line that is no setting. */
void ag_settings_tell(void (*say)(const char *format, ...));
/* Whose section counts, where that is not this program's: before the first call of the others. */
void ag_settings_for(const char *program);

#endif
