/* launch.c - kernel launches: checks, argument copies, launch attributes. */
#include "sim.h"
#include <string.h>

/* Copies what `params` point at, or the packed buffer of `extra`, to the kernel's layout. */
static CUresult copy_arguments(struct sim_launch *out, void **params, void **extra)
{
    const struct sim_code *code = out->code;
    if (params && extra)
        return CUDA_ERROR_INVALID_VALUE;
    if (code->nparams && !params && !extra)
        return CUDA_ERROR_INVALID_VALUE;
    const void *packed = NULL;
    size_t packed_bytes = 0;
    for (void **e = extra; e && *e != CU_LAUNCH_PARAM_END; e += 2) {
        if (*e == CU_LAUNCH_PARAM_BUFFER_POINTER)
            packed = e[1];
        else if (*e == CU_LAUNCH_PARAM_BUFFER_SIZE)
            packed_bytes = *(const size_t *)e[1];
        else
            return CUDA_ERROR_INVALID_VALUE;
    }
    if (extra && (packed_bytes < code->bytes || (!packed && packed_bytes)))
        return CUDA_ERROR_INVALID_VALUE;
    out->args = sim_args_new(code->bytes);
    if (!out->args)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (extra) {
        memcpy(out->args->bytes, packed, code->bytes);
        return CUDA_SUCCESS;
    }
    for (unsigned int i = 0; i < code->nparams; i++)
        memcpy(out->args->bytes + code->offsets[i], params[i], code->sizes[i]);
    return CUDA_SUCCESS;
}

static CUresult check_shape(const struct sim_function *f, const unsigned int grid[3],
                            const unsigned int block[3], unsigned int shared_bytes)
{
    uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
    if (!grid[0] || !grid[1] || !grid[2] || !threads)
        return CUDA_ERROR_INVALID_VALUE;
    if (grid[0] > 0x7fffffff || grid[1] > 65535 || grid[2] > 65535 || block[0] > 1024 ||
        block[1] > 1024 || block[2] > 64 || threads > 1024)
        return CUDA_ERROR_INVALID_VALUE;
    if (shared_bytes > (unsigned int)f->attributes[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES])
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult sim_launch_prepare(struct sim_launch *out, const void *handle, const unsigned int grid[3],
                            const unsigned int block[3], unsigned int shared_bytes, void **params,
                            void **extra)
{
    const struct sim_function *f = sim_function_of(handle);
    if (!f)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult r = check_shape(f, grid, block, shared_bytes);
    if (r != CUDA_SUCCESS)
        return r;
    memset(out, 0, sizeof *out);
    out->handle = (void *)(uintptr_t)handle;
    out->code = f->code;
    memcpy(out->grid, grid, sizeof out->grid);
    memcpy(out->block, block, sizeof out->block);
    out->shared_bytes = shared_bytes;
    return copy_arguments(out, params, extra);
}

static CUresult apply_attributes(struct sim_launch *l, const CUlaunchAttribute *attributes,
                                 unsigned int count)
{
    for (unsigned int i = 0; i < count; i++) {
        const CUlaunchAttributeValue *v = &attributes[i].value;
        switch (attributes[i].id) {
        case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
            if (!v->clusterDim.x || !v->clusterDim.y || !v->clusterDim.z ||
                l->grid[0] % v->clusterDim.x || l->grid[1] % v->clusterDim.y ||
                l->grid[2] % v->clusterDim.z)
                return CUDA_ERROR_INVALID_VALUE;
            if (v->clusterDim.x * v->clusterDim.y * v->clusterDim.z > 16)
                return CUDA_ERROR_INVALID_CLUSTER_SIZE;
            break;
        case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
            l->cooperative = v->cooperative;
            break;
        case CU_LAUNCH_ATTRIBUTE_PRIORITY:
            l->priority = v->priority;
            break;
        default:
            if ((unsigned int)attributes[i].id >= CU_LAUNCH_ATTRIBUTE_MAX)
                return CUDA_ERROR_INVALID_VALUE;
            break; /* accepted: they change how, not what, the device computes */
        }
    }
    /* A cooperative grid must fit the device at once. */
    uint64_t threads = (uint64_t)l->block[0] * l->block[1] * l->block[2];
    uint64_t blocks = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2];
    uint64_t resident = 132 * (2048 / threads > 32 ? 32 : 2048 / threads);
    if (l->cooperative && blocks > resident)
        return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
    return CUDA_SUCCESS;
}

