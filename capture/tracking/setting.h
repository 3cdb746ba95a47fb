/*
 * setting.h - what the program sets for a function, and what that means for what is recorded.
 *
 * The tables belong to signature.c, under whose lock everything here is called.
 */
#ifndef AG_SETTING_H
#define AG_SETTING_H

#include "capture/tracking/signature.h"

/* Before the real call. `kernel` is set where graphs change. */
enum ag_change ag_setting_begins(struct ag_function_table *table, CUfunction func, int attribute,
                                 int value, int device, const struct ag_kernel **kernel);

/* After it. */
void ag_setting_ends(struct ag_function_table *table, CUfunction func, int attribute, int value,
                     int device, bool done);

#endif
