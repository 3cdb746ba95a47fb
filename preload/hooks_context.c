/* hooks_context.c - contexts: calls that wait for one, end one, or change the defaults of its
 * launches. */
#include "capture/system/digest.h"
#include "driver/own.h"
#include "preload/hook.h"

/* Headers before CUDA 13 do not declare it. */
AG_HOOK cuCtxSynchronize_v2(CUcontext ctx);

AG_BARRIER_HOOK(cuCtxSynchronize, (void), ())

AG_HOOK cuCtxSynchronize_v2(CUcontext ctx)
{
    CUresult pending =
        ag_hooked() ? ag_core_barrier_for(ctx, AG_SYM_cuCtxSynchronize_v2) : CUDA_SUCCESS;
    return ag_first_error(AG_CALL(cuCtxSynchronize_v2, ctx), pending);
}

#define AG_CONTEXT_ENDS_HOOK(name, ended)                                                          \
    AG_HOOK name(CUcontext ctx)                                                                    \
    {                                                                                              \
        struct ag_context *known =                                                                 \
            ag_hooked() ? ag_core_context_may_end(ctx, AG_SYM_##name) : NULL;                      \
        CUresult r = AG_CALL(name, ctx);                                                           \
        CUresult pending = ag_core_context_ended(known, r == CUDA_SUCCESS && (ended));             \
        return ag_first_error(r, pending);                                                         \
    }

AG_CONTEXT_ENDS_HOOK(cuCtxDestroy, true)
AG_CONTEXT_ENDS_HOOK(cuCtxDestroy_v2, true)
AG_CONTEXT_ENDS_HOOK(cuCtxDetach, ag_core_context_detached(known))

AG_HOOK cuCtxAttach(CUcontext *pctx, unsigned int flags)
{
    bool hooked = ag_hooked();
    if (hooked)
        ag_core_barrier_quiet(AG_SYM_cuCtxAttach);
    CUresult r = AG_CALL(cuCtxAttach, pctx, flags);
    if (hooked && r == CUDA_SUCCESS)
        ag_core_context_attached(*pctx);
    return r;
}

AG_HOOK cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
    bool locked = ag_hooked() && ag_core_primary_begins(dev, AG_SYM_cuDevicePrimaryCtxRetain);
    CUresult r = AG_CALL(cuDevicePrimaryCtxRetain, pctx, dev);
    ag_core_primary_retained(dev, locked, r == CUDA_SUCCESS);
    return r;
}

