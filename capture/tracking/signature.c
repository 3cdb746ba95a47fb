/*
 * signature.c - the table of signatures. Signatures point to functions (function.c), so one lock
 * guards both tables, and they are discarded together.
 */
#include "capture/tracking/signature.h"
#include "capture/system/digest.h"
#include "capture/tracking/count.h"
#include "driver/error.h"
#include "capture/system/lock.h"
#include "capture/settings/options.h"
#include "capture/tracking/setting.h"
#include "policy/constants.h"
#include <stdlib.h>
#include <utlist.h>

enum { FEWEST_BUCKETS = 4096 };
_Atomic bool ag_signatures_full;

static struct ag_lock lock;
static struct ag_signature_tables tables;

/* ---- signatures ----------------------------------------------------------------------------- */

static bool attributes_are_known(const struct ag_launch *launch)
{
    for (unsigned int i = 0; i < launch->num_attrs; i++)
        if (!ag_attribute_is_known(&launch->attrs[i]))
            return false;
    return true;
}

static uint64_t hash_attributes(uint64_t hash, const struct ag_launch *launch)
{
    for (unsigned int i = 0; i < launch->num_attrs; i++) {
        const CUlaunchAttribute *a = &launch->attrs[i];
        hash = ag_digest_word(hash, (uint64_t)a->id);
        if (ag_attribute_is_known(a))
            hash = ag_digest(hash, &a->value, ag_attribute_size(a));
    }
    return hash;
}

static struct ag_signature *
find(uint64_t hash, bool (*same)(const struct ag_signature *, const void *), const void *what)
{
    struct ag_signature *s =
        tables.num_buckets ? tables.buckets[hash & (tables.num_buckets - 1)] : NULL;
    while (s && (s->hash != hash || !same(s, what)))
        s = s->next;
    return s;
}

/* Without memory the table stays as it is. */
static void grow_buckets(void)
{
    struct ag_signature_tables *t = &tables;
    uint32_t n = t->num_buckets ? t->num_buckets * 2 : FEWEST_BUCKETS;
    struct ag_signature **buckets = calloc(n, sizeof(struct ag_signature *));
    if (!buckets)
        return;
    for (uint32_t i = 0; i < t->num_buckets; i++)
        for (struct ag_signature *s = t->buckets[i], *next; s; s = next) {
            next = s->next;
            LL_PREPEND(buckets[s->hash & (n - 1)], s);
        }
    free(t->buckets);
    t->buckets = buckets;
    t->num_buckets = n;
}

static uint64_t most_signatures(void)
{
    return ((uint64_t)ag_options.memory_mb << 20) / AG_SIGNATURES_SHARE /
           sizeof(struct ag_signature);
}

/* Adds one like that. NULL without memory. */
static struct ag_signature *insert(const struct ag_signature *like)
{
    if (tables.num_signatures - tables.num_invalid >= tables.num_buckets)
        grow_buckets();
    if (!tables.num_buckets)
        return NULL;
    struct ag_signature *signature =
        aligned_alloc(_Alignof(struct ag_signature), sizeof(*signature));
    if (!signature)
        return NULL;
    struct ag_signature **bucket = &tables.buckets[like->hash & (tables.num_buckets - 1)];
    *signature = *like;
    LL_PREPEND(*bucket, signature);
    if (++tables.num_signatures > most_signatures())
        atomic_store_explicit(&ag_signatures_full, true, memory_order_relaxed);
    return signature;
}

struct wanted_launch {
    const struct ag_launch *launch;
    uint8_t branch;
};

static bool same_launch(const struct ag_signature *s, const void *what)
{
    const struct wanted_launch *wanted = what;
    return !(ag_signature_bad(s) & AG_SIGNATURE_INVALID) &&
           ag_signature_says(s, wanted->launch, wanted->branch);
}

/* Where a launch is proven that differs from this one in the grid alone. Clusters must divide the
 * grid. */
