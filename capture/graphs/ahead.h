/*
 * ahead.h - how far the graphs of a stream may be ahead of the GPU.
 *
 * The driver's queue holds some 1000 items, and then a launch waits. A graph is one item, however
 * many ops it has, so a program that never waits would be 10,000 ops ahead and more
 * (docs/results-log.md, "Behind 86391d68"). So an event is recorded behind every AG_AHEAD_OPS ops
 * that went by graphs, and with AG_AHEAD_EVENTS of them under way the next graph waits for the
 * oldest. A program that launches eagerly would wait by then, too.
 *
 * Call both with the stream's lock and a ring at rest, or with the ring's role, as for a launch.
 */
#pragma once

#include "capture/tracking/stream.h"

void ag_ahead_wait_for_oldest(struct ag_stream *s);
void ag_ahead_record(struct ag_stream *s);

/* Before the graph of a whole chunk is launched, by the program's launch or by the submitter,
 * behind which the ring takes as many ops as lie between two events. Calls that submit what is held
 * back or handed over do not wait here: eagerly nothing would be left for them to submit. */
static inline void ag_ahead_wait(struct ag_stream *s, bool submitter)
{
    s->ahead.waited_ns = 0;
    if (__builtin_expect(s->ahead.pending + submitter >= AG_AHEAD_EVENTS, 0))
        ag_ahead_wait_for_oldest(s);
}

/* Behind a graph of so many ops. */
static inline void ag_ahead_launched(struct ag_stream *s, uint32_t ops)
{
    s->ahead.ops += ops;
    if (__builtin_expect(s->ahead.ops >= AG_AHEAD_OPS, 0))
        ag_ahead_record(s);
}

/* The stream is at rest on the GPU. */
static inline void ag_ahead_rests(struct ag_stream *s)
{
    s->ahead.pending = s->ahead.ops = 0;
}

/* Before the stream is destroyed: the events are. */
void ag_ahead_ends(struct ag_stream *s);
