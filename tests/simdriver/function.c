/* function.c - what can be asked of a CUfunction or CUkernel: parameters, attributes, occupancy. */
#include "sim.h"

struct sim_function *sim_function_of(const void *handle)
{
    if ((uintptr_t)handle < 4096)
        return NULL;
    uint32_t state = atomic_load(&((struct sim_object *)(uintptr_t)handle)->state);
    if (state == SIM_KERNEL || state == (SIM_LIVE | SIM_KERNEL))
        return sim_object_is(handle, SIM_KERNEL) ? (struct sim_function *)(uintptr_t)handle : NULL;
    return sim_object_is(handle, SIM_FUNCTION) ? (struct sim_function *)(uintptr_t)handle : NULL;
}

static CUresult param_info(const void *handle, enum sim_kind kind, size_t index, size_t *offset,
                           size_t *size)
{
    const struct sim_function *f = handle;
    if (!offset)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_object_is(f, kind))
        return CUDA_ERROR_INVALID_HANDLE;
    if (index >= f->code->nparams)
        return CUDA_ERROR_INVALID_VALUE;
    *offset = f->code->offsets[index];
    if (size)
        *size = f->code->sizes[index];
    return CUDA_SUCCESS;
}

SIM_API(cuFuncGetParamInfo, (CUfunction f, size_t index, size_t *offset, size_t *size),
        (f, index, offset, size))
{
    return param_info(f, SIM_FUNCTION, index, offset, size);
}

SIM_API(cuKernelGetParamInfo, (CUkernel k, size_t index, size_t *offset, size_t *size),
        (k, index, offset, size))
{
    return param_info(k, SIM_KERNEL, index, offset, size);
}

SIM_API(cuFuncGetName, (const char **name, CUfunction f), (name, f))
{
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    const struct sim_function *function = sim_function_of(f);
    if (!function)
        return CUDA_ERROR_INVALID_HANDLE;
    *name = function->code->name;
    return CUDA_SUCCESS;
}

SIM_API(cuKernelGetName, (const char **name, CUkernel k), (name, k))
{
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_object_is(k, SIM_KERNEL))
        return CUDA_ERROR_INVALID_HANDLE;
    *name = ((const struct sim_function *)k)->code->name;
    return CUDA_SUCCESS;
}

SIM_API(cuFuncIsLoaded, (CUfunctionLoadingState * state, CUfunction f), (state, f))
{
    if (!state)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_function_of(f))
        return CUDA_ERROR_INVALID_HANDLE;
    *state = CU_FUNCTION_LOADING_STATE_LOADED;
    return CUDA_SUCCESS;
}

