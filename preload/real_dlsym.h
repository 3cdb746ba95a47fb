/* real_dlsym.h - what this library itself asks the C library for. */
#ifndef AG_REAL_DLSYM_H
#define AG_REAL_DLSYM_H

/* The C library's dlsym; NULL until it is first needed. The hook's entry jumps through it. */
extern void *(*ag_real_dlsym)(void *handle, const char *name);

/* The C library's _dl_find_object, found together with it; NULL if the C library has none. */
struct dl_find_object;
extern int (*ag_real_find_object)(void *address, struct dl_find_object *found);

/* Finds both at its first call; never returns NULL. */
void *(*ag_find_real_dlsym(void))(void *handle, const char *name);

#endif
