/*
 * setting.c - the attributes that the program sets for a function, and what they mean for recorded
 * ops.
 *
 * In general a graph keeps the values that were set when it was built. So if a value changes, all
 * graphs with the kernel are dropped. The maximum of dynamic shared memory is different: it
 * permits or refuses a launch, but changes nothing that the launch does. Libraries change it back
 * and forth in every step (cuDNN's batch normalisation in training: 16 KiB for one layer, 4 KiB
 * for the next). So graphs stay. A launch that needs more than is allowed now goes to the driver,
 * which refuses it, until the limit is raised again.
 */
#include "capture/tracking/setting.h"
#include "driver/call.h"
#include "capture/tracking/signature.h"
#include <stdlib.h>
#include <utlist.h>

static bool sets_limit(int attribute)
{
    return attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
}

static struct ag_setting *find(struct ag_setting *list, CUfunction func, int attribute, int device)
{
    while (list && (list->func != func || list->attribute != attribute || list->device != device))
        list = list->next;
    return list;
}

/* Returns false without memory. */
static bool put(struct ag_setting **list, CUfunction func, int attribute, int device, int value)
{
    struct ag_setting *s = find(*list, func, attribute, device);
    if (!s) {
        s = calloc(1, sizeof(*s));
        if (!s)
            return false;
        s->func = func;
        s->attribute = attribute;
        s->device = device;
        LL_PREPEND(*list, s);
    }
    s->value = value;
    return true;
}

/* A call failed, so nobody knows the value. */
static void discard(struct ag_setting **list, CUfunction func, int attribute, int device)
{
    struct ag_setting *s = find(*list, func, attribute, device);
    if (s)
        LL_DELETE(*list, s);
    free(s);
}

/* Discards values that the new one may have replaced. Another handle may mean the same kernel,
 * unless both are known to have owners, and these differ. A function belongs to a context, and the
 * library does not ask which device that context is on. */
static void invalidate_overlapping(struct ag_setting **list, CUfunction func, int attribute,
                                   int value, int device, const void *owner)
{
    for (struct ag_setting **at = list, *s; (s = *at);)
        if (s->attribute == attribute &&
            (s->device != device || (s->func != func && s->value != value &&
                                     (!owner || !s->owner || s->owner == owner))) &&
            (s->device == device || s->device == AG_ANY_DEVICE || device == AG_ANY_DEVICE)) {
            *at = s->next;
            free(s);
        } else {
            at = &s->next;
        }
}

/* Whether a value that is set through this handle affects only launches through the same handle.
 * The library assumes so if all handles are CUkernels, or all are CUfunctions (a kernel has one
 * per context). But a CUkernel's value also applies to its CUfunctions until they have values of
 * their own (both seen on an H100, driver 580). */
static bool stands_alone(const struct ag_kernel *k, const struct ag_function *f, int device)
{
    unsigned int kind = device == AG_ANY_DEVICE ? AG_HANDLE_FUNCTION : AG_HANDLE_KERNEL;
    return k->kinds == kind && (!f || f->is_kernel == (kind == AG_HANDLE_KERNEL));
}

static bool takes_more(const struct ag_signature *signature, int limit)
{
    return limit < 0 || signature->dims[AG_DIM_SHARED] > (unsigned int)limit;
}

/* A program may set the same limit before each of its launches, of which a function may have
 * thousands of kinds. Then only signatures are looked at that came since all were. */
static const struct ag_signature *looked_at(const struct ag_function *f, CUfunction func,
                                            int attribute, int device, int value)
{
    const struct ag_setting *s = find(f->limits, func, attribute, device);
    return s && s->value == value ? f->marked : NULL;
}

/* Marks signatures over the new limit before the limit takes effect, so that no more of their
 * launches are deferred. */
static enum ag_change limit_begins(struct ag_function *f, int value,
                                   const struct ag_signature *until)
{
    enum ag_change change = AG_CHANGES_NOTHING;
    for (struct ag_signature *signature = f->signatures; signature != until;
         signature = signature->sibling)
        if (takes_more(signature, value) &&
            !(atomic_fetch_or(&signature->bad, AG_SIGNATURE_OVER_LIMIT) & AG_SIGNATURE_OVER_LIMIT))
            change = AG_CHANGES_LIMIT;
    return change;
}

/* Marks signatures by the current values, from the latest down to `until`. A handle may have one
 * value per device, and streams of all devices share its signatures. Where a value may affect other
 * handles, too, graphs are dropped at each change, but marks of this handle must not stay. */
static void mark_signatures(struct ag_function *f, const struct ag_signature *until)
{
    for (struct ag_signature *signature = f->signatures; signature != until;
         signature = signature->sibling) {
        bool over = false;
        for (struct ag_setting *s = f->limits; s; s = s->next)
            over = over || takes_more(signature, s->value);
        if (over)
            atomic_fetch_or(&signature->bad, AG_SIGNATURE_OVER_LIMIT);
        else if (ag_signature_bad(signature) & AG_SIGNATURE_OVER_LIMIT)
            atomic_fetch_and(&signature->bad, (uint8_t)~AG_SIGNATURE_OVER_LIMIT);
    }
    f->marked = f->signatures;
}

enum ag_change ag_setting_begins(struct ag_function_table *t, CUfunction func, int attribute,
                                 int value, int device, const struct ag_kernel **kernel)
{
    struct ag_kernel *k = ag_kernel_find(t, func);
    if (!k)
        return AG_CHANGES_NOTHING;
    struct ag_function *f = ag_function_get(t, func, NULL, false);
    if (sets_limit(attribute) && stands_alone(k, f, device))
        return f ? limit_begins(f, value, looked_at(f, func, attribute, device, value))
                 : AG_CHANGES_NOTHING;
    struct ag_setting *s = find(k->settings, func, attribute, device);
    if (s && s->value == value && !s->under_way)
        return AG_CHANGES_NOTHING;
    const void *owner = f && stands_alone(k, f, device) ? ag_function_owner(f) : NULL;
    invalidate_overlapping(&k->settings, func, attribute, value, device, owner);
    if (put(&k->settings, func, attribute, device, value)) {
        s = find(k->settings, func, attribute, device);
        s->owner = owner;
        s->under_way++;
    }
    *kernel = k;
    return AG_CHANGES_GRAPHS;
}

void ag_setting_ends(struct ag_function_table *t, CUfunction func, int attribute, int value,
                     int device, bool done)
{
    struct ag_kernel *k = ag_kernel_find(t, func);
    struct ag_setting *s = k ? find(k->settings, func, attribute, device) : NULL;
    if (s && (!done || s->value != value)) /* nobody knows which of two came last */
        discard(&k->settings, func, attribute, device);
    else if (s && s->under_way)
        s->under_way--;
    struct ag_function *f = sets_limit(attribute) ? ag_function_get(t, func, NULL, false) : NULL;
    if (!f)
        return;
    const struct ag_signature *until = looked_at(f, func, attribute, device, value);
    if (done)
        invalidate_overlapping(&f->limits, func, attribute, value, device, NULL);
    if (!done || put(&f->limits, func, attribute, device, value))
        mark_signatures(f, until);
}
