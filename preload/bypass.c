/*
 * bypass.c - loaded objects whose look-ups do not reach this library.
 *
 * A namespace made with dlmopen has no preloaded library, and a driver of its own. This library
 * can do nothing about that, and it does not see what is loaded later.
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
