/* driver_table.c - the driver's table, empty, for programs that link capture/ without preload/. */
#include "preload/entries.h"

void *ag_real[AG_SYM_COUNT];

const char *ag_sym_name(enum ag_sym sym)
{
    (void)sym;
    return "an entry point";
}
