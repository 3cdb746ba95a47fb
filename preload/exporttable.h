/*
 * exporttable.h - tables of the driver's own functions (cuGetExportTable) that nobody knows.
 *
 * NVIDIA's libraries take functions of the driver from such tables, which no header declares. What
 * such a function does is not known, so the program gets a copy of the table in which a stub stands
 * before each of them: a barrier, as before an entry point that nobody knows.
 */
#ifndef AG_EXPORTTABLE_H
#define AG_EXPORTTABLE_H

/* What each of the stubs takes, in stubs_*.S. */
#define AG_TABLE_STUB_BYTES 16

#ifndef __ASSEMBLER__

#include <stdint.h>

/* What to answer for a table that the driver gave for `id` (16 bytes): always the same copy; or the
 * table itself, where its layout is not understood, and then replay ends. `caller`: who asks. */
const void *ag_export_table(const void *table, const unsigned char *id, const void *caller);

/* Before the call of a function that the stub `number` stands for; gives the function. `caller` is
 * where it returns to. */
void *ag_export_table_call(uint32_t number, const void *caller);

/* At exit: how often each function was called, at AUTOGRAPH_LOG=info. */
void ag_export_tables_report(void);

/* In the child of a fork: the lock is held by no thread that is gone. */
void ag_export_tables_after_fork(void);

#endif
#endif
