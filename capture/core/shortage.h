/* shortage.h - see shortage.c. */
#ifndef AG_SHORTAGE_H
#define AG_SHORTAGE_H

#include "driver/call.h"

/* The program's own call, made now. Without any lock. */
CUresult ag_op_call(const struct ag_incoming *in);

#endif
