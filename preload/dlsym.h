/* dlsym.h - the dlsym that programs see. dlsym_<architecture>.S holds the entry itself. */
#ifndef AG_DLSYM_H
#define AG_DLSYM_H

/* The C library's dlsym; NULL until it is first needed. The entry jumps through it. */
extern void *(*ag_real_dlsym)(void *handle, const char *name);

/* The C library's _dl_find_object, found together with it; NULL if the C library has none. */
struct dl_find_object;
extern int (*ag_real_find_object)(void *address, struct dl_find_object *found);

/* Finds both when the entry is first used; never returns NULL. */
void *(*ag_find_real_dlsym(void))(void *handle, const char *name);

/* dlsym of a name cu[A-Z]* with an explicit handle. `caller` is the return address of the call. */
void *ag_dlsym_cuda(void *handle, const char *name, const void *caller);

#endif