static uint64_t proven_but_for_grid(const struct ag_signature *s)
{
    const unsigned int *dims = s->dims;
    uint64_t contexts = 0;
    if (s->num_attrs || s->function->clusters || !ag_grid_is_possible(dims))
        return 0;
    const struct ag_signature *other = s->function->signatures;
    for (int i = 0; other && i < AG_SIGNATURES_LATEST; i++, other = other->sibling)
        if (!other->num_attrs && !ag_signature_bad(other) &&
            !memcmp(other->dims + 3, dims + 3, 3 * sizeof(*dims)) &&
            dims[AG_DIM_SHARED] <= other->dims[AG_DIM_SHARED])
            contexts |= atomic_load_explicit(&other->proven, memory_order_relaxed);
    return contexts;
}

/* Every observed launch comes here, so this must be fast. The products do not wait for each other.
 * The words are loaded just as the hook stored them, because wider loads would have to wait for
 * those stores. */
static uint64_t hash_of_launch(const struct ag_launch *l, uint8_t branch)
{
    uint64_t hash = (uint64_t)(uintptr_t)l->func * 0x9E3779B97F4A7C15ull + branch;
    hash += l->dims[0] * 0xBF58476D1CE4E5B9ull + l->dims[1] * 0x94D049BB133111EBull;
    hash += l->dims[2] * 0xD6E8FEB86659FD93ull + l->dims[3] * 0xA0761D6478BD642Full;
    hash += l->dims[4] * 0xE7037ED1A0B428DBull + l->dims[5] * 0x8EBC6AF09C88C6E3ull;
    hash += l->dims[AG_DIM_SHARED] * 0x589965CC75374CC3ull;
    return ag_digest_word(hash, hash >> 32);
}

static uint64_t hash_of_any_grid(const struct ag_launch *launch, uint8_t branch)
{
    struct ag_launch any = *launch;
    memset(any.dims, 0, 3 * sizeof(*any.dims));
    return hash_of_launch(&any, branch);
}

static bool differs_in_grid_alone(const struct ag_signature *s, const struct ag_signature *other)
{
    return !other->num_attrs && other->branch == s->branch && !ag_signature_bad(other) &&
           ag_signature_has_block(other, s->dims);
}

/* Whether a launch comes with ever new grids, if this one is new: its grid becomes an argument.
 * `counts`: this one is not a tuner's, to which candidates would look alike. */
static bool has_many_grids(struct ag_signature *s, bool counts)
{
    const struct ag_signature *other = s->function->signatures;
    for (int i = 0; other && i < AG_SIGNATURES_LATEST && !s->grids; i++) {
        if (differs_in_grid_alone(s, other))
            s->grids = other->grids;
        other = other->sibling;
    }
    s->grids += counts;
    return counts && s->grids > (uint32_t)ag_options.grids && !s->num_attrs &&
           !s->function->clusters && ag_grid_is_possible(s->dims);
}

static bool of_any_grid(const struct ag_signature *s, const void *what)
{
    const struct wanted_launch *wanted = what;
    const struct ag_launch *l = wanted->launch;
    return s->any_grid && s->func == l->func && s->branch == wanted->branch &&
           ag_signature_has_block(s, l->dims) && ag_grid_is_possible(l->dims) &&
           !(ag_signature_bad(s) & AG_SIGNATURE_INVALID);
}

static bool was_launch(const struct ag_signature *s, const void *what)
{
    const struct wanted_launch *wanted = what;
    return ag_signature_says(s, wanted->launch, wanted->branch);
}

static void records_grid(struct ag_signature *s)
{
    s->layout.has_grid = true;
    s->layout.recorded_bytes += sizeof(struct ag_recorded_grid);
}

/* From now on it stands for all grids that are not known. Known ones have new signatures, which
 * record their grid, too. */
static void becomes_any_grid(struct ag_signature *s, const struct ag_launch *launch)
{
    for (struct ag_signature *o = s->function->signatures; o; o = o->sibling)
        if (differs_in_grid_alone(s, o))
            atomic_fetch_or(&o->bad, AG_SIGNATURE_INVALID);
    records_grid(s);
    s->any_grid = true;
    s->hash = hash_of_any_grid(launch, s->branch);
    memset(s->dims, 0, 3 * sizeof(*s->dims));
    ag_count(AG_COUNT_ANY_GRID);
}

