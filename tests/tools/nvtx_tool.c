/*
 * nvtx_tool.c - a profiler's ear for NVTX: loaded by NVTX_INJECTION64_PATH, it writes what it heard
 * to the file NVTX_HEARD at the end.
 */
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get);

static char name[64];
static int marker; /* its address is the domain */
static unsigned long long pushed, popped, launches, strange;
static __thread int depth;
static pid_t hearer;

static nvtxDomainHandle_t create(const char *given)
{
    snprintf(name, sizeof(name), "%s", given);
    return (nvtxDomainHandle_t)&marker;
}

static int push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *event)
{
    char expected[64];
    snprintf(expected, sizeof(expected), "graph of %llu launches",
             (unsigned long long)event->payload.ullValue);
    if ((void *)domain != &marker || strcmp(event->message.ascii, expected) != 0 ||
        event->payloadType != NVTX_PAYLOAD_TYPE_UNSIGNED_INT64 || depth != 0)
        __atomic_fetch_add(&strange, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&pushed, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&launches, event->payload.ullValue, __ATOMIC_RELAXED);
    return depth++;
}

static int pop(nvtxDomainHandle_t domain)
{
    if ((void *)domain != &marker || depth != 1)
        __atomic_fetch_add(&strange, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&popped, 1, __ATOMIC_RELAXED);
    return --depth;
}

static void tell(void)
{
    /* In a child of fork the file is the parent's affair, and the heap's locks may be held for
     * ever. */
    if (getpid() != hearer)
        return;
    const char *path = getenv("NVTX_HEARD");
    FILE *f = path ? fopen(path, "w") : NULL;
    if (!f)
        return;
    fprintf(f, "domain=%s ranges=%llu ended=%llu launches=%llu strange=%llu\n", name, pushed,
            popped, launches, strange);
    fclose(f);
}

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get)
{
    const NvtxExportTableCallbacks *callbacks =
        (const NvtxExportTableCallbacks *)get(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable table = NULL;
    unsigned int size = 0;
    if (!callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) ||
        size <= NVTX_CBID_CORE2_DomainCreateA)
        return 0;
    *table[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)create;
    *table[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)push;
    *table[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer)pop;
    hearer = getpid();
    atexit(tell);
    return 1;
}
