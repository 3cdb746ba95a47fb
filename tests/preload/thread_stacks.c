/*
 * thread_stacks.c - a program that takes small stacks for threads of its own: those of the library,
 * which call the driver, are larger. Runs under the whole library on the simulated driver.
 */
#define _GNU_SOURCE
#include "tests/simdriver/simprog.h"

#include <pthread.h>
#include <stdatomic.h>

static _Atomic int threads;

/* In place of the C library's: the library names each of its threads. */
__attribute__((visibility("default"))) int pthread_setname_np(pthread_t thread, const char *name)
{
    pthread_attr_t a;
    size_t bytes = 0;
    REQUIRE(pthread_getattr_np(thread, &a) == 0);
    REQUIRE(pthread_attr_getstacksize(&a, &bytes) == 0);
    pthread_attr_destroy(&a);
    printf("%s %s\n", name, bytes >= 512 * 1024 ? "large" : "small");
    atomic_fetch_add(&threads, 1);
    return 0;
}

int main(void)
{
    enum { STEPS = 100, LAUNCHES = 10 };
    pthread_attr_t a;
    REQUIRE(pthread_attr_init(&a) == 0);
    REQUIRE(pthread_attr_setstacksize(&a, 64 * 1024) == 0);
    REQUIRE(pthread_setattr_default_np(&a) == 0);
    ag_prog_start();
    CUfunction hash = ag_prog_function(ag_prog_module(), "hash");
    CUdeviceptr x = ag_prog_alloc(8);
    CUstream s;
    CHECK(cuStreamCreate(&s, CU_STREAM_DEFAULT));
    for (int step = 0; step < STEPS; step++) {
        for (uint64_t k = 0; k < LAUNCHES; k++)
            CHECK(ag_prog_hash(hash, s, x, k));
        CHECK(cuStreamSynchronize(s));
    }
    REQUIRE(threads > 0);
    return 0;
}
