/* dump_merge.h - joins several dumps into one. The ids of each dump follow those of the dumps
 * before it. */
#pragma once

#include "tools/dump.h"

enum { DUMP_MOST_PROCESSES = 1024 }; /* that one dump holds */

/* Creates an empty dump; NULL without memory. */
struct dump *dump_merge_begin(void);
/* Adds a copy of what `from` holds. Returns false without memory. */
bool dump_merge_add(struct dump *to, const struct dump *from);
/* Sorts the events by time. After this the merged dump can be read. */
void dump_merge_end(struct dump *d);
