/*
 * attribute.h - launch attributes: which may be recorded, and which of their bytes mean something.
 *
 * Programs write one on the stack and set its id and one member of the value: the rest of the 72
 * bytes is whatever was there. Only what the id defines is compared, hashed, and kept.
 */
#ifndef AG_ATTRIBUTE_H
#define AG_ATTRIBUTE_H

#include "driver/entries.h"
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum { AG_ATTRIBUTE_IDS = 17 };

/* By id: one more than the bytes of the value that it defines (cuda.h, CUlaunchAttributeValue); 0
 * for those that must not be recorded. */
extern const unsigned char ag_attribute_bytes[AG_ATTRIBUTE_IDS];

static inline bool ag_attribute_is_known(const CUlaunchAttribute *a)
{
    return (unsigned int)a->id < AG_ATTRIBUTE_IDS && ag_attribute_bytes[a->id];
}

/* Bytes of the value that mean something; `a` is known. */
static inline size_t ag_attribute_size(const CUlaunchAttribute *a)
{
    return ag_attribute_bytes[a->id] - 1u;
}

/* Whether `n` attributes mean the same; those of `known` are all known. */
static inline bool ag_attributes_equal(const CUlaunchAttribute *known, const CUlaunchAttribute *b,
                                       unsigned int n)
{
    for (unsigned int i = 0; i < n; i++)
        if (known[i].id != b[i].id ||
            memcmp(&known[i].value, &b[i].value, ag_attribute_size(&known[i])) != 0)
            return false;
    return true;
}

#endif
