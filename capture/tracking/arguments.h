/*
 * arguments.h - the arguments of an op: whether a launch brings them in a form that can be
 * recorded, and what they are once recorded. Where each argument of a launch lies among the
 * recorded bytes, its layout says.
 */
#pragma once

#include "driver/call.h"
#include "capture/tracking/function.h"
#include <string.h>

/* Recorded arguments of memsets and copies. Records and waits have none. */
struct ag_recorded_fill {
    uint64_t dst, value;
};
struct ag_recorded_copy {
    uint64_t dst, src;
};
/* The last recorded bytes of a launch whose layout has a grid. */
struct ag_recorded_grid {
    uint32_t dims[3], zero;
};
static inline struct ag_recorded_grid ag_recorded_grid(const uint8_t *recorded,
                                                       const struct ag_layout *layout)
{
    struct ag_recorded_grid grid;
    memcpy(&grid, recorded + layout->recorded_bytes - sizeof(grid), sizeof(grid));
    return grid;
}

/* Whether the launch brings its arguments in a form that can be recorded. A launch without
 * arguments, of a kernel that has parameters, is left to the driver to refuse. */
bool ag_launch_has_arguments(const struct ag_launch *launch, const struct ag_layout *layout);

/* Copies a launch's arguments to `recorded`, which has room for layout->recorded_bytes. */
void ag_record_launch(uint8_t *recorded, const struct ag_layout *layout,
                      const struct ag_launch *launch);
