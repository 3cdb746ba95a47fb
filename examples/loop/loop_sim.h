/* loop_sim.h - the loop's kernel for the simulated driver. */
#pragma once

#include "common/driver.h"

extern const struct driver_cpu_kernel loop_on_cpu[];
