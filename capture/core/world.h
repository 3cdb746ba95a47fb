/* world.h - see world.c. */
#pragma once

#include "policy/engine.h"

/* The engines are those of struct ag_stream. Whoever calls one holds the stream's lock. */
extern const struct ag_engine_world ag_driver_world;
