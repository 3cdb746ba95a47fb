/* memory.h - see memory.c. */
#ifndef AG_MEMORY_H
#define AG_MEMORY_H

#include "capture/tracking/stream.h"

/* How often memory was freed or unmapped. */
extern _Atomic uint64_t ag_memory_epoch;
/* Whether [address, address + bytes) is plain device memory of this context, so that an
 * op on it may become part of a graph. `cacheable` ranges are remembered until memory is freed. */
bool ag_memory_is_plain(struct ag_stream *s, CUdeviceptr address, size_t bytes);

/* The driver looks at the memory of a copy while its graph is instantiated, and crashes
 * where that is freed meanwhile (580, on an H100, with the fuzzer). So a free waits for what is
 * held, and nothing can be held whose addresses were good before a free. */
bool ag_memory_hold(uint64_t epoch);
void ag_memory_release(void);

#endif
