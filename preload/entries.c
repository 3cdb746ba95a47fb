/* entries.c - names of entry points. */
#include "preload/table.h"

const char *ag_sym_name(enum ag_sym sym)
{
    return (unsigned int)sym < AG_SYM_COUNT ? ag_entries[sym].name
                                            : "an entry point of a newer driver";
}