/* `any`: that of any grid, of which this one is known; or NULL. */
static struct ag_signature *make_launch(uint64_t hash, const struct ag_launch *l, uint8_t branch,
                                        const struct ag_signature *any, bool counts,
                                        const char **why)
{
    struct ag_function *f = ag_function_get(&tables.functions, l->func, l->stream, true);
    if (!f || !f->usable) {
        *why = "kernel of unknown or too many parameters";
        return NULL;
    }
    if (f->immediate) {
        *why = "collective kernel";
        return NULL;
    }
    if (f->may_launch) {
        *why = "kernel that may launch kernels (dynamic parallelism)";
        return NULL;
    }
    if (!ag_launch_has_arguments(l, &f->layout)) {
        *why = "launch without arguments";
        return NULL;
    }
    if (!attributes_are_known(l)) {
        *why = "launch attribute";
        return NULL;
    }
    CUlaunchAttribute *attrs = NULL;
    if (l->num_attrs) {
        attrs = calloc(l->num_attrs, sizeof(*attrs));
        if (!attrs)
            return NULL;
        for (unsigned int i = 0; i < l->num_attrs; i++) {
            attrs[i].id = l->attrs[i].id;
            memcpy(&attrs[i].value, &l->attrs[i].value, ag_attribute_size(&attrs[i]));
        }
    }
    struct ag_signature made = {.kind = AG_OP_LAUNCH,
                                .branch = branch,
                                .hash = hash,
                                .func = l->func,
                                .num_attrs = l->num_attrs,
                                .attrs = attrs,
                                .function = f,
                                .layout = f->layout};
    memcpy(made.dims, l->dims, sizeof(made.dims));
    made.proven = proven_but_for_grid(&made);
    if (any)
        records_grid(&made);
    else if (has_many_grids(&made, counts))
        becomes_any_grid(&made, l);
    struct ag_signature *s = insert(&made);
    if (!s) {
        free(attrs);
        return NULL;
    }
    s->sibling = f->signatures;
    f->signatures = s;
    return s;
}

struct ag_signature *ag_signature_cached(const struct ag_signature_cache *cache,
                                         const struct ag_launch *l, uint8_t branch, uint64_t *hash)
{
    *hash = hash_of_launch(l, branch);
    if (l->num_attrs)
        *hash = hash_attributes(*hash, l);
    struct ag_signature *s = cache->entries[*hash & (AG_SIGNATURE_CACHE - 1)];
    return s && s->hash == *hash && ag_signature_says(s, l, branch) &&
                   !(ag_signature_bad(s) & AG_SIGNATURE_INVALID)
               ? s
               : NULL;
}

struct ag_signature *ag_signature_ask(struct ag_signature_cache *cache, const struct ag_launch *l,
                                      uint8_t branch, uint64_t hash, bool counts, const char **why)
{
    *why = "no memory";
    ag_lock(&lock, AG_RANK_SIGNATURES);
    struct wanted_launch wanted = {l, branch};
    struct ag_signature *signature = find(hash, same_launch, &wanted), *any = NULL;
    if (!signature && !l->num_attrs)
        any = find(hash_of_any_grid(l, branch), of_any_grid, &wanted);
    if (any && !find(hash, was_launch, &wanted))
        signature = any;
    if (!signature)
        signature = make_launch(hash, l, branch, any, counts, why);
    ag_unlock(&lock);
    if (signature && !signature->any_grid) /* that of another grid may come to the same place */
        cache->entries[hash & (AG_SIGNATURE_CACHE - 1)] = signature;
    return signature;
}

bool ag_signatures_know(CUfunction func)
{
    ag_lock(&lock, AG_RANK_SIGNATURES);
    bool knows = ag_function_get(&tables.functions, func, NULL, false);
    ag_unlock(&lock);
    return knows;
}

