/*
 * attribute.h - launch attributes: which may be recorded, and which of their bytes mean something.
 *
 * Programs write an attribute on the stack and set its id and one member of its value. The rest of
 * the 72 bytes is whatever was there before. So the library compares, hashes and keeps only the
 * bytes that the id defines.
 */
#pragma once

#include "driver/entries.h"
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum { AG_ATTRIBUTE_IDS = 17 };

/* Indexed by id: one more than the number of bytes of the value that the id defines (cuda.h,
 * CUlaunchAttributeValue); 0 for attributes that must not be recorded. */
extern const unsigned char ag_attribute_bytes[AG_ATTRIBUTE_IDS];

static inline bool ag_attribute_is_known(const CUlaunchAttribute *a)
{
    return (unsigned int)a->id < AG_ATTRIBUTE_IDS && ag_attribute_bytes[a->id];
}

/* How many bytes of the value mean something. `a` must be known. */
static inline size_t ag_attribute_size(const CUlaunchAttribute *a)
{
    return ag_attribute_bytes[a->id] - 1u;
}

/* Whether `n` attributes mean the same. All those in `known` must be known. */
static inline bool ag_attributes_equal(const CUlaunchAttribute *known, const CUlaunchAttribute *b,
                                       unsigned int n)
{
    for (unsigned int i = 0; i < n; i++)
        if (known[i].id != b[i].id ||
            memcmp(&known[i].value, &b[i].value, ag_attribute_size(&known[i])) != 0)
            return false;
    return true;
}
