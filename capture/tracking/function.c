/*
 * function.c - what the library knows about launched functions: their parameter layout, and
 * whether they wait for peers.
 */
#include "capture/tracking/function.h"
#include "capture/capture.h"
#include "capture/tracking/dormant.h"
#include "driver/own.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARAMS_AT_ONCE = 8 };

typedef CUresult (*param_info_fn)(void *func, size_t index, size_t *offset, size_t *size);

/* cudart 13 passes a CUkernel where the API declares a CUfunction. Each getter returns
 * CUDA_ERROR_INVALID_HANDLE for the other kind. */
static void read_layout(struct ag_function *f)
{
    size_t offset, size;
    if (!AG_HAVE(cuFuncGetParamInfo))
        return;
    CUresult r = AG_REAL(cuFuncGetParamInfo)(f->func, 0, &offset, &size);
    if (r == CUDA_ERROR_INVALID_HANDLE && AG_HAVE(cuKernelGetParamInfo)) {
        f->is_kernel = true;
        r = AG_REAL(cuKernelGetParamInfo)((CUkernel)f->func, 0, &offset, &size);
    }
    if (r != CUDA_SUCCESS && r != CUDA_ERROR_INVALID_VALUE)
        return; /* INVALID_VALUE: the kernel has no parameters */
    enum ag_sym sym = f->is_kernel ? AG_SYM_cuKernelGetParamInfo : AG_SYM_cuFuncGetParamInfo;
    param_info_fn info = (param_info_fn)ag_real[sym];
    struct ag_param *params = NULL;
    uint32_t n = 0, recorded = 0;
    bool all_words = true;
    while ((r = info(f->func, n, &offset, &size)) == CUDA_SUCCESS && n < AG_MOST_PARAMS) {
        if (n % PARAMS_AT_ONCE == 0) {
            struct ag_param *grown = realloc(params, (n + PARAMS_AT_ONCE) * sizeof(*params));
            if (!grown)
                return;
            f->layout.params = params = grown;
        }
        params[n++] = (struct ag_param){(uint32_t)offset, (uint32_t)size, recorded};
        recorded += (uint32_t)size;
        all_words = all_words && size == 8;
    }
    if (r != CUDA_ERROR_INVALID_VALUE)
        return; /* the list goes on: every launch would miss the rest of its parameters */
    f->layout = (struct ag_layout){params, (recorded + 7) & ~7u, (uint16_t)n, all_words, false};
    f->usable = true;
}

/* Whether kernels of the module can launch kernels: the linker put the device runtime
 * (libcudadevrt) into it, which defines this word and is left out of modules that do not use it. No
 * module for sm_90 of cuBLAS, cuDNN's operations, cuFFT, cuSOLVER, cuSPARSE, cuRAND and NCCL of
 * CUDA 13.0 has it. In a graph, what follows such a kernel does not see all that its children did
 * (GPU check "children"). */
static bool has_device_runtime(const struct ag_function *f)
{
    static const char word[] = "__CNPRT_VERSION_NUMBER__";
    CUdeviceptr address;
    size_t size;
    CUlibrary library;
    CUmodule module;
    CUresult r;
    bool asks_module = AG_HAVE(cuFuncGetModule) && AG_HAVE(cuModuleGetGlobal_v2);
    bool asks_library = AG_HAVE(cuKernelGetLibrary) && AG_HAVE(cuLibraryGetGlobal);
    if (f->is_kernel ? !asks_library : !asks_module)
        return false;
    bool entered = ag_context_enter(f->ctx); /* the kernel is about to be launched there */
    if (f->is_kernel)
        r = AG_REAL(cuKernelGetLibrary)(&library, (CUkernel)f->func);
    else
        r = AG_REAL(cuFuncGetModule)(&module, f->func);
    if (r == CUDA_SUCCESS)
        r = f->is_kernel ? AG_REAL(cuLibraryGetGlobal)(&address, &size, library, word)
                         : AG_REAL(cuModuleGetGlobal_v2)(&address, &size, module, word);
    ag_context_leave(entered);
    return r == CUDA_SUCCESS;
}

