/*
 * dlsym.c - the C side of the hooked dlsym: names cu[A-Z]* looked up through an explicit handle.
 *
 * What must hold: one call of the real dlsym for each call of ours, and no failing dl* function
 * after it, so that the program's dlerror() tells what it would tell without us. Callers inside the
 * driver get the driver's own functions: they call them with the driver's locks held.
 */
#define _GNU_SOURCE
#include "preload/dlsym.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "preload/link.h"
#include "preload/object.h"
#include "preload/resolve.h"
#include "preload/substitute.h"

void *(*ag_real_dlsym)(void *handle, const char *name);
int (*ag_real_find_object)(void *address, struct dl_find_object *found);

void *(*ag_find_real_dlsym(void))(void *handle, const char *name)
{
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
    if (ag_real_dlsym)
        return ag_real_dlsym;
    void *found = NULL;
    for (size_t i = 0; !found && i < sizeof(versions) / sizeof(versions[0]); i++)
        found = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
    if (!found) {
        fprintf(stderr, "autograph: the C library has no dlsym that can be found\n");
        abort();
    }
    *(void **)&ag_real_find_object = dlvsym(RTLD_NEXT, "_dl_find_object", "GLIBC_2.35");
    dlerror();
    *(void **)&ag_real_dlsym = found;
    return ag_real_dlsym;
}

/*
 * Whose look-ups are the driver's own, by the beginning of the file's name. Other libraries of
 * NVIDIA's are clients like any other, whatever they are called: NVENC (libnvidia-encode), Optical
 * Flow and OptiX (libnvidia-rtcore) work on streams that the program gives them. The compilers that
 * the driver loads (libnvidia-ptxjitcompiler, libnvidia-nvvm, libnvidia-gpucomp) look nothing up.
 */
static const char *const driver_parts[] = {
    "libcuda.so",         /* itself; under WSL also the file that it passes calls on to */
    "libcudadebugger.so", /* asks for a debugger, while all else stands */
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
    void *address = ag_find_real_dlsym()(handle, name);
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
