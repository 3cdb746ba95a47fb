/* trace_site.h - see trace_site.c. */
#pragma once

#include <stdint.h>

void ag_trace_sites_start(void);
/* Id of the place in the program that called the library; 0 if the library did not look. */
uint32_t ag_trace_site(void);
/* Defines the sites that were first seen since the last call. Only the writer calls it. */
void ag_trace_sites_define(void);
