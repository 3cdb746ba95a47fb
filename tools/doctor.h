/* doctor.h - what the parts of `autograph doctor` share. */
#pragma once

#include "tools/table.h"

struct findings {
    struct table_output *o;
    bool bad;
};

enum level { GOOD, NOTE, BAD };

void doctor_say(struct findings *f, enum level level, const char *what, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Reports what the library's own file says: its version, and whether it can be loaded here at all.
 */
void doctor_library(struct findings *f, const char *library);
/* Reads the program's file, found as the shell finds it; starts nothing. `library` may be NULL. */
void doctor_program(struct findings *f, const char *library, const char *name);
