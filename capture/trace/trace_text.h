/* trace_text.h - texts of the dump. */
#ifndef AG_TRACE_TEXT_H
#define AG_TRACE_TEXT_H

#include <stdint.h>

/* The id of a text, defined if it is new. */
uint32_t ag_trace_string(const char *text);

#endif
