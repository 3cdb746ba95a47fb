/* count.c - see count.h. */
#include "capture/tracking/count.h"

_Atomic uint64_t ag_counts[AG_NUM_COUNTS] __attribute__((aligned(64)));
_Atomic uint64_t ag_sync_point_counts[AG_SYM_COUNT + 1];

const char *ag_count_text(enum ag_count which)
{
    static const char *const texts[AG_NUM_COUNTS] = {
#define AG_COUNTER(name, text) text,
#include "capture/tracking/count.def"
#undef AG_COUNTER
    };
    return texts[which];
}
