/*
 * function.h - what is known of a function that is launched.
 *
 * Its parameter layout is asked of the driver once per handle. The table belongs to signature.c,
 * under whose lock everything here is called.
 */
#ifndef AG_FUNCTION_H
#define AG_FUNCTION_H

#include "driver/entries.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
/* uthash would end the program where there is no memory; now `hh.tbl` is NULL after adding */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

/* One kernel parameter: where it lies in the kernel's parameter buffer, and where among the
 * recorded bytes, which have no holes so that they can be compared as a block. */
struct ag_param {
    uint32_t offset, size, recorded;
};

struct ag_function {
    CUfunction func;
    CUcontext ctx;  /* of the stream that it was launched in first; a CUkernel has none */
    bool is_kernel; /* the handle is a CUkernel */
    bool all_words; /* every parameter has eight bytes: they are recorded without a look at sizes */
    bool usable;    /* its layout is known */
    bool immediate; /* waits for peers (NCCL, NVSHMEM): never held back */
    bool dead;      /* its module is gone; kept for what points to it */
    uint32_t num_params;
    uint32_t recorded_bytes; /* multiple of 8 */
    struct ag_param *params;
    struct ag_kernel *kernel;        /* whose handle this is */
    struct ag_signature *signatures; /* of its launches, linked by `sibling` */
    struct ag_setting *limits;       /* setting.c */
};

/* The last value of an attribute. */
struct ag_setting {
    int attribute, device, value;
    struct ag_setting *next;
};

/* A kernel under its name. It may have several handles (a CUkernel, the CUfunction of it in each
 * context, one looked up in the library's module), and kernels of one name in different modules are
 * taken for one. */
struct ag_kernel {
    struct ag_setting *settings;
    unsigned int kinds; /* of the handles that were launched, enum ag_handle_kind */
    UT_hash_handle handle;
    char name[];
};

enum ag_handle_kind { AG_HANDLE_FUNCTION = 1, AG_HANDLE_KERNEL = 2 };

/* NULL where the driver does not tell. */
const char *ag_function_name(CUfunction func);
bool ag_name_is_of_peers(const char *name);

/* Empty where all are NULL. */
struct ag_function_table {
    struct ag_function_entry *functions;
    struct ag_function_entry *dead;
    struct ag_kernel *kernels; /* those that were launched */
};

/* NULL where it is not known and `create` is false, and where there is no memory.
 * `stream`: that of the launch which makes it. */
struct ag_function *ag_function_get(struct ag_function_table *table, CUfunction func,
                                    CUstream stream, bool create);

/* The kernel that this is a handle of; NULL where none of its handles was ever launched. */
struct ag_kernel *ag_kernel_find(struct ag_function_table *table, CUfunction func);

/* Takes those of an owner out of the table, so that their handles can come again with another
 * meaning. Where the driver does not tell whose a function is, it is taken for one of them. False:
 * there was none. */
enum ag_owner { AG_OF_MODULE, AG_OF_LIBRARY, AG_OF_CONTEXT };
bool ag_functions_die(struct ag_function_table *table, enum ag_owner kind, void *owner);

/* Frees what is in the table, not the table. */
void ag_functions_destroy(struct ag_function_table *table);

#endif
