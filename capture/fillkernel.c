/* fillkernel.c - the fill kernel's module, loaded once per context. */
#include "capture/lock.h"
#include "capture/log.h"
#include "capture/op.h"
#include <stdlib.h>

/* The fatbin that nvcc made of fill.cu (fillimage.S). */
#ifdef AG_HAVE_FILL_IMAGE
extern const unsigned char ag_fill_image[] __attribute__((visibility("hidden")));
#endif

struct loaded {
    CUcontext ctx;
    CUmodule module;
    CUfunction function; /* NULL: it could not be loaded, and is not tried again */
    struct loaded *next;
};
static struct loaded *all; /* used by one builder at a time */

CUfunction ag_fill_kernel(CUcontext ctx)
{
    struct loaded *l;
    for (l = all; l; l = l->next)
        if (l->ctx == ctx)
            return l->function;
    l = calloc(1, sizeof(*l));
    if (!l)
        return NULL;
    l->ctx = ctx;
    l->next = all;
    all = l;
    CUresult r = CUDA_ERROR_NOT_FOUND;
#ifdef AG_HAVE_FILL_IMAGE
    r = AG_REAL(cuModuleLoadData)(&l->module, ag_fill_image);
#endif
    if (r == CUDA_SUCCESS)
        r = AG_REAL(cuModuleGetFunction)(&l->function, l->module, "ag_fill");
    if (r != CUDA_SUCCESS) {
        l->function = NULL;
        ag_info("build", "no fill kernel here (error %d): memsets stay memset nodes", (int)r);
    }
    return l->function;
}

void ag_fill_kernel_forget(CUcontext ctx, bool unload)
{
    for (struct loaded **link = &all; *link;) {
        struct loaded *l = *link;
        if (ctx && l->ctx != ctx) {
            link = &l->next;
            continue;
        }
        if (unload && l->module)
            AG_REAL(cuModuleUnload)(l->module);
        *link = l->next;
        free(l);
    }
}
