/* real_dlsym.h - the dlsym behind this library's own, and what the library itself asks for. */
#pragma once

/* The dlsym that the program would call without this library: the C library's, or that of another
 * library which is preloaded behind this one and looks at names as well. NULL until it is first
 * needed. The hook's entry jumps through it. */
extern void *(*ag_next_dlsym)(void *handle, const char *name);

/* Finds the C library's dlsym at its first call; never returns NULL. The caller may be a malloc
 * that looks up the next one, so nothing that is asked here may fail: the C library would allocate.
 */
void *(*ag_find_real_dlsym(void))(void *handle, const char *name);

/* Finds ag_next_dlsym at its first call; never returns NULL. */
void *(*ag_find_next_dlsym(void))(void *handle, const char *name);

/* The C library's dlopen; NULL if that fails. Another library's may hold a lock, as this one is
 * called while the program loads something. */
void *ag_real_dlopen(const char *path, int mode);
