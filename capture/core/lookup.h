/* lookup.h - see lookup.c. */
#ifndef AG_LOOKUP_H
#define AG_LOOKUP_H

/* A library or a context may end. */
void ag_lookups_forget(void);

#endif
