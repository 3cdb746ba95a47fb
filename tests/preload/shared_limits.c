/*
 * shared_limits.c - a kernel whose most dynamic shared memory is set to and fro in every step, as
 * cuDNN does for batch normalisation: its graphs stay, and a launch that takes more than is allowed
 * at that moment is refused as it would have been. Runs under the whole library on the simulated
 * driver.
 */
#include "tests/simdriver/simprog.h"

enum { LARGE = 16384, SMALL = 4096, STEPS = 100 };

static CUkernel kernel;
static CUstream stream;
static CUdeviceptr x;
static uint64_t expected;

static CUresult launch(unsigned int shared, uint64_t k)
{
    CUresult r = cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 1, 1, 1, shared, stream,
                                (void *[]){&x, &k}, NULL);
    if (r == CUDA_SUCCESS)
        expected = expected * 31 + k;
    return r;
}

static void allow(int bytes)
{
    CHECK(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes, kernel, 0));
}

static void step(void)
{
    CHECK(launch(0, 1));
    allow(LARGE);
    CHECK(launch(LARGE, 2));
    CHECK(launch(0, 3));
    allow(SMALL);
    CHECK(launch(SMALL, 4));
    CHECK(launch(0, 5));
    CHECK(launch(0, 6));
    CHECK(cuStreamSynchronize(stream));
}

int main(void)
{
    ag_prog_start();
    CUlibrary library;
    CHECK(cuLibraryLoadData(&library, SIMCUDA_IMAGE_MAGIC, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(cuLibraryGetKernel(&kernel, library, "hash"));
    x = ag_prog_alloc(8);
    expected = ag_prog_read64(x);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < STEPS; i++)
        step();
    uint64_t graphs = cuSimCallCount("cuGraphLaunch");
    step();
    REQUIRE(cuSimCallCount("cuGraphLaunch") - graphs >= 2); /* before and behind the lower limit */
    /* what is held back of LARGE is submitted while it is allowed, what comes later is refused */
    CHECK(launch(0, 1));
    allow(LARGE);
    CHECK(launch(LARGE, 2));
    allow(SMALL);
    EXPECT(launch(LARGE, 2), CUDA_ERROR_INVALID_VALUE);
    EXPECT(
        cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1 << 30, kernel, 0),
        CUDA_ERROR_INVALID_VALUE);
    EXPECT(launch(LARGE, 2), CUDA_ERROR_INVALID_VALUE);
    CHECK(launch(SMALL, 4));
    allow(LARGE);
    CHECK(launch(LARGE, 7));
    CHECK(cuStreamSynchronize(stream));
    REQUIRE(ag_prog_read64(x) == expected);
    return 0;
}
