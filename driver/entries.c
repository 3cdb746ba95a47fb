/* entries.c - see entries.h. */
#include "driver/table.h"

void *ag_real[AG_SYM_COUNT];

const char *ag_sym_name(enum ag_sym sym)
{
    return (unsigned int)sym < AG_SYM_COUNT ? ag_entries[sym].name
                                            : "an entry point of a newer driver";
}
