/*
 * machine.c - what the fuzz program asks of the simulated driver, where the driver may be real.
 *
 * On the simulated driver each call goes on to it. On a real one the kernels come from
 * fuzz_kernels.fatbin beside the program, and nobody tells what ran on a stream or counts misuse.
 */
#define _GNU_SOURCE
#include "examples/common/example.h"
#include "tests/fuzz/kernels.h"
#include "tests/simdriver/simcuda.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

/* The simulated driver's function of that name; NULL on a real driver. */
#define OF_DRIVER(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* Before anybody defers or polls: dlsym is no part of what is tested. */
static __typeof__(&cuSimCheck) check;

int cuSimRegisterKernel(const char *name, cuSimKernelFn fn, unsigned int nparams,
                        const size_t *offsets, const size_t *sizes, unsigned int flags)
{
    __typeof__(&cuSimRegisterKernel) f = OF_DRIVER(cuSimRegisterKernel);
    check = OF_DRIVER(cuSimCheck);
    return f ? f(name, fn, nparams, offsets, sizes, flags) : 0;
}

int cuSimCheck(const void *addr, size_t bytes)
{
    return check(addr, bytes); /* only the simulated driver's kernels ask */
}

void cuSimSpare(int on)
{
    __typeof__(&cuSimSpare) f = OF_DRIVER(cuSimSpare);
    if (f)
        f(on);
}

void cuSimLogStart(void)
{
    __typeof__(&cuSimLogStart) f = OF_DRIVER(cuSimLogStart);
    if (f)
        f();
}

void cuSimLogClear(void)
{
    __typeof__(&cuSimLogClear) f = OF_DRIVER(cuSimLogClear);
    if (f)
        f();
}

char *cuSimLogText(const char *kind, uint64_t stream, int order)
{
    __typeof__(&cuSimLogText) f = OF_DRIVER(cuSimLogText);
    return f ? f(kind, stream, order) : NULL;
}

uint64_t cuSimMisuseCount(void)
{
    __typeof__(&cuSimMisuseCount) f = OF_DRIVER(cuSimMisuseCount);
    return f ? f() : 0;
}

uint64_t cuSimUnsupportedCount(void)
{
    __typeof__(&cuSimUnsupportedCount) f = OF_DRIVER(cuSimUnsupportedCount);
    return f ? f() : 0;
}

static void *read_file(const char *path)
{
    FILE *in = fopen(path, "rb");
    long size = in && !fseek(in, 0, SEEK_END) ? ftell(in) : -1;
    void *bytes = size > 0 ? malloc((size_t)size) : NULL;
    if (!bytes || fseek(in, 0, SEEK_SET) || fread(bytes, 1, (size_t)size, in) != (size_t)size) {
        fprintf(stderr, "fuzz: %s cannot be read\n", path);
        exit(2);
    }
    fclose(in);
    return bytes;
}

const void *fz_image(void)
{
    static const void *image;
    if (image)
        return image;
    if (OF_DRIVER(cuSimRegisterKernel)) {
        image = SIMCUDA_IMAGE_MAGIC;
    } else {
        char *path = ex_beside_program("fuzz_kernels.fatbin");
        image = read_file(path);
        free(path);
    }
    return image;
}
