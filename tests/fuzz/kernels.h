/* kernels.h - the kernels of fuzz programs, by name and by what they compute. */
#pragma once

#include <stdint.h>

extern const char *const fz_kernel_names[]; /* in the order of enum FZ_MIX ... */

/* Registers them with the simulated driver. */
void fz_kernels_register(void);

/* The module image that has them. */
const void *fz_image(void);

/* The argument of `fz_big`, 4 KB. */
struct fz_big {
    uint64_t word[512];
};
/* The packed arguments of `fz_odd`, whose parts have gaps between them. */
struct fz_odd {
    uint8_t a;
    uint16_t b;
    uint64_t x;
    uint8_t c;
    float d;
    uint8_t e[12];
};
