/* world.h - see world.c. */
#ifndef AG_WORLD_H
#define AG_WORLD_H

#include "policy/engine.h"

struct ag_stream;
/* A chunk went into the stream's ring; the ring is empty again. The caller holds the lock. */
void ag_deferring_handed(struct ag_stream *s);
void ag_deferring_settled(struct ag_stream *s);

/* The engines are those of struct ag_stream. Whoever calls one holds the stream's lock. */
extern const struct ag_engine_world ag_driver_world;

#endif
