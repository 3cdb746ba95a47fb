/* fake_libcuda.h - how tests steer and read fake_libcuda.c. */
#pragma once

#include <stdint.h>

struct fake_call {
    const char *name;
    uint64_t args[12];
    double floating;
    unsigned long calls;
};

/* Its own address of a symbol, whatever a hooked dlsym says. */
void *fake_address(const char *name);
/* The last call that reached it. */
struct fake_call *fake_last(void);
/* What the next call answers. */
void fake_next_result(int result);
/* What cuStreamIsCapturing says the next time, and from then on. */
void fake_capturing(int before, int after);
/* dlsym, called from inside libcuda. */
void *fake_dlsym(void *handle, const char *name);
