/* error.h - what an error of the driver's means. */
#ifndef AG_ERROR_H
#define AG_ERROR_H

#include "driver/entries.h"
#include <stdbool.h>

/* Whether this error of a call is one after which every call in the context fails. */
bool ag_error_ends_context(CUresult error);

#endif