SIM_API(cuFuncLoad, (CUfunction f), (f))
{
    return sim_function_of(f) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* ---- attributes
 * ----------------------------------------------------------------------------------- */

static CUresult get_attribute(int *value, CUfunction_attribute attribute, const void *handle)
{
    if (!value || (unsigned int)attribute >= CU_FUNC_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    const struct sim_function *f = sim_function_of(handle);
    if (!f)
        return CUDA_ERROR_INVALID_HANDLE;
    *value = f->attributes[attribute];
    return CUDA_SUCCESS;
}

static CUresult set_attribute(void *handle, CUfunction_attribute attribute, int value)
{
    struct sim_function *f = sim_function_of(handle);
    if (!f)
        return CUDA_ERROR_INVALID_HANDLE;
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        if (value < 0 || value > 232448)
            return CUDA_ERROR_INVALID_VALUE;
        break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
    case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        break;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    f->attributes[attribute] = value;
    if (f->twin)
        f->twin->attributes[attribute] = value;
    return CUDA_SUCCESS;
}

SIM_API(cuFuncGetAttribute, (int *value, CUfunction_attribute attribute, CUfunction f),
        (value, attribute, f))
{
    return get_attribute(value, attribute, f);
}

SIM_API(cuKernelGetAttribute,
        (int *value, CUfunction_attribute attribute, CUkernel k, CUdevice device),
        (value, attribute, k, device))
{
    if (device < 0 || device >= sim_device_count())
        return CUDA_ERROR_INVALID_DEVICE;
    return get_attribute(value, attribute, k);
}

SIM_API(cuFuncSetAttribute, (CUfunction f, CUfunction_attribute attribute, int value),
        (f, attribute, value))
{
    if (sim_running)
        return CUDA_ERROR_NOT_PERMITTED;
    return set_attribute(f, attribute, value);
}

SIM_API(cuKernelSetAttribute,
        (CUfunction_attribute attribute, int value, CUkernel k, CUdevice device),
        (attribute, value, k, device))
{
    if (device < 0 || device >= sim_device_count())
        return CUDA_ERROR_INVALID_DEVICE;
    return set_attribute(k, attribute, value);
}

SIM_API(cuFuncSetCacheConfig, (CUfunction f, CUfunc_cache config), (f, config))
{
    (void)config;
    return sim_function_of(f) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

SIM_API(cuKernelSetCacheConfig, (CUkernel k, CUfunc_cache config, CUdevice device),
        (k, config, device))
{
    (void)config;
    if (device < 0 || device >= sim_device_count())
        return CUDA_ERROR_INVALID_DEVICE;
    return sim_object_is(k, SIM_KERNEL) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

SIM_API(cuFuncSetSharedMemConfig, (CUfunction f, CUsharedconfig config), (f, config))
{
    (void)config;
    return sim_function_of(f) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* ---- occupancy: by threads alone
 * -------------------------------------------------------------------- */

static CUresult occupancy(int *blocks, CUfunction f, int block_size)
{
    if (!blocks || block_size <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_function_of(f))
        return CUDA_ERROR_INVALID_HANDLE;
    *blocks = block_size > 1024 ? 0 : 2048 / block_size > 32 ? 32 : 2048 / block_size;
    return CUDA_SUCCESS;
}

SIM_API(cuOccupancyMaxActiveBlocksPerMultiprocessor,
        (int *blocks, CUfunction f, int block_size, size_t shared), (blocks, f, block_size, shared))
{
    (void)shared;
    return occupancy(blocks, f, block_size);
}

SIM_API(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
        (int *blocks, CUfunction f, int block_size, size_t shared, unsigned int flags),
        (blocks, f, block_size, shared, flags))
{
    (void)shared;
    if (flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
        return CUDA_ERROR_INVALID_VALUE;
    return occupancy(blocks, f, block_size);
}

static CUresult best_block(int *min_grid, int *block_size, CUfunction f, int limit)
{
    if (!min_grid || !block_size)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_function_of(f))
        return CUDA_ERROR_INVALID_HANDLE;
    *block_size = limit > 0 && limit < 1024 ? limit : 1024;
    *min_grid = 132 * (2048 / *block_size);
    return CUDA_SUCCESS;
}

SIM_API(cuOccupancyMaxPotentialBlockSize,
        (int *min_grid, int *block_size, CUfunction f, CUoccupancyB2DSize shared_of_block,
         size_t shared, int limit),
        (min_grid, block_size, f, shared_of_block, shared, limit))
{
    (void)shared_of_block;
    (void)shared;
    return best_block(min_grid, block_size, f, limit);
}

SIM_API(cuOccupancyMaxPotentialBlockSizeWithFlags,
        (int *min_grid, int *block_size, CUfunction f, CUoccupancyB2DSize shared_of_block,
         size_t shared, int limit, unsigned int flags),
        (min_grid, block_size, f, shared_of_block, shared, limit, flags))
{
    (void)shared_of_block;
    (void)shared;
    (void)flags;
    return best_block(min_grid, block_size, f, limit);
}

SIM_API(cuOccupancyAvailableDynamicSMemPerBlock,
        (size_t * bytes, CUfunction f, int blocks, int block_size), (bytes, f, blocks, block_size))
{
    if (!bytes || blocks <= 0 || block_size <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_function_of(f))
        return CUDA_ERROR_INVALID_HANDLE;
    *bytes = 49152;
    return CUDA_SUCCESS;
}
