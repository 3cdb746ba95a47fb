/*
 * shape.h - the shape of an op: everything of a launch, fill or copy that is not an argument value.
 *
 * Shapes are interned: equal shapes are one object, and its address is the op's key in the policy.
 */
#ifndef AG_SHAPE_H
#define AG_SHAPE_H

#include "driver/attribute.h"
#include "driver/call.h"
#include "capture/tracking/function.h"
#include "policy/policy.h"
#include <string.h>

struct ag_shape {
    CUfunction func;
    unsigned int dims[AG_DIMS];
    unsigned int num_attrs;
    _Atomic uint8_t bad;       /* AG_SHAPE_*: not to be deferred where any is set */
    _Atomic bool met;          /* by a policy */
    _Atomic uint32_t trace_id; /* in the dump; 0: not defined there yet */
    uint8_t kind;
    uint8_t elem_size; /* memset */
    uint32_t staged_bytes;
    const struct ag_function *function;
    CUlaunchAttribute *attrs;
    size_t width, height, pitch; /* memset: elements, rows, bytes; copy: width in bytes */
    uint64_t hash;
    struct ag_shape *next;    /* of the same bucket */
    struct ag_shape *sibling; /* the next of the same function */
};

enum {
    AG_SHAPE_FAILED = 1,     /* a launch of this shape has failed */
    AG_SHAPE_OVER_LIMIT = 2, /* takes more dynamic shared memory than the function is allowed now */
    AG_SHAPE_DEAD = 4,       /* its function's module is gone */
};

static inline uint8_t ag_shape_bad(const struct ag_shape *shape)
{
    return atomic_load_explicit(&shape->bad, memory_order_relaxed);
}

enum { AG_SHAPE_CACHE = 256 };

/* A stream's own view of the table: no lock. Cleared when functions die. */
struct ag_shape_cache {
    struct ag_shape *entries[AG_SHAPE_CACHE];
};

/* Whether the launch has this shape. */
static inline bool ag_shape_says(const struct ag_shape *shape, const struct ag_launch *launch)
{
    return shape->func == launch->func && shape->kind == AG_OP_LAUNCH &&
           !memcmp(shape->dims, launch->dims, sizeof(shape->dims)) &&
           shape->num_attrs == launch->num_attrs &&
           (!shape->num_attrs ||
            ag_attributes_equal(shape->attrs, launch->attrs, shape->num_attrs));
}

/* And may be deferred. */
static inline bool ag_shape_is_launch(const struct ag_shape *shape, const struct ag_launch *launch)
{
    return ag_shape_says(shape, launch) && !ag_shape_bad(shape);
}

/* The shape of a launch; NULL where it must not be recorded (unknown layout or attributes, a
 * collective, no memory): the caller treats it as a boundary. */
struct ag_shape *ag_shape_of_launch(struct ag_shape_cache *cache, const struct ag_launch *launch,
                                    const char **why);
struct ag_shape *ag_shape_of_memset(struct ag_shape_cache *cache, const struct ag_memset *fill);
struct ag_shape *ag_shape_of_copy(struct ag_shape_cache *cache, const struct ag_copy *copy);

/* Of any op. `why` is set where there is none of a launch. */
struct ag_shape *ag_shape_of(struct ag_shape_cache *cache, const struct ag_incoming *in,
                             const char **why);

static inline ag_key ag_shape_key(const struct ag_shape *shape)
{
    return (ag_key)(uintptr_t)shape;
}
static inline const struct ag_shape *ag_key_shape(ag_key key)
{
    return (const struct ag_shape *)(uintptr_t)key;
}

/* Whether the launch brings its arguments in a form that can be staged. A launch without any, of a
 * kernel that has parameters, is the driver's to refuse. */
bool ag_launch_has_arguments(const struct ag_launch *launch, const struct ag_function *function);

static inline bool ag_incoming_has_arguments(const struct ag_incoming *in,
                                             const struct ag_shape *shape)
{
    return in->kind != AG_OP_LAUNCH || ag_launch_has_arguments(in->launch, shape->function);
}

/* Copies the arguments of a launch to `staged` (shape->staged_bytes of room). */
void ag_stage_launch(uint8_t *staged, const struct ag_shape *shape, const struct ag_launch *launch);

/* Pointers to the staged arguments of a launch, of which there are shape->function->num_params. */
static inline void ag_shape_params(const struct ag_shape *shape, const uint8_t *staged,
                                   void **params)
{
    for (uint32_t i = 0; i < shape->function->num_params; i++)
        params[i] = (void *)(uintptr_t)(staged + shape->function->params[i].staged);
}

/* Staged arguments of memsets and copies. */
struct ag_staged_fill {
    uint64_t dst, value;
};
struct ag_staged_copy {
    uint64_t dst, src;
};

/* Whether a function waits for peers when it is launched, or nothing can be known of it. */
bool ag_function_waits(CUfunction func, CUstream stream);

/* A function attribute is about to be set, and has been (`done`) or was refused: see setting.h. A
 * kernel that has to be told from others is returned; it is compared, not looked into. */
enum ag_change ag_function_setting_begins(CUfunction func, int attribute, int value, int device,
                                          const struct ag_kernel **kernel);
void ag_function_setting_ends(CUfunction func, int attribute, int value, int device, bool done);

/* Shapes take their share of the memory budget, as they do in a program of which no two launches
 * are alike: it is time to forget everything and learn anew (ag_capture_functions_die()). */
extern _Atomic bool ag_shapes_full;

/* Functions of a module, library or context go with their shapes: these are marked, and found no
 * more. Streams have to empty their caches. False: nothing of it was ever launched. */
bool ag_shapes_die(enum ag_owner kind, void *owner);

/* The driver has refused a launch of this shape: it will refuse the next one too, and says so at
 * the launch itself, as none is deferred any more. Lack of memory may pass, and an error that ends
 * the context is that of earlier work: those say nothing of the shape. */
void ag_shape_refused(const struct ag_shape *shape, CUresult result);

/* All functions and shapes go. Two steps, so that streams can forget them in between: detach makes
 * the tables empty and returns what was in them, destroy frees it. */
struct ag_shape_tables;
struct ag_shape_tables *ag_shapes_detach(void);
void ag_shapes_destroy(struct ag_shape_tables *tables);

#endif