#define AG_PRIMARY_ENDS_HOOK(name, begins, ends)                                                   \
    AG_HOOK name(CUdevice device)                                                                  \
    {                                                                                              \
        if (!ag_hooked())                                                                          \
            return AG_CALL(name, device);                                                          \
        bool locked = ag_core_primary_begins(device, AG_SYM_##name);                               \
        struct ag_context *known = begins;                                                         \
        CUresult r = AG_CALL(name, device);                                                        \
        return ag_first_error(r, ends(known, device, locked, r == CUDA_SUCCESS));                  \
    }

#define AG_PRIMARY_RELEASE_HOOK(name)                                                              \
    AG_PRIMARY_ENDS_HOOK(name, ag_core_primary_releases(device, locked, AG_SYM_##name),            \
                         ag_core_primary_released)
AG_PRIMARY_RELEASE_HOOK(cuDevicePrimaryCtxRelease)
AG_PRIMARY_RELEASE_HOOK(cuDevicePrimaryCtxRelease_v2)

#define AG_PRIMARY_RESET_HOOK(name)                                                                \
    AG_PRIMARY_ENDS_HOOK(name, ag_core_primary_resets(device, AG_SYM_##name), ag_core_primary_reset)
AG_PRIMARY_RESET_HOOK(cuDevicePrimaryCtxReset)
AG_PRIMARY_RESET_HOOK(cuDevicePrimaryCtxReset_v2)

AG_HOOK cuGreenCtxDestroy(CUgreenCtx hCtx)
{
    bool hooked = ag_hooked();
    CUresult pending = hooked ? ag_core_barrier(AG_SYM_cuGreenCtxDestroy) : CUDA_SUCCESS;
    uint64_t latest = hooked ? ag_core_green_context_ends() : 0;
    CUresult r = AG_CALL(cuGreenCtxDestroy, hCtx);
    if (hooked)
        ag_core_green_context_ended(hCtx, latest, r == CUDA_SUCCESS);
    return ag_first_error(r, pending);
}

/*
 * An instantiated graph keeps the limits and configurations of its time. Frameworks set the value
 * that is already set, again and again; that changes nothing. The driver may make another value of
 * one: it rounds limits, and keeps to the size of a GPU's banks of shared memory. So what it made
 * of the last one is remembered for each setting, as a hash.
 */
enum { CACHE_CONFIG = 62, SHARED_MEM_CONFIG, SETTINGS }; /* in front of these, limits */
static _Atomic uint64_t last_made[SETTINGS];

/* `made` is what the current context has now. */
static uint64_t hash_of(unsigned int setting, size_t wanted, size_t made)
{
    CUcontext ctx = NULL;
    (void)AG_CALL(cuCtxGetCurrent, &ctx);
    uint64_t hash = ag_digest_word(ag_digest_word(setting, (uintptr_t)ctx), wanted);
    return ag_digest_word(hash, made);
}

/* Nothing is remembered of calls beside each other: `mine` is of this call, and was put in place of
 * the last hash before it. */
static void remember(_Atomic uint64_t *last, uint64_t mine, uint64_t hash)
{
    if (!atomic_compare_exchange_strong(last, &mine, hash))
        atomic_store(last, 0);
}

#define AG_CONTEXT_CHANGES_HOOK(name, getter, setting, params, args, type, asked, wanted)          \
    AG_HOOK name params                                                                            \
    {                                                                                              \
        type made;                                                                                 \
        _Atomic uint64_t *last = &last_made[(unsigned int)(setting) % SETTINGS];                   \
        ag_probe_begins(); /* the driver may not know the limit */                                 \
        bool hooked = ag_hooked(),                                                                 \
             knows = hooked && AG_CALL(getter, AG_UNWRAP asked) == CUDA_SUCCESS;                   \
        ag_probe_ends();                                                                           \
        bool stays = knows && (made == (wanted) ||                                                 \
                               atomic_load(last) == hash_of(setting, (size_t)(wanted), made));     \
        if (!hooked || stays)                                                                      \
            return AG_CALL(name, AG_UNWRAP args);                                                  \
        ag_core_invalidate_functions(AG_SYM_##name);                                               \
        atomic_store(last, (uintptr_t)&made);                                                      \
        CUresult result = AG_CALL(name, AG_UNWRAP args);                                           \
        if (result == CUDA_SUCCESS)                                                                \
            ag_core_invalidate_functions_again();                                                  \
        knows =                                                                                    \
            knows && result == CUDA_SUCCESS && AG_CALL(getter, AG_UNWRAP asked) == CUDA_SUCCESS;   \
        remember(last, (uintptr_t)&made, knows ? hash_of(setting, (size_t)(wanted), made) : 0);    \
        return result;                                                                             \
    }

AG_CONTEXT_CHANGES_HOOK(cuCtxSetLimit, cuCtxGetLimit, limit, (CUlimit limit, size_t value),
                        (limit, value), size_t, (&made, limit), value)
AG_CONTEXT_CHANGES_HOOK(cuCtxSetCacheConfig, cuCtxGetCacheConfig, CACHE_CONFIG,
                        (CUfunc_cache config), (config), CUfunc_cache, (&made), config)
AG_CONTEXT_CHANGES_HOOK(cuCtxSetSharedMemConfig, cuCtxGetSharedMemConfig, SHARED_MEM_CONFIG,
                        (CUsharedconfig config), (config), CUsharedconfig, (&made), config)
