/*
 * signature.h - the signature of an op: everything in a launch, fill or copy except argument
 * values.
 *
 * Signatures are interned: equal signatures are the same object, but for those that another has
 * taken the place of, and its address is the op's key in the policy.
 */
#pragma once

#include "driver/attribute.h"
#include "driver/call.h"
#include "capture/tracking/arguments.h"
#include "capture/tracking/function.h"
#include "policy/policy.h"
#include <string.h>

struct ag_signature {
    /* what a launch that is followed reads of it, in one cache line (current.h says why) */
    _Alignas(64) CUfunction func;
    unsigned int dims[AG_DIMS]; /* the grid is zero if `any_grid` */
    unsigned int num_attrs;
    struct ag_layout layout; /* of fills and copies only the recorded bytes */
    uint8_t kind;
    uint8_t branch;      /* ag_incoming.branch */
    bool any_grid;       /* it stands for launches of all grids without a signature */
    _Atomic uint8_t bad; /* AG_SIGNATURE_*: not to be deferred if any is set */

    _Atomic bool met;        /* a policy has met it */
    _Atomic bool fence;      /* graphs get one in front of it, whatever the arguments are */
    _Atomic uint64_t proven; /* contexts (ag_context.bit) in which the driver has taken one; or, of
                                launches, one that differs in the grid alone */
    _Atomic uint32_t trace_id; /* in the dump; 0: not defined there yet */
    uint8_t elem_size;         /* memset */
    bool movable; /* its memory may be named by no node but a kernel's arguments (memory.h) */
    bool reads;   /* a copy to the host (read_back.c) */
    const struct ag_function *function;
    CUlaunchAttribute *attrs;
    size_t width;        /* memset: elements; copy: bytes; wait: ag_incoming.distance */
    struct ag_rows rows; /* of a copy of several; memset: the height and dst_pitch */
    uint64_t hash;
    struct ag_signature *next;    /* next in the same bucket */
    struct ag_signature *sibling; /* the next one of the same function */
    uint32_t grids; /* of launches that differ in nothing else, of which this was the latest */
};

enum {
    AG_SIGNATURE_FAILED = 1,     /* a launch of this signature has failed */
    AG_SIGNATURE_OVER_LIMIT = 2, /* needs more dynamic shared memory than its function may have */
    AG_SIGNATURE_INVALID = 4,    /* its function's module has ended, or another took its place */
};

static inline uint8_t ag_signature_bad(const struct ag_signature *signature)
{
    return atomic_load_explicit(&signature->bad, memory_order_relaxed);
}

enum { AG_SIGNATURE_CACHE = 256 };

/* A stream's own view of the table, read without a lock. Cleared when functions are removed. */
struct ag_signature_cache {
    struct ag_signature *entries[AG_SIGNATURE_CACHE];
};

/* A record or a wait: no node of a graph stands for it. */
static inline bool ag_signature_is_event(const struct ag_signature *signature)
{
    return signature->kind >= AG_OP_RECORD;
}

/* Whether a device may take the grid. These are the limits of every device (CUDA C++ Programming
 * Guide, technical specifications per compute capability). */
static inline bool ag_grid_is_possible(const unsigned int *dims)
{
    return dims[0] - 1 < INT32_MAX && dims[1] - 1 < UINT16_MAX && dims[2] - 1 < UINT16_MAX;
}

/* Whether the block and the dynamic shared memory are equal. */
static inline bool ag_signature_has_block(const struct ag_signature *signature,
                                          const unsigned int *dims)
{
    return !memcmp(signature->dims + 3, dims + 3, sizeof(signature->dims) - 3 * sizeof(*dims));
}

/* Whether a launch of the signature `any`, which stands for any grid, can take the place of this
 * one. */
static inline bool ag_signature_takes(const struct ag_signature *signature,
                                      const struct ag_signature *any)
{
    return any->any_grid && signature->func == any->func && signature->layout.has_grid &&
           signature->branch == any->branch && ag_signature_has_block(signature, any->dims) &&
           !ag_signature_bad(signature);
}

/* Whether the launch, on that branch, has this signature. */
static inline bool ag_signature_says(const struct ag_signature *signature,
                                     const struct ag_launch *launch, uint8_t branch)
{
    return __builtin_expect(signature->func == launch->func && signature->kind == AG_OP_LAUNCH &&
                                !signature->any_grid && signature->branch == branch &&
                                !memcmp(signature->dims, launch->dims, sizeof(signature->dims)) &&
                                signature->num_attrs == launch->num_attrs,
                            1) &&
           (__builtin_expect(!signature->num_attrs, 1) ||
            ag_attributes_equal(signature->attrs, launch->attrs, signature->num_attrs));
}

/* The same, and the launch may be deferred. */
static inline bool ag_signature_is_launch(const struct ag_signature *signature,
                                          const struct ag_launch *launch, uint8_t branch)
{
    return ag_signature_says(signature, launch, branch) && !ag_signature_bad(signature);
}

/* The signature of a launch if the cache has it, else NULL. It asks nobody. Sets `hash` for
 * ag_signature_ask(). */
struct ag_signature *ag_signature_cached(const struct ag_signature_cache *cache,
                                         const struct ag_launch *launch, uint8_t branch,
                                         uint64_t *hash);

/* The signature of a launch that the cache does not have. Asks the driver if nobody has. `counts`:
 * a new grid is one of many that may become an argument. Results as
 * of ag_signature_of(). */
