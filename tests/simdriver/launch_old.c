/* launch_old.c - launches of CUDA 3: the function keeps what its next launch takes. */
#include "sim.h"
#include <string.h>

SIM_API(cuFuncSetBlockShape, (CUfunction handle, int x, int y, int z), (handle, x, y, z))
{
    struct sim_function *f = sim_function_of(handle);
    if (!f)
        return CUDA_ERROR_INVALID_HANDLE;
    memcpy(f->old.block, (unsigned int[]){(unsigned int)x, (unsigned int)y, (unsigned int)z},
           sizeof f->old.block);
    return CUDA_SUCCESS;
}

SIM_API(cuFuncSetSharedSize, (CUfunction handle, unsigned int bytes), (handle, bytes))
{
    struct sim_function *f = sim_function_of(handle);
    if (!f)
        return CUDA_ERROR_INVALID_HANDLE;
    f->old.shared_bytes = bytes;
    return CUDA_SUCCESS;
}

SIM_API(cuParamSetSize, (CUfunction handle, unsigned int bytes), (handle, bytes))
{
    struct sim_function *f = sim_function_of(handle);
    if (!f)
        return CUDA_ERROR_INVALID_HANDLE;
    if (bytes > sizeof f->old.arguments)
        return CUDA_ERROR_INVALID_VALUE;
    f->old.bytes = bytes;
    return CUDA_SUCCESS;
}

SIM_API(cuParamSetv, (CUfunction handle, int offset, void *from, unsigned int bytes),
        (handle, offset, from, bytes))
{
    struct sim_function *f = sim_function_of(handle);
    if (!f)
        return CUDA_ERROR_INVALID_HANDLE;
    if (offset < 0 || (unsigned int)offset > sizeof f->old.arguments ||
        bytes > sizeof f->old.arguments - (unsigned int)offset)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(f->old.arguments + offset, from, bytes);
    return CUDA_SUCCESS;
}

static CUresult launch(CUfunction handle, int width, int height, CUstream stream)
{
    struct sim_function *f = sim_function_of(handle);
    struct sim_stream *s;
    if (!f)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult r = sim_stream_find(stream, false, &s);
    if (r != CUDA_SUCCESS)
        return r;
    struct sim_op op = {.kind = SIM_OP_KERNEL};
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, f->old.arguments, CU_LAUNCH_PARAM_BUFFER_SIZE,
                     &f->old.bytes, CU_LAUNCH_PARAM_END};
    r = sim_launch_prepare(&op.launch, f,
                           (unsigned int[]){(unsigned int)width, (unsigned int)height, 1},
                           f->old.block, f->old.shared_bytes, NULL, extra);
    op.launch.priority = s->priority;
    if (r != CUDA_SUCCESS) {
        sim_op_drop(&op);
        return r;
    }
    return sim_settings.blocking ? sim_submit_and_wait(s, &op) : sim_submit(s, &op, NULL);
}

SIM_API(cuLaunch, (CUfunction f), (f))
{
    return launch(f, 1, 1, NULL);
}

SIM_API(cuLaunchGrid, (CUfunction f, int width, int height), (f, width, height))
{
    return launch(f, width, height, NULL);
}

SIM_API(cuLaunchGridAsync, (CUfunction f, int width, int height, CUstream stream),
        (f, width, height, stream))
{
    return launch(f, width, height, stream);
}
