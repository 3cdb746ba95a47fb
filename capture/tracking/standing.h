/* standing.h - see standing.c. */
#pragma once

#include <stdbool.h>

/* Whether some stream has work and gets nothing new, as of a look in the last AG_STANDS_NS. Call it
 * in the builder's thread while the builder is busy, so that no capture begins. */
bool ag_streams_stand(void);
