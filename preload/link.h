/* link.h - puts hooks in the place of the driver's functions: for the loader, and in the objects
 * that it has bound already. */
#pragma once

/* If no driver was found before: a look-up has just returned `address`, which lies in the driver.
 * The loader may be in the middle of loading other objects. The library takes the first driver that
 * it finds, once per process. Under AUTOGRAPH=0 it leaves the driver alone. */
void ag_link_look_at(const void *address);

/* A hook into the loader: every object's initialisation calls it at its start. Checks whether a
 * driver has been loaded since the last call. Until one is found, a call costs one
 * dl_iterate_phdr() and looks only at new objects. */
void __gmon_start__(void);
