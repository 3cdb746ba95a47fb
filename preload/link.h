/* link.h - putting hooks in the place of the driver's functions, for the loader and in what it has
 * bound already. */
#ifndef AG_LINK_H
#define AG_LINK_H

/* Looks whether a driver has been loaded since the last look; the first one that is found is taken,
 * once for the process. Under AUTOGRAPH=0 it is left as it is. Costs one call of dl_iterate_phdr()
 * and looks at new objects only. */
void ag_link_look(void);

/* The same for the driver that has just answered a look-up with this address, where none was found
 * before. Other objects may be in the middle of being loaded. */
void ag_link_look_at(const void *address);

/* The loader's event: called in the beginning of every object's initialisation. */
void __gmon_start__(void);

#endif
