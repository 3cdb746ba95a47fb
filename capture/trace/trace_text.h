/* trace_text.h - the dump's texts. */
#ifndef AG_TRACE_TEXT_H
#define AG_TRACE_TEXT_H

#include <stdint.h>

/* The id of a text. A new text is defined first. */
uint32_t ag_trace_string(const char *text);

#endif
