/*
 * graphics.c - buffers of a graphics API, which a stream borrows and gives back.
 *
 * cuSimGraphicsRegister stands for the registering calls of the real APIs. While a resource is not
 * mapped its memory is nobody's: a kernel that touches it is reported. What the API does with the
 * buffer is a function of the program, which runs in stream order when the buffer is given back.
 */
#include "sim.h"

struct sim_resource {
    struct sim_object object;
    struct sim_context *ctx;
    uint64_t id;
    uintptr_t base;
    size_t bytes;
    cuSimRenderFn render;
    void *user;
    bool mapped;
    struct sim_stream *given_back_on;
    uint64_t given_back_seq;
};

SIM_EXPORT int cuSimGraphicsRegister(void **out, size_t bytes, cuSimRenderFn render, void *user)
{
    static _Atomic uint64_t last_id;
    struct sim_context *ctx;
    uintptr_t base;
    if (sim_current(&ctx) != CUDA_SUCCESS ||
        sim_mem_new(ctx, SIM_MEM_DEVICE, bytes, 0, &base) != CUDA_SUCCESS)
        return -1;
    sim_mem_give_to(base, SIM_OWNER_RESOURCE);
    struct sim_resource *r = sim_object_new(SIM_RESOURCE, sizeof *r);
    if (!r)
        return -1;
    sim_mem_hide(base, true);
    r->ctx = ctx;
    r->id = atomic_fetch_add(&last_id, 1) + 1;
    r->base = base;
    r->bytes = bytes;
    r->render = render;
    r->user = user;
    *out = r;
    return 0;
}

uint64_t sim_resource_id(const struct sim_resource *r)
{
    return r->id;
}

void sim_resource_render(struct sim_resource *r)
{
    sim_mem_hide(r->base, true);
    if (r->render)
        r->render((void *)r->base, r->bytes, r->user);
}

/* Whether all of them are, or none is, mapped as it has to be. */
static CUresult check(unsigned int count, CUgraphicsResource *resources, bool mapped)
{
    if (!count || !resources)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned int i = 0; i < count; i++) {
        if (!sim_object_is(resources[i], SIM_RESOURCE))
            return CUDA_ERROR_INVALID_HANDLE;
        if (((struct sim_resource *)resources[i])->mapped != mapped)
            return mapped ? CUDA_ERROR_NOT_MAPPED : CUDA_ERROR_ALREADY_MAPPED;
    }
    return CUDA_SUCCESS;
}

/* Waits until the graphics API has done its work: from then on the pointer is good. */
SIM_API2(cuGraphicsMapResources, cuGraphicsMapResources_ptsz,
         (unsigned int count, CUgraphicsResource *resources, CUstream stream),
         (count, resources, stream))
{
    struct sim_stream *s;
    CUresult result = sim_stream_find(stream, ptsz, &s);
    if (result == CUDA_SUCCESS)
        result = check(count, resources, false);
    for (unsigned int i = 0; i < count && result == CUDA_SUCCESS; i++) {
        struct sim_resource *r = (struct sim_resource *)resources[i];
        if (r->given_back_on)
            sim_stream_wait(r->given_back_on, r->given_back_seq);
        sim_mem_hide(r->base, false);
        r->mapped = true;
        struct sim_op op = {.kind = SIM_OP_MAP, .resource = r};
        result = sim_submit(s, &op, NULL);
    }
    return result;
}

SIM_API2(cuGraphicsUnmapResources, cuGraphicsUnmapResources_ptsz,
         (unsigned int count, CUgraphicsResource *resources, CUstream stream),
         (count, resources, stream))
{
    struct sim_stream *s;
    CUresult result = sim_stream_find(stream, ptsz, &s);
    if (result == CUDA_SUCCESS)
        result = check(count, resources, true);
    for (unsigned int i = 0; i < count && result == CUDA_SUCCESS; i++) {
        struct sim_resource *r = (struct sim_resource *)resources[i];
        struct sim_op op = {.kind = SIM_OP_UNMAP, .resource = r};
        result = sim_submit(s, &op, &r->given_back_seq);
        r->given_back_on = s;
        r->mapped = false;
    }
    return result;
}

SIM_API(cuGraphicsResourceGetMappedPointer_v2,
        (CUdeviceptr * out, size_t *bytes, CUgraphicsResource handle), (out, bytes, handle))
{
    struct sim_resource *r = (struct sim_resource *)handle;
    if (!sim_object_is(r, SIM_RESOURCE))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!r->mapped)
        return CUDA_ERROR_NOT_MAPPED;
    if (out)
        *out = r->base;
    if (bytes)
        *bytes = r->bytes;
    return CUDA_SUCCESS;
}

SIM_API(cuGraphicsResourceSetMapFlags_v2, (CUgraphicsResource handle, unsigned int flags),
        (handle, flags))
{
    struct sim_resource *r = (struct sim_resource *)handle;
    if (!sim_object_is(r, SIM_RESOURCE))
        return CUDA_ERROR_INVALID_HANDLE;
    if (r->mapped)
        return CUDA_ERROR_ALREADY_MAPPED;
    return flags > CU_GRAPHICS_MAP_RESOURCE_FLAGS_WRITE_DISCARD ? CUDA_ERROR_INVALID_VALUE
                                                                : CUDA_SUCCESS;
}

SIM_API(cuGraphicsUnregisterResource, (CUgraphicsResource handle), (handle))
{
    struct sim_resource *r = (struct sim_resource *)handle;
    if (!sim_object_is(r, SIM_RESOURCE))
        return CUDA_ERROR_INVALID_HANDLE;
    sim_context_wait(r->ctx);
    sim_mem_disown(r->base);
    sim_object_destroy(r, SIM_RESOURCE);
    return CUDA_SUCCESS;
}
