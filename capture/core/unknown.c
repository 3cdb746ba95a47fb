/*
 * unknown.c - calls of which nobody knows what they do.
 *
 * Such a call may do anything once: the first one of a function ends all that is known, as a new
 * limit or a dying context does. A function that is called again is taken for what its library does
 * in every step. It is ordered as a barrier, and may take memory away; but what launches mean
 * stays, or nothing would be replayed where such a library is used.
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
