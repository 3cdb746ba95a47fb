/*
 * expect.h - conditions that must hold in every build, whatever the program does.
 *
 * If one does not hold, this library has a bug, and the program's results must not depend on it.
 * The stream then submits what it has deferred and never defers again. One line reports it, and a
 * counter counts every further case. Check once per chunk or sync point, never per op.
 */
#ifndef AG_EXPECT_H
#define AG_EXPECT_H

#include "capture/tracking/stream.h"

/* Whether the condition holds. The caller holds the stream's lock. If it does not hold, all records
 * are dropped. */
#define AG_EXPECT(condition, stream) ((condition) ? true : ag_unexpected(stream, #condition))

/* Always returns false. */
bool ag_unexpected(struct ag_stream *s, const char *what);

#endif
