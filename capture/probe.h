/*
 * probe.h - driver calls of the library's own that may fail by intention: how many parameters a
 * kernel has, of which kind a handle is. The program is not to hear of them where it has asked to
 * be told of failed calls (cuLogsRegisterCallback): the driver tells it in the calling thread, and
 * the hook of that call looks here first.
 */
#ifndef AG_PROBE_H
#define AG_PROBE_H

extern __thread unsigned int ag_probes; /* that this thread is in */

static inline void ag_probe_begins(void)
{
    ag_probes++;
}

static inline void ag_probe_ends(void)
{
    ag_probes--;
}

#endif
