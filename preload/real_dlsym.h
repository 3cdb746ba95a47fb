/* real_dlsym.h - the dlsym behind this library's own, and what the library itself asks for. */
#ifndef AG_REAL_DLSYM_H
#define AG_REAL_DLSYM_H

/* The dlsym that the program would call without this library: the C library's, or that of another
 * library which is preloaded behind this one and looks at names as well. NULL until it is first
 * needed. The hook's entry jumps through it. */
extern void *(*ag_next_dlsym)(void *handle, const char *name);

/* The C library's _dl_find_object, found with its dlsym; NULL if the C library has none. */
struct dl_find_object;
extern int (*ag_real_find_object)(void *address, struct dl_find_object *found);

/* The C library's dlsym. Finds both at its first call; never returns NULL. */
void *(*ag_find_real_dlsym(void))(void *handle, const char *name);

/* Finds ag_next_dlsym at its first call; never returns NULL. */
void *(*ag_find_next_dlsym(void))(void *handle, const char *name);

#endif
