/* loop_sim.h - the loop's kernel for the simulated driver. */
#ifndef LOOP_SIM_H
#define LOOP_SIM_H

#include "common/driver.h"

extern const struct driver_cpu_kernel loop_on_cpu[];

#endif
