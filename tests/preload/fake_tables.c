/* fake_tables.c - the export tables of fake_libcuda.c; like it, it includes no CUDA header. */
#include "fake_tables.h"

#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

int cuMemAlloc_v2(void);
int cuCtxGetLimit(void);
int cuGetExportTable(const void **table, const unsigned char *id);

static uint64_t integers(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f,
                         uint64_t g, uint64_t h, uint64_t i, uint64_t j)
{
    uint64_t all[] = {a, b, c, d, e, f, g, h, i, j}, sum = 0;
    for (int n = 0; n < 10; n++)
        sum = sum * 31 + all[n];
    return sum;
}

static double mixed(uint64_t a, double b, uint64_t c, double d, uint64_t e, double f, uint64_t g,
                    double h, uint64_t i, double j, uint64_t k, double l, uint64_t m, double n,
                    uint64_t o, double p, uint64_t q, double r)
{
    double floating = b + 10 * d + 100 * f + 1e3 * h + 1e4 * j + 1e5 * l + 1e6 * n + 1e7 * p;
    return floating + 1e8 * r + 0.5 * (double)integers(a, c, e, g, i, k, m, o, q, 0);
}

static struct fake_pair pair(uint64_t a, uint64_t b)
{
    return (struct fake_pair){b, a};
}

static struct fake_many many(uint64_t a, uint64_t b)
{
    return (struct fake_many){{a, b, a + 1, b + 1, a + 2, b + 2, a + 3, b + 3}};
}

static int variable;
static const struct fake_table table = {
    sizeof(table), integers, NULL, mixed, pair, many, (void *)cuMemAlloc_v2, (void *)cuCtxGetLimit,
};
static void *const no_size[4] = {(void *)integers, (void *)mixed};
static void *const too_small[4] = {(void *)8, (void *)integers};
static void *const odd[4] = {(void *)20, (void *)integers};
static void *const too_large[4] = {(void *)(1 << 20), (void *)integers};
static void *const outside[4] = {(void *)32, (void *)integers, (void *)memcmp};
static void *const with_data[4] = {(void *)32, (void *)integers, &variable};
static void *all_functions[1024];

static __thread const void **place; /* of the thread's latest answer */

const void **fake_table_place(void);
EXPORT const void **fake_table_place(void)
{
    return place;
}

EXPORT int cuGetExportTable(const void **answer, const unsigned char *id)
{
    place = answer;
    *answer = NULL;
    switch (id[0]) {
    case FAKE_TABLE_NO_SIZE:
        *answer = no_size;
        return 0;
    case FAKE_TABLE_TOO_SMALL:
        *answer = too_small;
        return 0;
    case FAKE_TABLE_ODD:
        *answer = odd;
        return 0;
    case FAKE_TABLE_TOO_LARGE:
        *answer = too_large;
        return 0;
    case FAKE_TABLE_OUTSIDE:
        *answer = outside;
        return 0;
    case FAKE_TABLE_DATA:
        *answer = with_data;
        return 0;
    case FAKE_TABLE_ON_HEAP: {
        static void **copy;
        if (!copy && (copy = malloc(sizeof(table))))
            memcpy(copy, &table, sizeof(table));
        *answer = copy;
        return 0;
    }
    case FAKE_TABLE_LONG:
        all_functions[0] = (void *)sizeof(all_functions);
        for (int i = 1; i < 1024; i++)
            all_functions[i] = (void *)integers;
        *answer = all_functions;
        return 0;
    case FAKE_TABLE_NONE:
        return 0;
    case 0:
        return 500; /* not found */
    default:        /* the ids that the library knows too */
        *answer = &table;
        return 0;
    }
}
