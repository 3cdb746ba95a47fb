/* arguments.c - see arguments.h. */
#include "capture/tracking/arguments.h"

/* The launch's packed parameter buffer (cuLaunchKernel, CU_LAUNCH_PARAM_BUFFER_POINTER), or NULL.
 */
static const uint8_t *packed_buffer(void **extra, size_t *size)
{
    const uint8_t *buffer = NULL;
    *size = 0;
    for (; extra && *extra != CU_LAUNCH_PARAM_END; extra += 2) {
        if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[1];
        else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
            *size = extra[1] ? *(const size_t *)extra[1] : 0;
        else
            return NULL;
    }
    return buffer;
}

bool ag_launch_has_arguments(const struct ag_launch *launch, const struct ag_layout *l)
{
    if (launch->params || !l->num_params)
        return !launch->extra;
    const struct ag_param *last = &l->params[l->num_params - 1];
    size_t size;
    return packed_buffer(launch->extra, &size) && size >= last->offset + last->size;
}

/* Of any sizes, or packed. Not inlined: its registers would be saved at each launch. */
static __attribute__((noinline)) void record_any(uint8_t *recorded, const struct ag_layout *l,
                                                 const struct ag_launch *launch)
{
    uint32_t end = l->recorded_bytes - (l->has_grid ? sizeof(struct ag_recorded_grid) : 0);
    memset(recorded + end - 8, 0, 8); /* comparisons include the padding */
    size_t size;
    const uint8_t *packed = launch->params ? NULL : packed_buffer(launch->extra, &size);
    for (uint32_t i = 0; i < l->num_params; i++) {
        const struct ag_param *p = &l->params[i];
        /* ag_launch_has_arguments() has checked: NOLINTNEXTLINE(clang-analyzer-core.*) */
        const void *from = packed ? packed + p->offset : launch->params[i];
        uint8_t *to = recorded + p->recorded;
        if (p->size == 8)
            memcpy(to, from, 8);
        else if (p->size == 4)
            memcpy(to, from, 4);
        else
            memcpy(to, from, p->size);
    }
}

__attribute__((hot)) void ag_record_launch(uint8_t *recorded, const struct ag_layout *l,
                                           const struct ag_launch *launch)
{
    uint32_t n = l->num_params;
    void **params = launch->params;
    if (__builtin_expect(l->has_grid, 0)) {
        struct ag_recorded_grid grid = {{launch->dims[0], launch->dims[1], launch->dims[2]}, 0};
        memcpy(recorded + l->recorded_bytes - sizeof(grid), &grid, sizeof(grid));
    }
    if (__builtin_expect(!l->all_words || !params, 0)) {
        if (n)
            record_any(recorded, l, launch);
        return;
    }
    for (uint32_t i = 0; i < n; i++)
        memcpy(recorded + 8 * (size_t)i, params[i], 8);
}
