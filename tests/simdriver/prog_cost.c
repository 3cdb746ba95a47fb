/* prog_cost.c - what the simulated driver's own calls cost: host ns a launch, and with execution.
 */
#include "tests/simdriver/simprog.h"

int main(void)
{
    enum { STEPS = 2000, LAUNCHES = 20 };
    ag_prog_start();
    CUfunction hash = ag_prog_function(ag_prog_module(), "hash");
    CUdeviceptr x = ag_prog_alloc(8);
    CUstream s;
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    CHECK(cuCtxSynchronize());
    uint64_t expected = 0;
    double begin = ag_prog_seconds(), submitting = 0;
    for (int step = 0; step < STEPS; step++) {
        double from = ag_prog_seconds();
        for (uint64_t k = 0; k < LAUNCHES; k++) {
            CHECK(ag_prog_hash(hash, s, x, k));
            expected = expected * 31 + k;
        }
        submitting += ag_prog_seconds() - from;
        CHECK(cuStreamSynchronize(s));
    }
    double all = ag_prog_seconds() - begin;
    printf("submit %.0f ns, with execution and sync %.0f ns a launch\n",
           submitting * 1e9 / (STEPS * LAUNCHES), all * 1e9 / (STEPS * LAUNCHES));
    const char *mode = getenv("SIMCUDA_MODE");
    REQUIRE((mode && !strcmp(mode, "null")) || ag_prog_read64(x) == expected);
    return 0;
}
