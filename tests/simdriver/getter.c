/* getter.c - cuGetProcAddress in both ABIs, export tables, error names. */
#include "sim.h"
#include <ctype.h>
#include <string.h>

int sim_symbol_find(const char *name)
{
    int low = 0, high = SIM_SORTED_LAST;
    while (low <= high) {
        int middle = (low + high) / 2;
        int order = strcmp(name, sim_symbol_table[middle].name);
        if (order == 0)
            return middle;
        if (order < 0)
            high = middle - 1;
        else
            low = middle + 1;
    }
    for (int i = SIM_SORTED_COUNT; i < SIM_SYMBOL_COUNT; i++)
        if (!strcmp(name, sim_symbol_table[i].name))
            return i;
    return -1;
}

/* cuda.h gave the plain name a new meaning without a new suffix. */
static const struct {
    const char *base;
    int version;
    enum sim_symbol symbol;
} renamed[] = {{"cuGraphInstantiate", 12000, SIM_cuGraphInstantiateWithFlags}};

static CUresult look_up(const char *name, void **pfn, int version, cuuint64_t flags,
                        CUdriverProcAddressQueryResult *status)
{
    if (!name || !pfn || version < 0 || flags > CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
        return CUDA_ERROR_INVALID_VALUE;
    *pfn = NULL;
    bool known = false;
    int limit = version < sim_settings.version ? version : sim_settings.version;
    int best = -1, best_version = -1;
    bool per_thread = flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    /* With the flag a _ptsz twin of the same age wins over the plain symbol. */
    for (int i = 0; i < SIM_SYMBOL_COUNT; i++) {
        const struct sim_symbol_info *s = &sim_symbol_table[i];
        if (strcmp(s->base, name))
            continue;
        if (s->version <= sim_settings.version)
            known = true;
        if (s->version > limit || (s->ptsz && !per_thread))
            continue;
        /* Twins of old entry points are younger (7000) than the entry points; the twin belongs to
         * the newest ABI of its time and so wins over anything older. */
        if (s->version > best_version || (s->version == best_version && s->ptsz)) {
            best = i;
            best_version = s->version;
        }
    }
    for (size_t i = 0; i < sizeof renamed / sizeof *renamed; i++)
        if (!strcmp(renamed[i].base, name) && renamed[i].version <= limit)
            best = (int)renamed[i].symbol;
    if (best < 0) {
        if (status)
            *status = known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                            : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
        return CUDA_ERROR_NOT_FOUND;
    }
    *pfn = (void *)sim_symbol_table[best].address;
    if (status)
        *status = CU_GET_PROC_ADDRESS_SUCCESS;
    return CUDA_SUCCESS;
}

SIM_API(cuGetProcAddress, (const char *symbol, void **pfn, int version, cuuint64_t flags),
        (symbol, pfn, version, flags))
{
    return look_up(symbol, pfn, version, flags, NULL);
}

SIM_API(cuGetProcAddress_v2,
        (const char *symbol, void **pfn, int version, cuuint64_t flags,
         CUdriverProcAddressQueryResult *status),
        (symbol, pfn, version, flags, status))
{
    return look_up(symbol, pfn, version, flags, status);
}

/* ---- export tables: opaque, their first word is their size in bytes
 * ------------------------------ */

struct table {
    char uuid[33];
    size_t words[8];
};
static struct table tables[] = {
    {"263e88607cd2614392f6bbd5006dfa7e", {64}}, {"42d85a8123f6cb478298f6e78a3aecdc", {64}},
    {"6bd5fb6c5bf4e74a8987d93912fd9df9", {64}}, {"a094798c2e742e7493f20800200c0a66", {64}},
    {"c693336e1121df11a8c368f355d89593", {64}}, {"d4082055bde6704b8d34ba123c66e1f2", {64}},
    {"f8cff95121468b4eb9e2fb469e7c0dd9", {64}}, {"21318c60971432488ca641ff7324c8f2", {64}},
    {"69a28e9f24498b47b030c5da330ea4e9", {64}},
};
static struct table configured = {"", {64}};

static bool listed_in_environment(const char *uuid)
{
    char digits[33];
    size_t n = 0;
    for (const char *p = sim_settings.tables; p; p++) {
        if (isxdigit((unsigned char)*p) && n < 32) {
            digits[n++] = (char)tolower((unsigned char)*p);
        } else if (*p == ',' || *p == '\0') {
            digits[n] = '\0';
            if (!strcmp(digits, uuid))
                return true;
            if (!*p)
                return false;
            n = 0;
        }
    }
    return false;
}

SIM_API(cuGetExportTable, (const void **table, const CUuuid *id), (table, id))
{
    if (!table || !id)
        return CUDA_ERROR_INVALID_VALUE;
    char uuid[33];
    for (int i = 0; i < 16; i++) {
        uuid[2 * i] = "0123456789abcdef"[(unsigned char)id->bytes[i] >> 4];
        uuid[2 * i + 1] = "0123456789abcdef"[id->bytes[i] & 15];
    }
    uuid[32] = '\0';
    *table = NULL;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        if (!strcmp(tables[i].uuid, uuid)) {
            *table = tables[i].words;
            return CUDA_SUCCESS;
        }
    if (!listed_in_environment(uuid))
        return CUDA_ERROR_NOT_FOUND;
    *table = configured.words;
    return CUDA_SUCCESS;
}

/* ---- error names
 * ---------------------------------------------------------------------------------- */

static const struct {
    CUresult code;
    const char *name;
    const char *text;
} errors[] = {
#include "errors.def"
};

const char *sim_error_name(CUresult error)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == error)
            return errors[i].name;
    return NULL;
}

SIM_API(cuGetErrorName, (CUresult error, const char **out), (error, out))
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = sim_error_name(error);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM_API(cuGetErrorString, (CUresult error, const char **out), (error, out))
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = NULL;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == error) {
            *out = errors[i].text;
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_INVALID_VALUE;
}
