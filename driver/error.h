/* error.h - what the driver's errors mean. */
#ifndef AG_ERROR_H
#define AG_ERROR_H

#include "driver/entries.h"
#include <stdbool.h>

/* Whether every call in the context fails after a call has returned this error. */
bool ag_error_ends_context(CUresult error);

#endif