/* Whether the kernel was compiled for clusters, which must divide each grid. */
static bool has_clusters(const struct ag_function *f)
{
    int width = 0;
    CUdevice device;
    CUresult r = CUDA_ERROR_NOT_SUPPORTED;
    bool entered = ag_context_enter(f->ctx);
    if (!f->is_kernel && AG_HAVE(cuFuncGetAttribute))
        r = AG_REAL(cuFuncGetAttribute)(&width, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, f->func);
    else if (f->is_kernel && AG_HAVE(cuKernelGetAttribute) &&
             AG_REAL(cuCtxGetDevice)(&device) == CUDA_SUCCESS)
        r = AG_REAL(cuKernelGetAttribute)(&width, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH,
                                          (CUkernel)f->func, device);
    ag_context_leave(entered);
    return r != CUDA_SUCCESS || width;
}

const char *ag_function_name(CUfunction func)
{
    const char *name = NULL;
    CUresult r = CUDA_ERROR_NOT_SUPPORTED;
    ag_probe_begins();
    if (AG_HAVE(cuFuncGetName))
        r = AG_REAL(cuFuncGetName)(&name, func);
    if (r == CUDA_ERROR_INVALID_HANDLE && AG_HAVE(cuKernelGetName))
        r = AG_REAL(cuKernelGetName)(&name, (CUkernel)func);
    ag_probe_ends();
    return r == CUDA_SUCCESS ? name : NULL;
}

/* NVSHMEM's own collectives are templates of plain types, and their names do not have its name in
 * them (barrier_on_stream_kernel_threadgroup, rdxn_on_stream_kernel). */
bool ag_name_is_of_peers(const char *name)
{
    return name &&
           (strstr(name, "nccl") || strstr(name, "nvshmem") || strstr(name, "_on_stream_kernel"));
}

_Atomic bool ag_peers_are_known;

/* The program cannot launch the kernel before this call. The new generation voids what threads
 * remember of dormant streams, so each thread's next launch is checked. */
void ag_core_kernel_found(const char *name)
{
    if (ag_name_is_of_peers(name) && !atomic_exchange(&ag_peers_are_known, true))
        atomic_fetch_add(&ag_stream_generation, 1);
}

void ag_core_kernels_found(const CUkernel *kernels, unsigned int n)
{
    for (unsigned int i = 0; i < n && !atomic_load(&ag_peers_are_known); i++)
        ag_core_kernel_found(ag_function_name((CUfunction)kernels[i]));
}

void ag_core_functions_found(const CUfunction *functions, unsigned int n)
{
    for (unsigned int i = 0; i < n && !atomic_load(&ag_peers_are_known); i++)
        ag_core_kernel_found(ag_function_name(functions[i]));
}

/* A kernel without a name is identified by its handle. */
static struct ag_kernel *kernel_get(struct ag_function_table *t, CUfunction func, bool create)
{
    struct ag_kernel *k = NULL;
    char by_handle[32];
    const char *name = ag_function_name(func);
    if (!name) {
        snprintf(by_handle, sizeof(by_handle), "%p", (void *)func);
        name = by_handle;
    }
    size_t length = strlen(name);
    HASH_FIND(handle, t->kernels, name, length, k);
    if (k || !create)
        return k;
    k = calloc(1, sizeof(*k) + length + 1);
    if (!k)
        return NULL;
    memcpy(k->name, name, length + 1);
    HASH_ADD(handle, t->kernels, name[0], length, k);
    if (!k->handle.tbl) {
        free(k);
        return NULL;
    }
    return k;
}

/* The stream's context. It is not current if a thread launches into a stream of another context. */
static CUcontext context_of(CUstream stream)
{
    CUcontext ctx = NULL;
    if (!stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD ||
        AG_REAL(cuStreamGetCtx)(stream, &ctx) != CUDA_SUCCESS)
        AG_REAL(cuCtxGetCurrent)(&ctx);
    return ctx;
}

static void settings_free(struct ag_setting *s)
{
    for (struct ag_setting *next; s; s = next) {
        next = s->next;
        free(s);
    }
}

