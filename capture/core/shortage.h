/* shortage.h - see shortage.c. */
#ifndef AG_SHORTAGE_H
#define AG_SHORTAGE_H

#include "driver/call.h"

/* Makes the program's own call, now. The caller holds no lock. */
CUresult ag_op_call(const struct ag_incoming *in);

#endif
