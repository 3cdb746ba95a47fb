/* world.h - see world.c. */
#ifndef AG_WORLD_H
#define AG_WORLD_H

#include "policy/engine.h"

/* The engines are those of struct ag_stream. Whoever calls one holds the stream's lock. */
extern const struct ag_engine_world ag_driver_world;

#endif
