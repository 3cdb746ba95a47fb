/* new.h - memory for a structure that begins with a cache line. */
#pragma once

#include <stdlib.h>
#include <string.h>

/* All 0; NULL: there is none. `bytes`: a multiple of 64. */
static inline void *ag_new(size_t bytes)
{
    void *new = aligned_alloc(64, bytes);
    return new ? memset(new, 0, bytes) : NULL;
}
