/*
 * exporttable.h - unknown tables of the driver's own functions (cuGetExportTable).
 *
 * NVIDIA's libraries get driver functions from such tables, which no header declares. The library
 * cannot know what such a function does. So the program gets a copy of the table with a stub in
 * front of each function. The stub is a barrier, as for an unknown entry point.
 */
#pragma once

/* The size of each stub in stubs_*.S. */
#define AG_TABLE_STUB_BYTES 16

#ifndef __ASSEMBLER__

#include <stdint.h>

/* What to return to the program for a table that the driver gave for `id` (16 bytes): always the
 * same copy. If the table's layout is not understood, returns the table itself, and replay ends.
 * `caller`: who asks. */
const void *ag_export_table(const void *table, const unsigned char *id, const void *caller);

/* Called before the function that the stub `number` stands for; returns that function. `caller` is
 * the address to which the function returns. */
void *ag_export_table_call(uint32_t number, const void *caller);

/* At exit with AUTOGRAPH_LOG=info: logs how often each function was called. */
void ag_export_tables_report(void);

/* In the child of a fork: frees the lock, whose holder may be gone. */
void ag_export_tables_after_fork(void);

#endif
