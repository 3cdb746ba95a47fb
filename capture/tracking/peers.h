/* peers.h - see peers.c. */
#ifndef AG_PEERS_H
#define AG_PEERS_H

#include <stdatomic.h>
#include <stdbool.h>

/* Whether the program has found a kernel that waits for peers, and so may launch one. Never
 * becomes false again. */
extern _Atomic bool ag_peers_are_known;

#endif
