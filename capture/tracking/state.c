/* state.c - see state.h. */
#include "capture/tracking/state.h"
#include "capture/capture.h"
#include "capture/system/hot.h"
#include "capture/system/lock.h"

struct ag_state ag_state AG_HOT = {.eager = AG_EAGER_OFF, .bypass = AG_EAGER_OFF};
_Atomic uint32_t ag_open_streams;

/* Guards the two words together; its holder calls nothing. */
static struct ag_lock lock;

void ag_state_defer_nothing(enum ag_reason reason)
{
    ag_lock(&lock, AG_RANK_STATE);
    atomic_fetch_or(&ag_state.eager, (uint32_t)reason);
    ag_unlock(&lock);
}

void ag_state_pass_by(enum ag_reason reason)
{
    ag_lock(&lock, AG_RANK_STATE);
    if (ag_state_is(reason))
        atomic_fetch_or(&ag_state.bypass, (uint32_t)reason);
    ag_unlock(&lock);
}

void ag_state_leave(enum ag_reason reason)
{
    ag_lock(&lock, AG_RANK_STATE);
    atomic_fetch_and(&ag_state.bypass, ~(uint32_t)reason);
    atomic_fetch_and(&ag_state.eager, ~(uint32_t)reason);
    ag_unlock(&lock);
}

void ag_state_set(enum ag_reason reason)
{
    atomic_fetch_or(&ag_state.eager, (uint32_t)reason);
    atomic_fetch_or(&ag_state.bypass, (uint32_t)reason);
}
