/* trace_site.h - see trace_site.c. */
#ifndef AG_TRACE_SITE_H
#define AG_TRACE_SITE_H

#include <stdint.h>

void ag_trace_sites_start(void);
/* Id of the place in the program that called into the library; 0 where it was not looked at. */
uint32_t ag_trace_site(void);
/* Defines the sites that were met since the last time. The writer's. */
void ag_trace_sites_define(void);

#endif
