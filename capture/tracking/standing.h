/* standing.h - see standing.c. */
#pragma once

#include <stdint.h>

/* How long nothing is to be built, ns: until the next look at whether a stream has work and gets
 * nothing new. 0: none does, as of a look a moment ago. Looks are ever further apart, up to
 * AG_STANDS_NS. Call it in the builder's thread while the builder is busy, so that no capture
 * begins. */
uint64_t ag_streams_stand(void);
