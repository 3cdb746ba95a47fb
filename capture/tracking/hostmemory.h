/* hostmemory.h - see hostmemory.c. */
#pragma once

#include "capture/tracking/signature.h"

/* Whether an op of this signature and with these arguments may write to memory of the host or of
 * another device than this one: a word of its arguments is an address there. */
bool ag_outside_is_named(const struct ag_signature *signature, const uint8_t *recorded,
                         CUdevice device);

/* Changes whenever more addresses may be such memory. */
extern _Atomic uint32_t ag_host_memory_epoch;
