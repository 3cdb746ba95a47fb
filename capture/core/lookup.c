/*
 * lookup.c - look-ups of variables of libraries and modules. The first one in a context may load
 * code or data there, so what is held back goes first. But cudart makes one in each
 * cudaGetSymbolAddress and cudaMemcpyToSymbolAsync: one that was answered before loads nothing, and
 * tears no sequence.
 */
#include "capture/core/lookup.h"
#include "capture/capture.h"
#include "capture/system/digest.h"
#include "driver/own.h"

enum { PLACES = 256 };
static _Atomic uint64_t known[PLACES];
static _Atomic uint64_t generation; /* of what is loaded */

void ag_lookups_forget(void)
{
    atomic_fetch_add(&generation, 1);
}

uint64_t ag_core_lookup(const void *owner, const char *name)
{
    const void *context = ag_context_current();
    if (!context || !name)
        return 0;
    uint64_t hash = ag_digest_word(atomic_load(&generation), (uintptr_t)owner);
    hash = ag_digest_word(hash, (uintptr_t)context);
    return ag_digest(hash, name, strlen(name)) | 1;
}

bool ag_core_lookup_loads(uint64_t lookup)
{
    return !lookup || atomic_load(&known[(lookup >> 1) % PLACES]) != lookup;
}

void ag_core_looked_up(uint64_t lookup, CUresult result)
{
    if (lookup && (result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_FOUND))
        atomic_store(&known[(lookup >> 1) % PLACES], lookup);
}
