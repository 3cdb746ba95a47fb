/*
 * ownkernels.c - the module with the library's own kernels, loaded once per context.
 *
 * Loading a kernel may wait for all work of the context (CUDA Programming Guide, "Lazy Loading"),
 * and holds the driver's locks meanwhile. Suppose a stream waits for a word that the program is
 * about to write. If the library loaded the kernel behind the program's back, or behind such a
 * wait, the program would wait for ever. So the builder never loads it. It is loaded when the
 * program first launches, which may load a kernel too. If a stream waits just then (waits.c), it is
 * loaded when graphs are requested later.
 */
#include "capture/graphs/ownkernels.h"
#include "capture/settings/log.h"
#include <sys/mman.h>

/* The fatbin that nvcc made of ownkernels.cu (ownimage.S). */
#ifdef AG_HAVE_OWN_IMAGE
extern const unsigned char ag_own_image[] __attribute__((visibility("hidden")));
#endif

static struct ag_lock lock;

bool ag_own_kernels_tried(const struct ag_context *context)
{
    ag_lock(&lock, AG_RANK_OWN_KERNELS);
    bool tried = context->own.tried;
    ag_unlock(&lock);
    return tried;
}

CUfunction ag_own_kernel(const struct ag_context *context, enum ag_own_kernel which)
{
    ag_lock(&lock, AG_RANK_OWN_KERNELS);
    CUfunction function = context->own.functions[which];
    ag_unlock(&lock);
    return function;
}

static const char *const names[] = {
    [AG_OWN_FILL] = "ag_fill", [AG_OWN_COPY] = "ag_copy", [AG_OWN_FENCE] = "ag_fence"};

enum { STAGING_BYTES = AG_STAGING_PLACES * AG_STAGING_BYTES };

/* Memory of the host that the copy kernel writes to. It is registered, as what the driver allocates
 * might move what the program allocates next. It stays with the struct ag_context: a thread may
 * read it while the context ends. */
static void *staging_of(struct ag_context *context)
{
    if (!context->staging_memory) {
        void *host =
            mmap(NULL, STAGING_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (host == MAP_FAILED)
            return NULL;
        madvise(host, STAGING_BYTES, MADV_DONTFORK); /* the GPU writes to this one, not to a copy */
        context->staging_memory = host;
    }
    return context->staging_memory;
}

static void register_staging(struct ag_context *context)
{
    CUdeviceptr device = 0;
    void *host = AG_HAVE(cuMemHostRegister_v2) && AG_HAVE(cuMemHostGetDevicePointer_v2)
                     ? staging_of(context)
                     : NULL;
    CUresult r =
        host ? AG_REAL(cuMemHostRegister_v2)(host, STAGING_BYTES, CU_MEMHOSTREGISTER_DEVICEMAP)
             : CUDA_ERROR_OUT_OF_MEMORY;
    if (r != CUDA_SUCCESS && r != CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)
        return;
    /* one address for host and device, as everywhere with unified addressing */
    if (AG_REAL(cuMemHostGetDevicePointer_v2)(&device, host, 0) == CUDA_SUCCESS &&
        device == (CUdeviceptr)(uintptr_t)host)
        atomic_store(&context->staging, device);
}

static void load(struct ag_context *context)
{
    struct ag_own *own = &context->own;
    CUresult r = CUDA_ERROR_NOT_FOUND;
    ag_probe_begins(); /* there may be no code for this GPU */
#ifdef AG_HAVE_OWN_IMAGE
    r = AG_REAL(cuModuleLoadData)(&own->module, ag_own_image);
#endif
    for (int i = 0; r == CUDA_SUCCESS && i < AG_OWN_KERNELS; i++) {
        r = AG_REAL(cuModuleGetFunction)(&own->functions[i], own->module, names[i]);
        if (r == CUDA_SUCCESS && AG_REAL(cuFuncLoad))
            r = AG_REAL(cuFuncLoad)(own->functions[i]); /* the module may have been loaded lazily */
    }
    if (r == CUDA_SUCCESS)
        register_staging(context);
    ag_probe_ends();
    if (r != CUDA_SUCCESS) {
        memset(own->functions, 0, sizeof(own->functions));
        ag_debug("build", "no own kernels here (error %d): memsets and copies stay such nodes",
                 (int)r);
    }
}

void ag_own_kernels_load(struct ag_context *context)
{
    ag_lock(&lock, AG_RANK_OWN_KERNELS);
    if (!context->own.tried) {
        load(context);
        context->own.tried = true;
        atomic_store(&context->own_kernels, context->own.functions[0] != NULL);
    }
    ag_unlock(&lock);
}

void ag_own_kernels_unload(struct ag_context *context)
{
    ag_lock(&lock, AG_RANK_OWN_KERNELS);
    CUmodule module = context->own.module;
    atomic_store(&context->own_kernels, false);
    atomic_store(&context->staging, 0); /* it stays registered, as the context may go on */
    context->own = (struct ag_own){.tried = false};
    ag_unlock(&lock);
    if (!module)
        return;
    /* it may wait for the context's work, so nobody may wait for the lock meanwhile */
    bool entered = ag_context_enter(context->handle);
    /* another thread may capture in another context */
    CUstreamCaptureMode mode = ag_core_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
    ag_probe_begins(); /* the context may be lost */
    AG_REAL(cuModuleUnload)(module);
    ag_probe_ends();
    ag_core_mode(mode);
    ag_context_leave(entered);
}
