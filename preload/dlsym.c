/*
 * dlsym.c - the C side of the hooked dlsym: names cu[A-Z]* that are looked up through an explicit
 * handle.
 *
 * What must hold: each call of the hook makes exactly one call of the next dlsym, and no failing
 * dl* call after it. Then the program's dlerror() says what it would say without the library.
 * Callers inside the driver get the driver's own functions, because they call them with the
 * driver's locks held.
 */
#define _GNU_SOURCE
#include "preload/dlsym.h"

#include <stddef.h>

#include "preload/link.h"
#include "preload/object.h"
#include "preload/real_dlsym.h"
#include "preload/resolve.h"
#include "preload/substitute.h"

/*
 * The files that count as the driver when they look something up, by the beginning of the file
 * name. Other NVIDIA libraries are clients like any other, whatever their names: NVENC
 * (libnvidia-encode), Optical Flow and OptiX (libnvidia-rtcore) work on streams that the program
 * gives them. The compilers that the driver loads (libnvidia-ptxjitcompiler, libnvidia-nvvm,
 * libnvidia-gpucomp) look nothing up.
 */
static const char *const driver_parts[] = {
    "libcuda.so",         /* the driver; under WSL also the file that it forwards to */
    "libcudadebugger.so", /* asks for a debugger while everything else stands still */
};

static bool called_by_driver(const void *caller)
{
    struct ag_object object;
    if (!ag_object_at(caller, &object))
        return false;
    for (size_t i = 0; i < sizeof(driver_parts) / sizeof(driver_parts[0]); i++)
        if (ag_object_is(&object, driver_parts[i]))
            return true;
    return false;
}

void *ag_dlsym_cuda(void *handle, const char *name, const void *caller)
{
    void *address = ag_find_next_dlsym()(handle, name);
    if (!address || ag_is_off())
        return address;
    if (!ag_hands_out()) {
        struct ag_object object;
        if (ag_object_at(address, &object) && ag_object_is(&object, "libcuda.so"))
            ag_link_look_at(address);
    }
    if (!ag_hands_out() || !(ag_in_driver(address) || ag_is_ours(address)))
        return address;
    return called_by_driver(caller) ? ag_driver_function(address) : ag_substitute(address, name);
}
