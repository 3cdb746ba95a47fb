/* driver_table.c - the driver's tables, empty, for programs that link capture/ without preload/. */
#include "preload/table.h"

void *ag_real[AG_SYM_COUNT];
const struct ag_entry ag_entries[AG_SYM_COUNT];

const char *ag_sym_name(enum ag_sym sym)
{
    (void)sym;
    return "an entry point";
}
