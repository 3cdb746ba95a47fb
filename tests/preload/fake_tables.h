/* fake_tables.h - the export tables of fake_libcuda.c: what an id answers, and its functions. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The first byte of an id; the others may be anything. */
enum {
    FAKE_TABLE = 1,       /* struct fake_table */
    FAKE_TABLE_NO_SIZE,   /* functions alone */
    FAKE_TABLE_TOO_SMALL, /* a size of one word */
    FAKE_TABLE_ODD,       /* a size that is not of whole words */
    FAKE_TABLE_TOO_LARGE,
    FAKE_TABLE_OUTSIDE, /* with a function of another library */
    FAKE_TABLE_DATA,    /* with a variable of the driver's */
    FAKE_TABLE_ON_HEAP,
    FAKE_TABLE_LONG, /* with more functions than there are stubs left once FAKE_TABLE has some */
    FAKE_TABLE_NONE  /* a NULL pointer */
};

struct fake_pair {
    uint64_t a, b;
};
struct fake_many {
    uint64_t words[8];
};

/* Each result tells all arguments. */
struct fake_table {
    size_t bytes;
    uint64_t (*integers)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                         uint64_t, uint64_t, uint64_t);
    void *none;
    double (*mixed)(uint64_t, double, uint64_t, double, uint64_t, double, uint64_t, double,
                    uint64_t, double, uint64_t, double, uint64_t, double, uint64_t, double,
                    uint64_t, double);
    struct fake_pair (*pair)(uint64_t, uint64_t);
    struct fake_many (*many)(uint64_t, uint64_t);
    void *public_barrier; /* cuMemAlloc_v2 */
    void *public_query;   /* cuCtxGetLimit */
};
