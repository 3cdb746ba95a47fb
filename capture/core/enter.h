/* enter.h - how the process enters a state in which hooks submit at once; see state.h. */
#pragma once

#include "capture/tracking/state.h"
#include "driver/entries.h"

/* The caller holds no lock. `sym`: the call that is the cause, or AG_SYM_COUNT if there is none. */
void ag_state_enter(enum ag_reason reason, enum ag_sym sym);
/* The same after ag_state_defer_nothing(). */
void ag_state_entered(enum ag_reason reason, enum ag_sym sym);
