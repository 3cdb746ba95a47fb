/* cg_sim.h - the solver's kernels for the simulated driver. */
#ifndef CG_SIM_H
#define CG_SIM_H

#include "common/driver.h"

extern const struct driver_cpu_kernel cg_on_cpu[];

#endif
