/* shortage.h - see shortage.c. */
#pragma once

#include "driver/call.h"

/* Makes the program's own call, now. The caller holds no lock. */
CUresult ag_op_call(const struct ag_incoming *in);
