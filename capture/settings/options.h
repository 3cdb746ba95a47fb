/* options.h - the settings, from the environment and otherwise from the settings file
 * (options_file.h). They are read once, when the library first sees a CUDA driver. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ag_options {
#define AG_NUMBER(field, variable, preset, least, most, help) uint32_t field;
#define AG_CHOICE(field, variable, preset, choices, help)     uint32_t field; /* index in choices */
#define AG_TEXT(field, variable, help)                        const char *field; /* NULL if unset */
#include "capture/settings/options.def"
#undef AG_NUMBER
#undef AG_CHOICE
#undef AG_TEXT
};

extern struct ag_options ag_options;

enum { AG_MODE_OFF, AG_MODE_OBSERVE, AG_MODE_ON };           /* ag_options.mode */
enum { AG_BUILD_THREAD, AG_BUILD_INLINE };                   /* ag_options.build */
enum { AG_SUBMIT_AUTO, AG_SUBMIT_THREAD, AG_SUBMIT_INLINE }; /* ag_options.submit */

/* Fills ag_options. Prints one line on stderr for each bad value (and uses the default), and for
 * each unknown AUTOGRAPH_ variable (with the nearest known name). Idempotent. */
void ag_options_read(void);
/* Prints the same lines through `say`, each time it is called. */
typedef void ag_options_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void ag_options_check(ag_options_say *say);
/* Reads only the mode and prints nothing: for the decision whether to hand out any hook at all. A
 * value that is not understood means off. */
uint32_t ag_options_mode(void);
bool ag_options_mode_is_understood(void);

/* How many letters to add, remove, change or swap with the next to turn one word into the other; 64
 * for long words. */
unsigned int ag_options_distance(const char *a, const char *b);

/* One row of the table as text: for reports and tests. Returns 0, or -1 after the last row. */
struct ag_option_row {
    const char *variable, *preset, *range, *help;
    const char *value;  /* as given, valid or not; the default if nobody set it */
    const char *origin; /* "environment", "default", or file and line */
};
int ag_options_row(size_t index, struct ag_option_row *row);
