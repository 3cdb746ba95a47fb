/*
 * unknown.c - calls whose effect nobody knows.
 *
 * The first call of an unknown function may do anything, so it invalidates all that is known, as a
 * new limit or the end of a context does. Later calls of the same function are taken for what its
 * library does in every step. Such a call is a barrier and may free memory, but it does not change
 * what launches mean. Otherwise nothing would be replayed in programs that use such a library.
 */
#include "capture/capture.h"
#include "capture/tracking/count.h"
#include "driver/entries.h"

void ag_core_table_call(bool first)
{
    ag_count(AG_COUNT_TABLE_CALLS);
    if (first)
        ag_core_invalidate_functions(AG_SYM_cuGetExportTable);
    else
        ag_core_barrier_quiet(AG_SYM_cuGetExportTable);
    ag_core_invalidate_memory();
}
