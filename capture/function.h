/*
 * function.h - what is known of a function that is launched.
 *
 * Its parameter layout is asked of the driver once per handle. The table belongs to shape.c, under
 * whose lock everything here is called.
 */
#ifndef AG_FUNCTION_H
#define AG_FUNCTION_H

#include "capture/capture.h"

/* One kernel parameter: where it lies in the kernel's parameter buffer, and where among the staged
 * bytes, which have no holes so that they can be compared as a block. */
struct ag_param {
    uint32_t offset, size, staged;
};

struct ag_function {
    CUfunction func;
    bool is_kernel; /* the handle is a CUkernel */
    bool all_words; /* every parameter has eight bytes: they are staged without a look at sizes */
    bool usable;    /* its layout is known */
    bool immediate; /* waits for peers (NCCL, NVSHMEM): never held back */
    uint32_t num_params;
    uint32_t staged_bytes; /* multiple of 8 */
    struct ag_param *params;
    struct ag_kernel *kernel; /* whose handle this is */
};

/* Empty where both are NULL. */
struct ag_function_table {
    struct ag_function_entry *functions;
    struct ag_kernel *kernels; /* those that were launched */
};

/* NULL where it is not known and `create` is false, and where there is no memory. */
struct ag_function *ag_function_get(struct ag_function_table *table, CUfunction func, bool create);

/* As ag_function_setting_changes(), see shape.h. */
bool ag_function_set(struct ag_function_table *table, CUfunction func, int attribute, int value,
                     int device);

/* Frees what is in the table, not the table. */
void ag_functions_destroy(struct ag_function_table *table);

#endif
