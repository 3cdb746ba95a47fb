/* op.h - recording ops and submitting them one by one, whatever their kind. */
#pragma once

#include "capture/tracking/stream.h"

/* Copies the arguments to `recorded`, which has room for signature->layout.recorded_bytes. */
void ag_op_record(uint8_t *recorded, const struct ag_signature *signature,
                  const struct ag_incoming *in);

/* Submits the op from its recorded arguments, on the stream's handle or on that of
 * its branch. The caller holds the stream's
 * lock and is in its context. */
CUresult ag_op_submit(struct ag_stream *s, const struct ag_signature *signature,
                      const uint8_t *recorded);
