/* dump_merge.h - several dumps as one, with the ids of each behind those of the ones before. */
#ifndef AG_TOOLS_DUMP_MERGE_H
#define AG_TOOLS_DUMP_MERGE_H

#include "tools/dump.h"

enum { DUMP_MOST_PROCESSES = 1024 }; /* that one dump holds */

/* An empty dump; NULL without memory. */
struct dump *dump_merge_begin(void);
/* Adds a copy of what `from` holds. False: no memory. */
bool dump_merge_add(struct dump *to, const struct dump *from);
/* Events by time: what was added can be looked at. */
void dump_merge_end(struct dump *d);

#endif
