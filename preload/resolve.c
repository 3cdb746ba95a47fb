/*
 * resolve.c - decides what is safe with the driver that was found, and starts it.
 */
#define _GNU_SOURCE
#include "preload/resolve.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <pthread.h>
#include <string.h>

#include "capture/capture.h"
#include "capture/settings/log.h"
#include "capture/settings/options.h"
#include "capture/system/hot.h"
#include "capture/system/lock.h"
#include "driver/own.h"
#include "preload/attached.h"
#include "preload/exporttable.h"
#include "preload/object.h"
#include "preload/process.h"
#include "preload/real_dlsym.h"
#include "preload/substitute.h"

_Atomic uint32_t ag_hooks AG_HOT;

static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;

/* Something was started that the child of a fork must not continue. */
static _Atomic bool begun;

bool ag_is_off(void)
{
    static _Atomic int off = -1;
    int known = atomic_load_explicit(&off, memory_order_relaxed);
    if (known < 0) {
        known = ag_options_mode() == AG_MODE_OFF;
        atomic_store_explicit(&off, known, memory_order_relaxed);
    }
    return known;
}

/*
 * Substitution by address relies on one fact: the addresses that the getter returns are the
 * driver's own exports. This checks it at start for the entry points with a hook; ag_substitute()
 * checks every address that is returned later.
 */
static bool getter_answers_exports(int version)
{
    if (!AG_HAVE(cuGetProcAddress_v2))
        return false;
    for (int sym = 0; sym < AG_SYM_COUNT; sym++) {
        const char *name = ag_entries[sym].name;
        if (!(ag_entries[sym].flags & AG_ENTRY_HOOK) || strstr(name, "_v") || strstr(name, "_pt"))
            continue; /* base names */
        for (cuuint64_t flags = 0; flags <= 2; flags += 2) {
            void *answer = NULL;
            if (AG_REAL(cuGetProcAddress_v2)(name, &answer, version, flags, NULL) != CUDA_SUCCESS)
                continue;
            if (answer && ag_symbol_at(answer) < 0 && !ag_in_driver(answer) && !ag_is_ours(answer))
                return false;
        }
    }
    return true;
}

/* Why this driver allows only observing, or NULL if replay is safe. */
static const char *reason_to_observe(void)
{
    int version = 0;
    if (AG_REAL(cuDriverGetVersion)(&version) != CUDA_SUCCESS)
        return "the driver does not say its version";
    if (version < 12040)
        return "the driver is older than CUDA 12.4";
    if (!AG_HAVE(cuFuncGetParamInfo) || !AG_HAVE(cuKernelGetParamInfo))
        return "the driver has no cuFuncGetParamInfo";
    if (!getter_answers_exports(version))
        return "the driver's getter answers something else than its exports";
    return ag_options.force ? NULL : ag_attached_tool();
}

static void start(void);

/* At the end of the process: also makes the summary or dump that the user asked for if the library
 * never started. */
static void finish(void)
{
    if (atomic_load_explicit(&ag_hooks, memory_order_acquire) == AG_HOOKS_FOUND &&
        (ag_options.stats || ag_options.trace)) {
        ag_core_launched_nothing();
        start();
    }
    ag_core_finish();
    ag_export_tables_report();
}

/* Frees locks whose holders may be gone, and gives up what the parent has started. */
static void in_child(void)
{
    ag_substitute_after_fork();
    pthread_mutex_init(&start_lock, NULL);
    ag_export_tables_after_fork();
    if (!atomic_load(&begun))
        return;
    atomic_store(&ag_hooks, AG_HOOKS_OFF);
    ag_core_after_fork_in_child();
}

/* Does now what waits for the loader's lock when it is first done. Its holder, such as a plug-in's
 * constructor, may wait for the thread that does it later. */
static void wait_for_loader(void)
{
    struct ag_object object;
    void *here = &object;
    ag_object_at(here, &object); /* looks up a function of the C library */
    if (ag_options.trace)
        backtrace(&here, 1); /* loads the unwinder */
}

void ag_resolve_found(const char *path, bool complete)
{
    /* keeps the driver loaded, whoever closes it, and however often */
    void *driver = ag_real_dlopen(path, RTLD_NOLOAD | RTLD_LAZY | RTLD_NODELETE);
    /* whether this loader looks where link.c expects it to */
    if (!driver || (AG_HAVE(cuLaunchKernel) && ag_find_real_dlsym()(driver, "cuLaunchKernel") !=
                                                   ag_hook_address[AG_SYM_cuLaunchKernel]))
        complete = false;
    wait_for_loader();
    ag_process_watch(finish, in_child);
    if (!complete) {
        ag_warn("start", "the driver's names could not be replaced everywhere: kernels may be "
                         "launched unseen, and nothing is replayed");
        ag_core_observe_only("the driver's names could not be replaced everywhere");
    }
    atomic_store_explicit(&ag_hooks, AG_HOOKS_FOUND, memory_order_release);
}

/* A namespace made with dlmopen has no preloaded library, and a driver of its own. This library can
 * do nothing about that, and it does not see what is loaded later. */
static void say_namespaces(void)
{
    const struct r_debug *debug = &_r_debug;
    if (debug->r_version >= 2) /* glibc 2.35: there is another namespace */
        ag_info("start", "a namespace was opened with dlmopen: CUDA calls in it are not seen");
}

/* Call it if the mode is FOUND, or was so when the caller looked. Anything that may wait for the
 * loader is done without the lock, because a constructor that is running in another thread may
 * wait for the lock. No thread can be cancelled in here. */
static void start(void)
{
    static __thread bool starting;
    bool first = false;
    int cancel;
    if (starting) /* the functions called here make CUDA calls */
        return;
    starting = true;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    ag_probe_begins(); /* an older driver lacks some of these entry points */
    const char *why = reason_to_observe();
    ag_probe_ends();
    ag_mutex_lock(&start_lock, AG_RANK_START);
    if (atomic_load_explicit(&ag_hooks, memory_order_relaxed) == AG_HOOKS_FOUND) {
        first = true;
        atomic_store(&begun, true);
        ag_process_watch(finish, in_child);
        ag_core_start(why != NULL, why);
        atomic_store_explicit(&ag_hooks, AG_HOOKS_ON, memory_order_release);
    }
    ag_mutex_unlock(&start_lock);
    if (first) {
        ag_core_started();
        say_namespaces();
    }
    /* The program's dlerror() must not show anything that happened here. */
    dlerror();
    pthread_setcancelstate(cancel, NULL);
    starting = false;
}

/* Asks without a visible effect. The driver may be initialised in ways that the library does not
 * see. */
static bool driver_is_initialised(void)
{
    CUcontext current;
    ag_probe_begins();
    bool is = AG_HAVE(cuCtxGetCurrent) &&
              AG_REAL(cuCtxGetCurrent)(&current) != CUDA_ERROR_NOT_INITIALIZED;
    ag_probe_ends();
    return is;
}

bool ag_resolve_start(void)
{
    if (atomic_load_explicit(&ag_hooks, memory_order_acquire) == AG_HOOKS_FOUND &&
        driver_is_initialised())
        start();
    return atomic_load_explicit(&ag_hooks, memory_order_acquire) == AG_HOOKS_ON;
}
