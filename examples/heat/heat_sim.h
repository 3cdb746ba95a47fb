/* heat_sim.h - the solver's kernels for the simulated driver. */
#ifndef HEAT_SIM_H
#define HEAT_SIM_H

#include "common/driver.h"

extern const struct driver_cpu_kernel heat_on_cpu[];

#endif
