/*
 * setting.h - the attributes that the program sets for a function, and what they mean for recorded
 * ops.
 *
 * The tables belong to signature.c; everything here is called under signature.c's lock.
 */
#pragma once

#include "capture/tracking/function.h"

/* Call before the real call. Sets `kernel` if graphs change. */
enum ag_change ag_setting_begins(struct ag_function_table *table, CUfunction func, int attribute,
                                 int value, int device, const struct ag_kernel **kernel);

/* Call after the real call; `done`: it succeeded. */
void ag_setting_ends(struct ag_function_table *table, CUfunction func, int attribute, int value,
                     int device, bool done);
