/* heat_sim.h - the solver's kernels for the simulated driver. */
#pragma once

#include "common/driver.h"

extern const struct driver_cpu_kernel heat_on_cpu[];
