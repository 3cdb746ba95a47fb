/* dormant.c - see dormant.h. */
#include "capture/tracking/dormant.h"

__thread struct ag_dormant_streams ag_dormant_streams __attribute__((tls_model("initial-exec")));
_Atomic uint64_t ag_stream_generation = 1;