struct ag_signature *ag_signature_ask(struct ag_signature_cache *cache,
                                      const struct ag_launch *launch, uint8_t branch, uint64_t hash,
                                      bool counts, const char **why);

/* Whether the function was launched before. */
bool ag_signatures_know(CUfunction func);

/* The driver has taken one in this context: the kernel is loaded there, and it will object to the
 * next one only for reasons that have nothing to do with the signature. */
static inline void ag_signature_prove(struct ag_signature *signature, uint64_t context)
{
    atomic_fetch_or_explicit(&signature->proven, context, memory_order_relaxed);
}
/* The driver has taken one in that context, which is then the function's, whatever stream of
 * another it was launched into before. */
void ag_signature_belongs_to(const struct ag_signature *signature, CUcontext ctx);
static inline bool ag_signature_is_proven(const struct ag_signature *signature, uint64_t context)
{
    return atomic_load_explicit(&signature->proven, memory_order_relaxed) & context;
}
/* The signature of an op. NULL if a launch must not be recorded (unknown layout or attributes, a
 * collective, no memory): the caller then treats it as a sync point, and `why` has the reason. */
struct ag_signature *ag_signature_of(struct ag_signature_cache *cache, const struct ag_incoming *in,
                                     const char **why);

static inline ag_key ag_signature_key(const struct ag_signature *signature)
{
    return (ag_key)(uintptr_t)signature;
}
static inline const struct ag_signature *ag_key_signature(ag_key key)
{
    return (const struct ag_signature *)(uintptr_t)key;
}

/* The same as ag_launch_has_arguments() for any op. */
static inline bool ag_incoming_has_arguments(const struct ag_incoming *in,
                                             const struct ag_signature *signature)
{
    return in->kind != AG_OP_LAUNCH || ag_launch_has_arguments(in->launch, &signature->layout);
}

/* Pointers to a launch's recorded arguments; there are signature->layout.num_params of them. */
static inline void ag_signature_params(const struct ag_signature *signature,
                                       const uint8_t *recorded, void **params)
{
    for (uint32_t i = 0; i < signature->layout.num_params; i++)
        params[i] = (void *)(uintptr_t)(recorded + signature->layout.params[i].recorded);
}

/* The grid of a recorded launch. */
static inline void ag_signature_grid(const struct ag_signature *signature, const uint8_t *recorded,
                                     unsigned int *dims)
{
    if (!signature->layout.has_grid) {
        memcpy(dims, signature->dims, 3 * sizeof(*dims));
        return;
    }
    struct ag_recorded_grid grid = ag_recorded_grid(recorded, &signature->layout);
    memcpy(dims, grid.dims, sizeof(grid.dims));
}

/* Whether a function waits for peers when it is launched. Also true if nothing can be found out
 * about it. */
bool ag_function_waits(CUfunction func, CUstream stream);

/* From now on no signature counts as proven in this context: it has ended. */
void ag_signatures_disprove(uint64_t context);
/* The same of the function's kernel, whose attribute has changed. */
void ag_function_disprove(CUfunction func, int attribute);
/* How often something that was proven has become doubtful. */
extern _Atomic uint32_t ag_disproofs;

/* Call the first before the program sets a function attribute, the second after; `done`: the call
 * succeeded. See setting.h. `*kernel` is set to a kernel whose graphs change; callers only compare
 * the pointer and do not look inside. */
enum ag_change ag_function_setting_begins(CUfunction func, int attribute, int value, int device,
                                          const struct ag_kernel **kernel);
void ag_function_setting_ends(CUfunction func, int attribute, int value, int device, bool done);

/* Signatures have used up their share of the memory budget. This happens in programs in which no
 * two launches are alike. It is then time to discard everything and learn anew
 * (ag_core_invalidate_signatures()). */
extern _Atomic bool ag_signatures_full;

/* Removes the functions of a module, library or context together with their signatures. The
 * signatures are marked and no longer found. Streams must then empty their caches. Returns false
 * if launches of none of them were ever recorded. */
bool ag_signatures_invalidate(enum ag_owner kind, void *owner);

/* The driver has refused a launch of this signature and will refuse the next one too. As none is
 * deferred any more, the program gets that error from the launch itself. Two kinds of error say
 * nothing about the signature: lack of memory may pass, and an error that ends the context comes
 * from earlier work. */
void ag_signature_refused(const struct ag_signature *signature, CUresult result);

/* A graph was dropped as it lacked a fence in front of an op of this signature. Those built from
 * now on have one, or each op that takes its turn with such arguments would cost a graph. */
void ag_signature_lacked_fence(const struct ag_signature *signature);
static inline bool ag_signature_needs_fence(const struct ag_signature *signature)
{
    return atomic_load_explicit(&signature->fence, memory_order_relaxed);
}

/* Removes all functions and signatures, in two steps so that streams can drop their pointers in
 * between. Detach empties the tables and returns what they held; destroy frees that. */
struct ag_signature_tables {
    struct ag_function_table functions;
    struct ag_signature **buckets;
    struct ag_signature *invalid; /* linked by `next` */
    uint32_t num_buckets; /* a power of two, and at least as many as valid ones; 0: none yet */
    uint32_t num_signatures;
    uint32_t num_invalid; /* of these, in no bucket */
};
struct ag_signature_tables ag_signatures_detach(void);
void ag_signatures_destroy(struct ag_signature_tables *tables);
