/* lookup.h - see lookup.c. */
#pragma once

/* A library or a context may end. */
void ag_lookups_forget(void);