static bool same_sizes(const struct ag_signature *s, const void *what)
{
    const struct ag_signature *o = what;
    return s->kind == o->kind && s->branch == o->branch && s->elem_size == o->elem_size &&
           s->movable == o->movable && s->reads == o->reads && s->width == o->width &&
           !memcmp(&s->rows, &o->rows, sizeof(s->rows));
}

static struct ag_signature *of_sizes(struct ag_signature_cache *cache, struct ag_signature *wanted)
{
    uint64_t hash = ag_digest_word(
        wanted->kind, wanted->elem_size | (uint64_t)wanted->movable << 8 |
                          (uint64_t)wanted->reads << 9 | (uint64_t)wanted->branch << 16);
    hash = ag_digest_word(ag_digest_word(ag_digest_word(hash, wanted->width), wanted->rows.height),
                          wanted->rows.dst_pitch);
    if (wanted->rows.depth)
        hash = ag_digest_word(ag_digest_word(hash, wanted->rows.depth), wanted->rows.src_pitch);
    wanted->hash = hash;
    struct ag_signature **slot = &cache->entries[hash & (AG_SIGNATURE_CACHE - 1)];
    if (*slot && (*slot)->hash == hash && same_sizes(*slot, wanted))
        return *slot;
    ag_lock(&lock, AG_RANK_SIGNATURES);
    struct ag_signature *signature = find(hash, same_sizes, wanted);
    if (!signature)
        signature = insert(wanted);
    ag_unlock(&lock);
    if (signature)
        *slot = signature;
    return signature;
}

struct ag_signature *ag_signature_of(struct ag_signature_cache *cache, const struct ag_incoming *in,
                                     const char **why)
{
    struct ag_signature wanted = {.kind = (uint8_t)in->kind,
                                  .branch = in->branch,
                                  .movable = in->movable,
                                  .layout.recorded_bytes =
                                      in->kind >= AG_OP_RECORD ? 0 : 2 * sizeof(uint64_t)};
    struct ag_signature *signature;
    uint64_t hash;
    switch (in->kind) {
    case AG_OP_LAUNCH:
        signature = ag_signature_cached(cache, in->launch, in->branch, &hash);
        return signature ? signature
                         : ag_signature_ask(cache, in->launch, in->branch, hash, true, why);
    case AG_OP_MEMSET:
        wanted.elem_size = (uint8_t)in->fill->elem_size;
        wanted.width = in->fill->width;
        wanted.rows.height = in->fill->height;
        wanted.rows.dst_pitch = in->fill->height > 1 ? in->fill->pitch : 0;
        break;
    case AG_OP_COPY:
        wanted.width = in->copy->bytes;
        wanted.reads = in->reads;
        wanted.rows = in->copy->rows;
        break;
    case AG_OP_WAIT:
        wanted.width = in->distance;
        break;
    case AG_OP_RECORD:
        break;
    }
    return of_sizes(cache, &wanted);
}

/* ---- functions -------------------------------------------------------------------------- */

_Atomic uint32_t ag_disproofs;

void ag_signature_belongs_to(const struct ag_signature *signature, CUcontext ctx)
{
    struct ag_function *f = (struct ag_function *)(uintptr_t)signature->function;
    if (!f || f->is_kernel)
        return;
    ag_lock(&lock, AG_RANK_SIGNATURES);
    f->ctx = ctx;
    f->taken = true;
    ag_unlock(&lock);
}

void ag_signatures_disprove(uint64_t context)
{
    ag_lock(&lock, AG_RANK_SIGNATURES);
    atomic_fetch_add(&ag_disproofs, 1);
    for (uint32_t i = 0; i < tables.num_buckets; i++)
        for (struct ag_signature *s = tables.buckets[i]; s; s = s->next)
            atomic_fetch_and_explicit(&s->proven, ~context, memory_order_relaxed);
    ag_unlock(&lock);
}

