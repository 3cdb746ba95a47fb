/* hostmemory.h - see hostmemory.c. */
#ifndef AG_HOSTMEMORY_H
#define AG_HOSTMEMORY_H

#include "capture/tracking/signature.h"

/* Whether an op of this signature and with these arguments may write to memory of the host: a word
 * of its arguments is an address there. */
bool ag_host_memory_is_named(const struct ag_signature *signature, const uint8_t *recorded);

/* Changes with every address that comes to be memory of the host. */
extern _Atomic uint32_t ag_host_memory_epoch;

#endif
