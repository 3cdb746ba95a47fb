/*
 * eager_stream.c - an attribute is set on one of two streams whose launches are replayed: that
 * stream is submitted eagerly from then on, the other is not. Runs under the whole library on the
 * simulated driver, with AUTOGRAPH_TEST_BUILD=inline and AUTOGRAPH_TEST_PROFIT=0.
 */
#include "tests/simdriver/simprog.h"

enum { STEPS = 60, LAUNCHES = 10 };

static CUfunction hash;
static CUdeviceptr x[2];
static uint64_t expected[2];
static CUstream stream[2];

static void launches(int which, uint64_t n)
{
    for (uint64_t k = 0; k < n; k++) {
        CHECK(ag_prog_hash(hash, stream[which], x[which], k));
        expected[which] = expected[which] * 31 + k;
    }
}

/* Graphs launched by some steps. */
static uint64_t graphs_of(int which)
{
    uint64_t before = cuSimCallCount("cuGraphLaunch");
    for (int step = 0; step < STEPS; step++) {
        launches(which, LAUNCHES);
        CHECK(cuStreamSynchronize(stream[which]));
    }
    return cuSimCallCount("cuGraphLaunch") - before;
}

int main(void)
{
    ag_prog_start();
    hash = ag_prog_function(ag_prog_module(), "hash");
    for (int i = 0; i < 2; i++) {
        x[i] = ag_prog_alloc(8);
        CHECK(cuStreamCreate(&stream[i], CU_STREAM_NON_BLOCKING));
    }
    CHECK(cuCtxSynchronize());
    REQUIRE(graphs_of(0) > 0 && graphs_of(1) > 0);
    launches(0, LAUNCHES / 2); /* these may be deferred */
    CUstreamAttrValue value = {.priority = 0};
    CHECK(cuStreamSetAttribute(stream[0], CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
    REQUIRE(graphs_of(0) == 0);
    REQUIRE(graphs_of(1) > 0);
    for (int i = 0; i < 2; i++)
        REQUIRE(ag_prog_read64(x[i]) == expected[i]);
    return 0;
}
