/* probe.c - see probe.h. */
#include "capture/probe.h"
#include "capture/capture.h"

__thread unsigned int ag_probes;

void ag_capture_probe_begins(void)
{
    ag_probe_begins();
}

void ag_capture_probe_ends(void)
{
    ag_probe_ends();
}

bool ag_capture_probing(void)
{
    return ag_probes != 0;
}