/* An attribute of the kernel changes: the driver may refuse what it took before. */
static void disprove_kernel(const struct ag_kernel *kernel, int attribute)
{
    atomic_fetch_add(&ag_disproofs, 1);
    for (struct ag_function *f = tables.functions.functions; f; f = f->handle.next) {
        if (f->kernel != kernel)
            continue;
        f->clusters = f->clusters || attribute >= CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET;
        for (struct ag_signature *s = f->signatures; s; s = s->sibling) {
            atomic_store_explicit(&s->proven, 0, memory_order_relaxed);
            if (f->clusters && s->any_grid)
                atomic_fetch_or(&s->bad, AG_SIGNATURE_INVALID);
        }
    }
}

void ag_function_disprove(CUfunction func, int attribute)
{
    ag_lock(&lock, AG_RANK_SIGNATURES);
    const struct ag_kernel *kernel = ag_kernel_find(&tables.functions, func);
    if (kernel)
        disprove_kernel(kernel, attribute);
    ag_unlock(&lock);
}

enum ag_change ag_function_setting_begins(CUfunction func, int attribute, int value, int device,
                                          const struct ag_kernel **kernel)
{
    *kernel = NULL;
    ag_lock(&lock, AG_RANK_SIGNATURES);
    enum ag_change change =
        ag_setting_begins(&tables.functions, func, attribute, value, device, kernel);
    if (change == AG_CHANGES_GRAPHS)
        disprove_kernel(*kernel, attribute);
    ag_unlock(&lock);
    return change;
}

void ag_function_setting_ends(CUfunction func, int attribute, int value, int device, bool done)
{
    ag_lock(&lock, AG_RANK_SIGNATURES);
    ag_setting_ends(&tables.functions, func, attribute, value, device, done);
    ag_unlock(&lock);
}

bool ag_function_waits(CUfunction func, CUstream stream)
{
    ag_lock(&lock, AG_RANK_SIGNATURES);
    const struct ag_function *f = ag_function_get(&tables.functions, func, stream, true);
    bool waits = !f || f->immediate;
    ag_unlock(&lock);
    return waits;
}

bool ag_signatures_invalidate(enum ag_owner kind, void *owner)
{
    ag_lock(&lock, AG_RANK_SIGNATURES);
    struct ag_signature_tables *t = &tables;
    bool any = ag_functions_invalidate(&t->functions, kind, owner);
    for (uint32_t i = 0; any && i < t->num_buckets; i++)
        for (struct ag_signature **at = &t->buckets[i], *s; (s = *at);) {
            if (!s->function || !s->function->invalid) {
                at = &s->next;
                continue;
            }
            atomic_fetch_or(&s->bad, AG_SIGNATURE_INVALID);
            *at = s->next;
            LL_PREPEND(t->invalid, s);
            t->num_invalid++;
        }
    ag_unlock(&lock);
    return any;
}

void ag_signature_refused(const struct ag_signature *signature, CUresult result)
{
    if (result != CUDA_ERROR_OUT_OF_MEMORY && !ag_error_ends_context(result))
        atomic_fetch_or(&((struct ag_signature *)(uintptr_t)signature)->bad, AG_SIGNATURE_FAILED);
}

void ag_signature_lacked_fence(const struct ag_signature *signature)
{
    atomic_store_explicit(&((struct ag_signature *)(uintptr_t)signature)->fence, true,
                          memory_order_relaxed);
}

/* ---- the end ---------------------------------------------------------------------------- */

struct ag_signature_tables ag_signatures_detach(void)
{
    ag_lock(&lock, AG_RANK_SIGNATURES);
    struct ag_signature_tables old = tables;
    tables = (struct ag_signature_tables){.num_buckets = 0};
    atomic_store_explicit(&ag_signatures_full, false, memory_order_relaxed);
    ag_unlock(&lock);
    return old;
}

static void free_list(struct ag_signature *s)
{
    for (struct ag_signature *next; s; s = next) {
        next = s->next;
        free(s->attrs);
        free(s);
    }
}

void ag_signatures_destroy(struct ag_signature_tables *old)
{
    for (uint32_t i = 0; i < old->num_buckets; i++)
        free_list(old->buckets[i]);
    free_list(old->invalid);
    ag_functions_destroy(&old->functions);
    free(old->buckets);
}
