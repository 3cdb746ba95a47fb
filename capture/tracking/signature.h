/*
 * signature.h - the signature of an op: everything of a launch, fill or copy that is not an
 * argument value.
 *
 * Signatures are interned: equal signatures are one object, and its address is the op's key in the
 * policy.
 */
#ifndef AG_SIGNATURE_H
#define AG_SIGNATURE_H

#include "driver/attribute.h"
#include "driver/call.h"
#include "capture/tracking/function.h"
#include "policy/policy.h"
#include <string.h>

struct ag_signature {
    CUfunction func;
    unsigned int dims[AG_DIMS];
    unsigned int num_attrs;
    _Atomic uint8_t bad;       /* AG_SIGNATURE_*: not to be deferred where any is set */
    _Atomic bool met;          /* by a policy */
    _Atomic uint32_t trace_id; /* in the dump; 0: not defined there yet */
    uint8_t kind;
    uint8_t elem_size; /* memset */
    uint32_t recorded_bytes;
    const struct ag_function *function;
    CUlaunchAttribute *attrs;
    size_t width, height, pitch; /* memset: elements, rows, bytes; copy: width in bytes */
    uint64_t hash;
    struct ag_signature *next;    /* of the same bucket */
    struct ag_signature *sibling; /* the next of the same function */
};

enum {
    AG_SIGNATURE_FAILED = 1, /* a launch of this signature has failed */
    AG_SIGNATURE_OVER_LIMIT =
        2,                 /* takes more dynamic shared memory than the function is allowed now */
    AG_SIGNATURE_DEAD = 4, /* its function's module is gone */
};

static inline uint8_t ag_signature_bad(const struct ag_signature *signature)
{
    return atomic_load_explicit(&signature->bad, memory_order_relaxed);
}

enum { AG_SIGNATURE_CACHE = 256 };

/* A stream's own view of the table: no lock. Cleared when functions die. */
struct ag_signature_cache {
    struct ag_signature *entries[AG_SIGNATURE_CACHE];
};

/* Whether the launch has this signature. */
static inline bool ag_signature_says(const struct ag_signature *signature,
                                     const struct ag_launch *launch)
{
    return signature->func == launch->func && signature->kind == AG_OP_LAUNCH &&
           !memcmp(signature->dims, launch->dims, sizeof(signature->dims)) &&
           signature->num_attrs == launch->num_attrs &&
           (!signature->num_attrs ||
            ag_attributes_equal(signature->attrs, launch->attrs, signature->num_attrs));
}

/* And may be deferred. */
static inline bool ag_signature_is_launch(const struct ag_signature *signature,
                                          const struct ag_launch *launch)
{
    return ag_signature_says(signature, launch) && !ag_signature_bad(signature);
}

/* The signature of a launch; NULL where it must not be recorded (unknown layout or attributes, a
 * collective, no memory): the caller treats it as a sync point. */
struct ag_signature *ag_signature_of_launch(struct ag_signature_cache *cache,
                                            const struct ag_launch *launch, const char **why);
struct ag_signature *ag_signature_of_memset(struct ag_signature_cache *cache,
                                            const struct ag_memset *fill);
struct ag_signature *ag_signature_of_copy(struct ag_signature_cache *cache,
                                          const struct ag_copy *copy);

/* Of any op. `why` is set where there is none of a launch. */
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

/* Whether the launch brings its arguments in a form that can be recorded. A launch without any, of
 * a kernel that has parameters, is the driver's to refuse. */
bool ag_launch_has_arguments(const struct ag_launch *launch, const struct ag_function *function);

static inline bool ag_incoming_has_arguments(const struct ag_incoming *in,
                                             const struct ag_signature *signature)
{
    return in->kind != AG_OP_LAUNCH || ag_launch_has_arguments(in->launch, signature->function);
}

/* Copies the arguments of a launch to `recorded` (signature->recorded_bytes of room). */
void ag_record_launch(uint8_t *recorded, const struct ag_signature *signature,
                      const struct ag_launch *launch);

/* Pointers to the recorded arguments of a launch, of which there are
 * signature->function->num_params. */
static inline void ag_signature_params(const struct ag_signature *signature,
                                       const uint8_t *recorded, void **params)
{
    for (uint32_t i = 0; i < signature->function->num_params; i++)
        params[i] = (void *)(uintptr_t)(recorded + signature->function->params[i].recorded);
}

/* Staged arguments of memsets and copies. */
struct ag_recorded_fill {
    uint64_t dst, value;
};
struct ag_recorded_copy {
    uint64_t dst, src;
};

/* Whether a function waits for peers when it is launched, or nothing can be known of it. */
bool ag_function_waits(CUfunction func, CUstream stream);

/* A function attribute is about to be set, and has been (`done`) or was refused: see setting.h. A
 * kernel that has to be told from others is returned; it is compared, not looked into. */
enum ag_change ag_function_setting_begins(CUfunction func, int attribute, int value, int device,
                                          const struct ag_kernel **kernel);
void ag_function_setting_ends(CUfunction func, int attribute, int value, int device, bool done);

/* Signatures take their share of the memory budget, as they do in a program of which no two
 * launches are alike: it is time to forget everything and learn anew
 * (ag_core_invalidate_functions()). */
extern _Atomic bool ag_signatures_full;

/* Functions of a module, library or context go with their signatures: these are marked, and found
 * no more. Streams have to empty their caches. False: nothing of it was ever launched. */
bool ag_signatures_die(enum ag_owner kind, void *owner);

/* The driver has refused a launch of this signature: it will refuse the next one too, and says so
 * at the launch itself, as none is deferred any more. Lack of memory may pass, and an error that
 * ends the context is that of earlier work: those say nothing of the signature. */
void ag_signature_refused(const struct ag_signature *signature, CUresult result);

/* All functions and signatures go. Two steps, so that streams can forget them in between: detach
 * makes the tables empty and returns what was in them, destroy frees it. */
struct ag_signature_tables;
struct ag_signature_tables *ag_signatures_detach(void);
void ag_signatures_destroy(struct ag_signature_tables *tables);

#endif
