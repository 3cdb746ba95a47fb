/* error.h - what the driver's errors mean. */
#pragma once

#include "driver/entries.h"
#include <stdbool.h>

/* Whether every call in the context fails after a call has returned this error. */
bool ag_error_ends_context(CUresult error);
