/* op.h - staging ops and submitting them one by one, whatever their kind. */
#ifndef AG_OP_H
#define AG_OP_H

#include "capture/tracking/stream.h"

/* Copies the arguments to `staged`, which has room for shape->staged_bytes. */
void ag_op_stage(uint8_t *staged, const struct ag_shape *shape, const struct ag_incoming *in);

/* The same op again from its staged arguments, on the stream's handle. Under the stream's lock, in
 * its context. */
CUresult ag_op_submit(const struct ag_stream *s, const struct ag_shape *shape,
                      const uint8_t *staged);

#endif
