/*
 * wanted.h - whether the submitter makes a stream's launches (AUTOGRAPH_SUBMIT).
 */
#pragma once

#include "capture/tracking/state.h"
#include "capture/tracking/stream.h"

/* Whether the submitter makes this program faster is measured again and again; but not while the
 * program itself measures, or while there is no processor for it. The question reads the machine's
 * clock and much else, so its answer, s->hands_ops, holds until s->asks_at. The caller holds the
 * stream's lock. */
__attribute__((cold)) void ag_submitter_asks(struct ag_stream *s, uint64_t now);
static inline bool ag_submitter_is_wanted(struct ag_stream *s, uint64_t now)
{
    if (__builtin_expect(ag_state_builds_nothing(), 0)) /* the library only observes */
        return s->hands_ops = false;
    if (__builtin_expect(now >= s->asks_at, 0))
        ag_submitter_asks(s, now);
    return s->hands_ops;
}