/* The event that the launch records, if it does. */
static CUevent event_of(const CUlaunchAttribute *attributes, unsigned int count)
{
    for (unsigned int i = 0; i < count; i++) {
        if (attributes[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT)
            return attributes[i].value.programmaticEvent.event;
        if (attributes[i].id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)
            return attributes[i].value.launchCompletionEvent.event;
    }
    return NULL;
}

static CUresult launch(bool ptsz, const void *f, const unsigned int grid[3],
                       const unsigned int block[3], unsigned int shared_bytes, CUstream stream,
                       const CUlaunchAttribute *attributes, unsigned int count, void **params,
                       void **extra)
{
    struct sim_stream *s;
    if (sim_running) /* fills, records, waits and graphs are taken for streams with a handle */
        return CUDA_ERROR_NOT_PERMITTED;
    CUresult r = sim_stream_find(stream, ptsz, &s);
    if (r != CUDA_SUCCESS)
        return r;
    if (sim_settings.mode == SIM_NULL && !atomic_load(&sim_captures)) {
        if (sim_pace.on)
            sim_pace_submit(s, sim_pace.launch_ns, 1);
        return sim_function_of(f) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
    }
    struct sim_op op = {.kind = SIM_OP_KERNEL};
    r = sim_launch_prepare(&op.launch, f, grid, block, shared_bytes, params, extra);
    op.launch.priority = s->priority;
    if (r == CUDA_SUCCESS)
        r = apply_attributes(&op.launch, attributes, count);
    if (r != CUDA_SUCCESS) {
        sim_op_drop(&op);
        return r;
    }
    r = sim_settings.blocking ? sim_submit_and_wait(s, &op) : sim_submit(s, &op, NULL);
    CUevent event = event_of(attributes, count);
    return r == CUDA_SUCCESS && event ? sim_event_record(event, s, 0) : r;
}

SIM_API2(cuLaunchKernel, cuLaunchKernel_ptsz,
         (CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
          unsigned int by, unsigned int bz, unsigned int shared, CUstream stream, void **params,
          void **extra),
         (f, gx, gy, gz, bx, by, bz, shared, stream, params, extra))
{
    return launch(ptsz, f, (unsigned int[]){gx, gy, gz}, (unsigned int[]){bx, by, bz}, shared,
                  stream, NULL, 0, params, extra);
}

SIM_API2(cuLaunchKernelEx, cuLaunchKernelEx_ptsz,
         (const CUlaunchConfig *config, CUfunction f, void **params, void **extra),
         (config, f, params, extra))
{
    if (!config || (config->numAttrs && !config->attrs))
        return CUDA_ERROR_INVALID_VALUE;
    return launch(ptsz, f, (unsigned int[]){config->gridDimX, config->gridDimY, config->gridDimZ},
                  (unsigned int[]){config->blockDimX, config->blockDimY, config->blockDimZ},
                  config->sharedMemBytes, config->hStream, config->attrs, config->numAttrs, params,
                  extra);
}

SIM_API2(cuLaunchCooperativeKernel, cuLaunchCooperativeKernel_ptsz,
         (CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
          unsigned int by, unsigned int bz, unsigned int shared, CUstream stream, void **params),
         (f, gx, gy, gz, bx, by, bz, shared, stream, params))
{
    CUlaunchAttribute cooperative = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
                                     .value = {.cooperative = 1}};
    return launch(ptsz, f, (unsigned int[]){gx, gy, gz}, (unsigned int[]){bx, by, bz}, shared,
                  stream, &cooperative, 1, params, NULL);
}
