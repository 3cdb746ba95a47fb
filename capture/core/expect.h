/*
 * expect.h - what must hold in every build, whatever the program does.
 *
 * Where it does not, this library has a mistake, and results must not depend on it: the stream
 * submits what it has deferred, and nothing of it is deferred again. One line says so, a counter
 * goes on counting. Asked once per chunk or sync point, never per op.
 */
#ifndef AG_EXPECT_H
#define AG_EXPECT_H

#include "capture/tracking/stream.h"

/* Whether it holds. Under the stream's lock; where it does not hold, nothing is recorded any more.
 */
#define AG_EXPECT(condition, stream) ((condition) ? true : ag_unexpected(stream, #condition))

/* False. */
bool ag_unexpected(struct ag_stream *s, const char *what);

#endif
