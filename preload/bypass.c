/*
 * bypass.c - what is loaded such that its look-ups do not come here.
 *
 * A namespace of its own (dlmopen) has no preloaded library, and a driver of its own. Nothing can
 * be done about that from here, and what is loaded later is not seen.
 */
#define _GNU_SOURCE
#include "preload/bypass.h"

#include <link.h>

#include "capture/settings/log.h"

void ag_bypass_report(void)
{
    if (ag_options.log_level < AG_LOG_INFO)
        return;
    const struct r_debug *debug = &_r_debug;
    if (debug->r_version >= 2) /* glibc 2.35: there is another namespace */
        ag_info("start", "a namespace was opened with dlmopen: CUDA calls in it are not seen");
}
