/*
 * function.h - what the library knows about a function that the program launches.
 *
 * It asks the driver for the parameter layout once per handle. The table belongs to signature.c;
 * everything here is called under signature.c's lock.
 */
#pragma once

#include "capture/system/hash.h"
#include "driver/entries.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* One kernel parameter: its place in the kernel's parameter buffer, and its place among the
 * recorded bytes. Recorded bytes have no holes, so that they can be compared in one piece. */
struct ag_param {
    uint32_t offset, size, recorded;
};

/* Whoever submits a launch has a pointer to each parameter on the stack, and a thread of the
 * program's may have one of 16 KiB. A kernel may have 32,764 parameters. */
enum { AG_MOST_PARAMS = 256 };

/* How the arguments of a launch are recorded. Signatures have a copy: it is read at each launch. */
struct ag_layout {
    const struct ag_param *params;
    uint32_t recorded_bytes; /* multiple of 8 */
    uint16_t num_params;
    bool all_words; /* every parameter has eight bytes: recorded without checking sizes */
    bool has_grid;  /* behind the parameters lies the launch's grid, struct ag_recorded_grid */
};

struct ag_function {
    CUfunction func;
    CUcontext ctx;   /* of the stream it was first launched in; a CUkernel has none */
    bool is_kernel;  /* the handle is a CUkernel */
    bool usable;     /* its layout is known, and has no more than AG_MOST_PARAMS */
    bool immediate;  /* waits for peers (NCCL, NVSHMEM): never deferred */
    bool clusters;   /* its grid must be a multiple of something, or nobody knows */
    bool may_launch; /* its module has the device runtime (dynamic parallelism): never deferred */
    bool taken;      /* the driver has taken a launch of it into a stream of `ctx` */
    bool invalid;    /* its module has ended; kept because other structures point to it */
    struct ag_layout layout;
    struct ag_kernel *kernel;        /* the kernel that this handle means */
    struct ag_signature *signatures; /* of its launches, linked by `sibling` */
    struct ag_setting *limits;       /* see setting.c; the ... */
    struct ag_signature *marked;     /* ... latest of its signatures when all were marked by them */
    struct ag_function *next_invalid;
    UT_hash_handle handle;
};

/* The last value that was set for an attribute through one handle. */
struct ag_setting {
    CUfunction func;
    int attribute, device, value;
    const void *owner; /* if the handle's kernel has handles of its kind alone; NULL: not known */
    unsigned int under_way; /* threads that are setting it; until then graphs may have another */
    struct ag_setting *next;
};

/* A kernel, identified by its name. It may have several handles: a CUkernel, a CUfunction of it in
 * each context, one looked up in the library's module. Kernels of the same name in different
 * modules count as one. */
struct ag_kernel {
    struct ag_setting *settings;
    unsigned int kinds; /* of handles that were launched, enum ag_handle_kind */
    uint32_t functions; /* in the table, invalid ones too */
    UT_hash_handle handle;
    char name[];
};

enum ag_handle_kind { AG_HANDLE_FUNCTION = 1, AG_HANDLE_KERNEL = 2 };

/* NULL if the driver does not give a name. Needs no lock, as the next two. */
const char *ag_function_name(CUfunction func);
bool ag_name_is_of_peers(const char *name);
/* Whether the program has found a kernel that waits for peers, and so may launch one. Never becomes
 * false again. Until then launches on dormant streams need not be checked for them. */
extern _Atomic bool ag_peers_are_known;

/* Empty if all members are NULL. */
struct ag_function_table {
    struct ag_function *functions;
    struct ag_function *invalid; /* linked by `next_invalid` */
    struct ag_kernel *kernels;   /* those that were launched */
};

/* `stream`: the stream of the launch that creates the entry. Returns NULL if the function is not
 * known and `create` is false, or if there is no memory. */
struct ag_function *ag_function_get(struct ag_function_table *table, CUfunction func,
                                    CUstream stream, bool create);

/* The kernel that this is a handle of; NULL if none of its handles was ever launched. */
struct ag_kernel *ag_kernel_find(struct ag_function_table *table, CUfunction func);

/* The module of a CUfunction, the library of a CUkernel; NULL: the driver does not say. */
const void *ag_function_owner(const struct ag_function *function);

/* Removes an owner's functions from the table, so that their handles can return with another
 * meaning. If the driver does not say who owns a function, it counts as one of them. Returns false
 * if launches of none of them were ever recorded. */
enum ag_owner { AG_OF_MODULE, AG_OF_LIBRARY, AG_OF_CONTEXT };
bool ag_functions_invalidate(struct ag_function_table *table, enum ag_owner kind, void *owner);

/* Frees what the table holds, not the table itself. */
void ag_functions_destroy(struct ag_function_table *table);
