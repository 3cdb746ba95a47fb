/* nap.c - see nap.h. */
#include "capture/tracking/nap.h"

__thread struct ag_naps ag_naps __attribute__((tls_model("initial-exec")));
_Atomic uint64_t ag_stream_generation = 1;
