/*
 * prog_exit.c - a program that ends in an awkward way: `prog_exit pending` returns from main with
 * work that never ends, `prog_exit atexit` makes its last driver calls in an atexit handler.
 */
#include "tests/simdriver/simprog.h"

static CUdeviceptr x;
static CUfunction hash;

static void last_calls(void)
{
    CHECK(ag_prog_hash(hash, NULL, x, 1));
    CHECK(cuCtxSynchronize());
    printf("value %llu\n", (unsigned long long)ag_prog_read64(x));
    CHECK(cuDevicePrimaryCtxRelease_v2(0));
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "atexit"))
        atexit(last_calls);
    ag_prog_start();
    CUmodule m = ag_prog_module();
    hash = ag_prog_function(m, "hash");
    x = ag_prog_alloc(8);
    if (argc == 2 && !strcmp(argv[1], "pending")) {
        unsigned int *flag, one = 1;
        void *none = NULL;
        CUstream s;
        CHECK(cuMemHostAlloc((void **)&flag, 4, 0));
        *flag = 0;
        CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
        CHECK(ag_prog_launch(ag_prog_function(m, "poll"), s, (void *[]){&flag, &one, &none}));
        for (uint64_t k = 0; k < 1000; k++)
            CHECK(ag_prog_hash(hash, s, x, k));
        puts("leaving");
    }
    return 0;
}
