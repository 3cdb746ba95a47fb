/* dormant.c - see dormant.h. */
#include "capture/tracking/dormant.h"
#include "capture/system/hot.h"

_Atomic uint64_t ag_stream_generation AG_HOT = 1;