struct ag_function *ag_function_get(struct ag_function_table *t, CUfunction func, CUstream stream,
                                    bool create)
{
    struct ag_function *f = NULL;
    HASH_FIND(handle, t->functions, &func, sizeof(func), f);
    if (f || !create)
        return f;
    f = calloc(1, sizeof(*f));
    if (!f)
        return NULL;
    f->func = func;
    ag_probe_begins();
    f->ctx = context_of(stream);
    read_layout(f);
    f->may_launch = has_device_runtime(f);
    f->clusters = has_clusters(f);
    ag_probe_ends();
    f->immediate = ag_name_is_of_peers(ag_function_name(func));
    f->kernel = kernel_get(t, func, true);
    if (f->kernel)
        HASH_ADD(handle, t->functions, func, sizeof(func), f);
    if (!f->kernel || !f->handle.tbl) {
        free((void *)(uintptr_t)f->layout.params);
        free(f);
        return NULL;
    }
    unsigned int kind = f->is_kernel ? AG_HANDLE_KERNEL : AG_HANDLE_FUNCTION;
    if (f->kernel->kinds && !(f->kernel->kinds & kind)) { /* from now on values may overlap */
        settings_free(f->kernel->settings);
        f->kernel->settings = NULL;
    }
    f->kernel->kinds |= kind;
    f->kernel->functions++;
    return f;
}

struct ag_kernel *ag_kernel_find(struct ag_function_table *t, CUfunction func)
{
    struct ag_function *f = ag_function_get(t, func, NULL, false);
    return f ? f->kernel : t->kernels ? kernel_get(t, func, false) : NULL;
}

static void function_free(struct ag_function *f)
{
    f->kernel->functions--;
    settings_free(f->limits);
    free((void *)(uintptr_t)f->layout.params);
    free(f);
}

const void *ag_function_owner(const struct ag_function *f)
{
    void *owner = NULL;
    CUresult r = CUDA_ERROR_NOT_SUPPORTED;
    ag_probe_begins();
    if (f->is_kernel && AG_HAVE(cuKernelGetLibrary))
        r = AG_REAL(cuKernelGetLibrary)((CUlibrary *)&owner, (CUkernel)f->func);
    else if (!f->is_kernel && AG_HAVE(cuFuncGetModule))
        r = AG_REAL(cuFuncGetModule)((CUmodule *)&owner, f->func);
    ag_probe_ends();
    return r == CUDA_SUCCESS ? owner : NULL;
}

static bool belongs_to(const struct ag_function *f, enum ag_owner kind, const void *of)
{
    if (kind == AG_OF_CONTEXT) /* a CUkernel outlives its context */
        return !f->is_kernel && (f->ctx == of || !f->taken);
    if (f->is_kernel && kind == AG_OF_MODULE)
        return false; /* the program cannot unload a library's module */
    const void *owner = f->is_kernel || kind == AG_OF_MODULE ? ag_function_owner(f) : NULL;
    return !owner || owner == of;
}

bool ag_functions_invalidate(struct ag_function_table *t, enum ag_owner kind, void *owner)
{
    bool any = false;
    for (struct ag_function *f = t->functions, *following; f; f = following) {
        following = f->handle.next;
        if (!belongs_to(f, kind, owner))
            continue;
        /* uthash: NOLINTNEXTLINE(clang-analyzer-core.NullDereference,clang-analyzer-unix.Malloc) */
        HASH_DELETE(handle, t->functions, f);
        if (!f->signatures) { /* none of its launches could be recorded: nothing points to it */
            function_free(f);
            continue;
        }
        any = true;
        f->invalid = true;
        f->next_invalid = t->invalid;
        t->invalid = f;
    }
    /* Kernels may be loaded again, also under the handles of those that were never launched. They
     * then have the default settings. */
    for (struct ag_kernel *kernel = t->kernels, *next; kernel; kernel = next) {
        next = kernel->handle.next;
        settings_free(kernel->settings);
        kernel->settings = NULL;
        if (kernel->functions)
            continue;
        /* uthash: NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
        HASH_DELETE(handle, t->kernels, kernel);
        free(kernel);
    }
    return any;
}

void ag_functions_destroy(struct ag_function_table *t)
{
    struct ag_function *f, *following;
    HASH_ITER(handle, t->functions, f, following)
    {
        /* uthash: NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
        HASH_DELETE(handle, t->functions, f);
        function_free(f);
    }
    for (struct ag_function *next; t->invalid; t->invalid = next) {
        next = t->invalid->next_invalid;
        function_free(t->invalid);
    }
    struct ag_kernel *kernel, *other;
    HASH_ITER(handle, t->kernels, kernel, other)
    {
        /* uthash: NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
        HASH_DELETE(handle, t->kernels, kernel);
        settings_free(kernel->settings);
        free(kernel);
    }
}
