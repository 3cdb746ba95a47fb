/* link.h - puts hooks in the place of the driver's functions: for the loader, and in the objects
 * that it has bound already. */
#ifndef AG_LINK_H
#define AG_LINK_H

/* Checks whether a driver has been loaded since the last call. The library takes the first driver
 * that it finds, once per process. Under AUTOGRAPH=0 it leaves the driver alone. A call costs one
 * dl_iterate_phdr() and looks only at new objects. */
void ag_link_look(void);

/* The same, if no driver was found before, for the driver that has just returned this address from
 * a look-up. The loader may be in the middle of loading other objects. */
void ag_link_look_at(const void *address);

/* A hook into the loader: every object's initialisation calls it at its start. */
void __gmon_start__(void);

#endif
