/*
 * modules.c - two modules and a library whose kernels are launched in steps of their own; one after
 * the other is unloaded, with work held back. What the others are replayed with stays. Runs under
 * the whole library on the simulated driver.
 */
#include "tests/simdriver/simprog.h"

enum { STEPS = 60, LAUNCHES = 8 };

static CUstream stream;
static CUdeviceptr x;
static uint64_t expected;

static void launches(CUfunction hash, int n)
{
    for (uint64_t k = 1; k <= (uint64_t)n; k++) {
        CHECK(ag_prog_hash(hash, stream, x, k));
        expected = expected * 31 + k;
    }
}

static void steps(CUfunction hash, int n)
{
    while (n--) {
        launches(hash, LAUNCHES);
        CHECK(cuStreamSynchronize(stream));
    }
}

/* Replayed from the first step on, with the graphs that there were. */
static int still_replayed(CUfunction hash)
{
    uint64_t built = cuSimCallCount("cuGraphInstantiateWithFlags");
    uint64_t launched = cuSimCallCount("cuGraphLaunch");
    steps(hash, 2);
    return cuSimCallCount("cuGraphInstantiateWithFlags") == built &&
           cuSimCallCount("cuGraphLaunch") - launched >= 2;
}

int main(void)
{
    ag_prog_start();
    CUmodule module[2];
    CUlibrary library;
    CUfunction f[3];
    for (int i = 0; i < 2; i++) {
        module[i] = ag_prog_module();
        f[i] = ag_prog_function(module[i], "hash");
    }
    CHECK(cuLibraryLoadData(&library, SIMCUDA_IMAGE_MAGIC, NULL, NULL, 0, NULL, NULL, 0));
    f[2] = ag_prog_kernel(library, "hash");
    x = ag_prog_alloc(8);
    expected = ag_prog_read64(x);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 3; i++)
        steps(f[i], STEPS);
    for (int i = 0; i < 3; i++)
        REQUIRE(still_replayed(f[i]));

    launches(f[1], LAUNCHES / 2); /* these may be held back */
    CHECK(cuModuleUnload(module[1]));
    REQUIRE(still_replayed(f[0]) && still_replayed(f[2]));

    launches(f[0], LAUNCHES / 2);
    CHECK(cuModuleUnload(module[0]));
    REQUIRE(still_replayed(f[2]));

    launches(f[2], LAUNCHES / 2);
    CHECK(cuLibraryUnload(library));

    module[0] = ag_prog_module(); /* with handles that may have been others' */
    f[0] = ag_prog_function(module[0], "hash");
    steps(f[0], STEPS);
    REQUIRE(still_replayed(f[0]));
    REQUIRE(ag_prog_read64(x) == expected);
    return 0;
}
