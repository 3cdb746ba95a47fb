/*
 * getter.c - cuGetProcAddress in both ABIs, and cuGetExportTable.
 */
#include <string.h>

#include "capture/settings/options.h"
#include "preload/attached.h"
#include "preload/exporttable.h"
#include "preload/hook.h"
#include "preload/substitute.h"

/* Whether the driver has written something to a place that was given to it. The place is the
 * hook's own, and holds its own address until then. Another thread may look at the program's place
 * at any time, and must not find a function of the driver there. */
static bool is_written(void *const *place)
{
    return *place != (const void *)place;
}

/* Only results that succeeded and are not NULL are replaced: `symbol` may be "", `pfn` may be
 * NULL. */
static CUresult answer(CUresult result, const char *symbol, void *const *found, void **pfn)
{
    if (!pfn || !is_written(found))
        return result;
    bool replaced = result == CUDA_SUCCESS && *found && ag_hands_out();
    *pfn = replaced ? ag_substitute(*found, symbol) : *found;
    return result;
}

AG_HOOK cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
                            CUdriverProcAddressQueryResult *symbolStatus)
{
    void *found = &found;
    CUresult result =
        AG_CALL(cuGetProcAddress_v2, symbol, pfn ? &found : NULL, cudaVersion, flags, symbolStatus);
    return answer(result, symbol, &found, pfn);
}

AG_HOOK cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
    void *found = &found;
    CUresult result = AG_CALL(cuGetProcAddress, symbol, pfn ? &found : NULL, cudaVersion, flags);
    return answer(result, symbol, &found, pfn);
}

/* The tables that cudart, cuBLAS, cuBLASLt, cuDNN and NVML ask for; the last is one that CuPy's
 * process asks for. They launched nothing in tests: tests/gpu/run --kernels finds every kernel
 * that ran among the recorded ones. */
static const unsigned char known_tables[][16] = {
    {0x26, 0x3e, 0x88, 0x60, 0x7c, 0xd2, 0x61, 0x43, 0x92, 0xf6, 0xbb, 0xd5, 0x00, 0x6d, 0xfa,
     0x7e},
    {0x42, 0xd8, 0x5a, 0x81, 0x23, 0xf6, 0xcb, 0x47, 0x82, 0x98, 0xf6, 0xe7, 0x8a, 0x3a, 0xec,
     0xdc},
    {0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d,
     0xf9},
    {0xa0, 0x94, 0x79, 0x8c, 0x2e, 0x74, 0x2e, 0x74, 0x93, 0xf2, 0x08, 0x00, 0x20, 0x0c, 0x0a,
     0x66},
    {0xc6, 0x93, 0x33, 0x6e, 0x11, 0x21, 0xdf, 0x11, 0xa8, 0xc3, 0x68, 0xf3, 0x55, 0xd8, 0x95,
     0x93},
    {0xd4, 0x08, 0x20, 0x55, 0xbd, 0xe6, 0x70, 0x4b, 0x8d, 0x34, 0xba, 0x12, 0x3c, 0x66, 0xe1,
     0xf2},
    {0xf8, 0xcf, 0xf9, 0x51, 0x21, 0x46, 0x8b, 0x4e, 0xb9, 0xe2, 0xfb, 0x46, 0x9e, 0x7c, 0x0d,
     0xd9},
    {0x21, 0x31, 0x8c, 0x60, 0x97, 0x14, 0x32, 0x48, 0x8c, 0xa6, 0x41, 0xff, 0x73, 0x24, 0xc8,
     0xf2},
    {0x69, 0xa2, 0x8e, 0x9f, 0x24, 0x49, 0x8b, 0x47, 0xb0, 0x30, 0xc5, 0xda, 0x33, 0x0e, 0xa4,
     0xe9},
    {0xda, 0x91, 0x51, 0xd3, 0x3a, 0xe6, 0xcc, 0x41, 0xa5, 0xc0, 0x4f, 0x26, 0xd5, 0x33, 0xe3,
     0x28},
};

static bool is_known(const CUuuid *table)
{
    for (size_t i = 0; i < sizeof(known_tables) / sizeof(known_tables[0]); i++)
        if (memcmp(table->bytes, known_tables[i], sizeof(table->bytes)) == 0)
            return true;
    return false;
}

/* The program gets a known table unchanged: cudart hashes addresses in it. A tool also gets its
 * tables unchanged, and from then on sees launches as they are written. */
static const void *table_for(const void *table, const CUuuid *id, const void *caller)
{
    const unsigned char *bytes = (const unsigned char *)id;
    if (is_known(id))
        return table;
    if (!ag_attached_later(caller, bytes))
        return ag_export_table(table, bytes, caller);
    if (!ag_options.force)
        ag_core_observe_only("a profiler or checker has asked for an export table");
    return table;
}

AG_HOOK cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId)
{
    void *found = &found;
    const void *caller = __builtin_return_address(0);
    CUresult result =
        AG_CALL(cuGetExportTable, ppExportTable ? (const void **)&found : NULL, pExportTableId);
    if (ppExportTable && is_written(&found))
        *ppExportTable = result == CUDA_SUCCESS && ag_hands_out()
                             ? table_for(found, pExportTableId, caller)
                             : found;
    return result;
}
