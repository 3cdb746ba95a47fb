/*
 * primary.c - counts how often the primary context of each device is retained, to know which
 * release ends it. Some libraries retain and release it in every operation (UCX does), and that
 * must cost nothing.
 *
 * The count is exact for the calls that we see, since the real calls are made under the device's
 * lock. If the context still exists after the last release that we saw, somebody retains it by
 * calls that we do not see (through a table of entry points, say). From then on that holder is
 * counted as well.
 */
#include "capture/settings/log.h"
#include "capture/tracking/state.h"
#include "capture/tracking/stream.h"

enum { DEVICES = 64 }; /* devices beyond have no count: a release there is always the last */

static struct {
    struct ag_lock lock;
    _Atomic uint32_t retained, unseen; /* written under the lock */
} devices[DEVICES];

static bool is_active(CUdevice device)
{
    unsigned int flags;
    int active = 0;
    ag_probe_begins(); /* there may be no such device */
    CUresult r = AG_REAL(cuDevicePrimaryCtxGetState)(device, &flags, &active);
    ag_probe_ends();
    return r == CUDA_SUCCESS && active;
}

/* The context's handle, or NULL if the context does not exist. */
static CUcontext handle_of(CUdevice device)
{
    CUcontext ctx = NULL;
    if (!is_active(device) || AG_REAL(cuDevicePrimaryCtxRetain)(&ctx, device) != CUDA_SUCCESS)
        return NULL;
    AG_REAL(cuDevicePrimaryCtxRelease_v2)(device);
    return ctx;
}

static uint32_t holders(CUdevice device)
{
    return devices[device].retained + devices[device].unseen;
}

/* Whether the call seems to make the context, or to end it. */
static bool decides(CUdevice device, enum ag_sym sym)
{
    switch (sym) {
    case AG_SYM_cuDevicePrimaryCtxRetain:
        return holders(device) == 0;
    case AG_SYM_cuDevicePrimaryCtxRelease:
    case AG_SYM_cuDevicePrimaryCtxRelease_v2:
        return holders(device) <= 1;
    default:
        return true;
    }
}

/* What the thread holds back does not wait until the context is made, or has ended. It is submitted
 * without the lock: the thread may have to wait for room in a queue, and another one may make that
 * room only behind a retain of its own. A count that changes meanwhile costs a barrier, or leaves
 * to the watchdog, or to the end of the context, what is held back. */
bool ag_core_primary_begins(CUdevice device, enum ag_sym sym)
{
    if (!ag_state_tracks() || device < 0 || device >= DEVICES)
        return false;
    if (decides(device, sym))
        ag_core_barrier_quiet(sym);
    ag_lock(&devices[device].lock, AG_RANK_PRIMARY);
    return true;
}

void ag_core_primary_retained(CUdevice device, bool locked, bool success)
{
    if (!locked)
        return;
    if (success)
        devices[device].retained++;
    ag_unlock(&devices[device].lock);
}

struct ag_context *ag_core_primary_releases(CUdevice device, bool locked, enum ag_sym sym)
{
    if (locked && holders(device) > 1)
        return NULL;
    return ag_core_context_may_end(handle_of(device), sym);
}

CUresult ag_core_primary_released(struct ag_context *context, CUdevice device, bool locked,
                                  bool success)
{
    bool active = context && is_active(device);
    CUresult pending = ag_core_context_ended(context, !active);
    if (!locked)
        return pending;
    if (success && devices[device].retained)
        devices[device].retained--;
    if (success && active) {
        devices[device].unseen = 1;
        ag_debug("context", "the context of device %d is retained by calls that are not seen",
                 (int)device);
    }
    ag_unlock(&devices[device].lock);
    return pending;
}

struct ag_context *ag_core_primary_resets(CUdevice device, enum ag_sym sym)
{
    return ag_core_context_may_end(handle_of(device), sym);
}

CUresult ag_core_primary_reset(struct ag_context *context, CUdevice device, bool locked,
                               bool success)
{
    CUresult pending = ag_core_context_ended(context, success);
    if (!locked)
        return pending;
    if (success) /* the driver does not document what a reset does to the count */
        devices[device].retained = devices[device].unseen = 0;
    ag_unlock(&devices[device].lock);
    return pending;
}
