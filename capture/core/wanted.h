/*
 * wanted.h - whether the submitter makes a stream's launches (AUTOGRAPH_SUBMIT).
 */
#pragma once

#include "capture/tracking/stream.h"

/* Whether the submitter makes this program faster is measured again and again; but not while the
 * program itself measures, or while there is no processor for it. The caller holds the stream's
 * lock. */
bool ag_submitter_is_wanted(struct ag_stream *s);
