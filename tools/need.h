/* need.h - memory that the command cannot do without. */
#pragma once

#include <stdio.h>
#include <stdlib.h>

/* What malloc() and its like returned. If that is NULL, prints a line and ends the command. */
static inline void *need(void *p)
{
    if (!p) {
        fputs("autograph: out of memory\n", stderr);
        exit(1);
    }
    return p;
}
