/* options.h - what the environment says, and for the rest the settings file (options_file.h). Read
 * once, at the first sight of a CUDA driver. */
#ifndef AG_OPTIONS_H
#define AG_OPTIONS_H

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

enum { AG_MODE_OFF, AG_MODE_OBSERVE, AG_MODE_ON }; /* ag_options.mode */
enum { AG_BUILD_THREAD, AG_BUILD_INLINE };         /* ag_options.build */

/* Fills ag_options; says one line on stderr for each bad value (and uses the
 * default) and for each unknown AUTOGRAPH_ variable (with the nearest known name). Idempotent. */
void ag_options_read(void);
/* The same each time it is called, and said elsewhere. */
typedef void ag_options_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void ag_options_check(ag_options_say *say);
/* Only the mode, without a word: for the decision to hand out any hook at all. What is not
 * understood is off. */
uint32_t ag_options_mode(void);
bool ag_options_mode_is_understood(void);

/* Letters to add, take away or change to get from one word to the other; 64 for long ones. */
unsigned int ag_options_distance(const char *a, const char *b);

/* One row of the table as text: for reports and tests. Returns 0, or -1 behind the last row. */
struct ag_option_row {
    const char *variable, *preset, *range, *help;
    const char *value;  /* as it was given, good or not; the default where nobody gave one */
    const char *origin; /* "environment", "default", or file and line */
};
int ag_options_row(size_t index, struct ag_option_row *row);

#endif
